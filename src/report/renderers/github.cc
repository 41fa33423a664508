// SPDX-License-Identifier: Apache-2.0
// Workflow commands of GitHub Actions: each finding becomes an annotation at
// its place in the pull request.
//
//   ::error file=rules.yaml,line=3,col=42,endColumn=44,title=SP203 ...::text
//
// Source: GitHub's "Workflow commands for GitHub Actions". Percent signs and
// line ends are escaped everywhere, colons and commas also in properties.
#include <iterator>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "report/diagnostics_text.h"
#include "report/output.h"
#include "report/renderers/renderers.h"
#include "report/report.h"

namespace shardplan {
namespace {

std::string escaped(std::string_view text, bool property) {
  std::string out;
  for (const char c : text) {
    if (contains(property ? "%\r\n:," : "%\r\n", c)) {
      fmt::format_to(std::back_inserter(out), "%{:02X}", static_cast<int>(c));
    } else {
      out += c;
    }
  }
  return out;
}

// The commands, in the order of Severity.
constexpr const char* kCommands[] = {"notice", "notice", "warning", "error"};

std::string place_text(const Label& label, const std::string& prefix) {
  const Place place = place_of(label.where);
  const std::string& name = label.where.file->name();
  return "file=" +
         escaped(printable((name.starts_with("/") ? "" : prefix) + name),
                 true) +
         ",line=" + std::to_string(place.line) +
         ",col=" + std::to_string(place.column) +
         ",endColumn=" + std::to_string(place.end_column) + ",";
}

std::string annotation(const Diagnostic& diagnostic, const Report& report) {
  std::string text =
      "::" + std::string(nth(kCommands, diagnostic.severity)) + " ";
  if (const Label* label = place_in_file(report, diagnostic)) {
    text += place_text(*label, report.repository_prefix);
  }
  const std::string title = code_id(diagnostic.code) + " " +
                            std::string(code_info(diagnostic.code).name);
  return text + "title=" + escaped(title, true) +
         "::" + escaped(message_text(diagnostic), false) + "\n";
}

}  // namespace

void render_github(const Report& report, const Style&, const TextSink& sink) {
  Output out(sink);
  for (const Diagnostics* diagnostics : {report.diagnostics, report.remarks}) {
    if (diagnostics == nullptr) continue;
    for (const Diagnostic& diagnostic : diagnostics->all()) {
      if (out.refused()) break;
      out.buffer() += annotation(diagnostic, report);
      out.drain();
    }
  }
  out.finish();
}

}  // namespace shardplan
