// SPDX-License-Identifier: Apache-2.0
// JUnit XML, which CI servers show as test results: one suite for the command,
// and a test case for each finding.
//
//   <testcase classname="SP302 large-replicated-parameter" name="..">
//     <failure type="SP302" message="..">..</failure>
//
// Errors are failures, in agreement with the exit code. Warnings and notes pass
// and have their text as output, since CI servers count every failure alike. A
// run without findings is one case that passes, so that no server mistakes an
// empty suite for a run that did not happen.
//
// Source: the schema of Jenkins's xUnit plugin (junit-10.xsd); `file` and
// `line` follow GitLab and pytest.
#include <algorithm>
#include <string>
#include <string_view>

#include "base/text.h"
#include "base/words.h"
#include "report/diagnostics_text.h"
#include "report/output.h"
#include "report/renderers/renderers.h"
#include "report/report.h"

namespace shardplan {
namespace {

std::string attribute(std::string_view name, std::string_view text) {
  return " " + std::string(name) + "=\"" + xml_text(printable(text)) + "\"";
}

std::string lines_of(const Diagnostic& diagnostic) {
  const std::string text = message_text(diagnostic);
  std::string lines;
  for (std::string_view rest = text; !rest.empty();) {
    lines += xml_text(printable(next_line(rest))) + "\n";
  }
  return lines;
}

std::string test_case(const Diagnostic& diagnostic, const Report& report) {
  const std::string id = code_id(diagnostic.code);
  std::string text =
      "    <testcase" +
      attribute("classname",
                id + " " + std::string(code_info(diagnostic.code).name)) +
      attribute("name", diagnostic.message);
  if (const Label* label = place_in_file(report, diagnostic)) {
    text += attribute("file", label->where.file->name()) +
            attribute("line", std::to_string(place_of(label->where).line));
  }
  const bool fails = diagnostic.severity == Severity::Error;
  const std::string_view element = fails ? "failure" : "system-out";
  text += ">\n      <" + std::string(element);
  if (fails) {
    text += attribute("type", id) + attribute("message", diagnostic.message);
  }
  return text + ">" + lines_of(diagnostic) + "</" + std::string(element) +
         ">\n    </testcase>\n";
}

}  // namespace

void render_junit(const Report& report, const Style&, const TextSink& sink) {
  Output out(sink);
  static const Diagnostics kNone;
  const Diagnostics& found =
      report.diagnostics != nullptr ? *report.diagnostics : kNone;
  const bool is_clean = found.all().empty();
  const auto failures =
      std::ranges::count(found.all(), Severity::Error, &Diagnostic::severity);
  const std::string counts =
      attribute("tests", std::to_string(is_clean ? 1 : found.all().size())) +
      attribute("failures", std::to_string(failures));
  const std::string name = attribute("name", "shardplan " + report.command);
  out.buffer() += "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites" +
                  counts + ">\n  <testsuite" + name + counts +
                  " errors=\"0\" skipped=\"0\">\n";
  if (is_clean) {
    out.buffer() += "    <testcase classname=\"shardplan\"" +
                    attribute("name", "no findings") + "/>\n";
  }
  for (const Diagnostic& diagnostic : found.all()) {
    if (out.refused()) break;
    out.buffer() += test_case(diagnostic, report);
    out.drain();
  }
  out.buffer() += "  </testsuite>\n</testsuites>\n";
  out.finish();
}

}  // namespace shardplan
