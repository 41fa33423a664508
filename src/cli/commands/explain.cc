// SPDX-License-Identifier: Apache-2.0
// `shardplan explain CODE`: the page of docs/codes, plainly on a terminal.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/text.h"
#include "cli/code_pages.h"
#include "cli/commands.h"
#include "cli/output.h"

namespace shardplan::cli {
namespace {

std::optional<std::string_view> page_of(Code code) {
  for (const CodePage& page : code_pages()) {
    if (page.path == code_id(code) + ".md") return page.text;
  }
  return std::nullopt;
}

// Markdown as plain text: headings lose their marks and are bold, fences go
// and what they held is indented. The rest reads well as it stands.
std::string plain(std::string_view page, bool colour) {
  std::string text;
  bool fenced = false;
  while (!page.empty()) {
    const std::string_view line = page.substr(0, page.find('\n'));
    page.remove_prefix(std::min(page.size(), line.size() + 1));
    if (line.starts_with("```")) {
      fenced = !fenced;
      continue;
    }
    const size_t marks = line.find_first_not_of('#');
    if (fenced) {
      text += line.empty() ? "" : "    ";
      text += line;
    } else if (marks != 0 && marks != line.npos && line[marks] == ' ') {
      const std::string title(line.substr(marks + 1));
      text += colour ? "\x1b[1m" + title + "\x1b[0m" : title;
    } else {
      text += line;
    }
    text += '\n';
  }
  return text;
}

}  // namespace

Exit run_explain(Context& context) {
  const std::string& word = context.options.arguments[0];
  const std::optional<Code> code = find_code(word);
  if (!code) {
    std::vector<std::string> names;
    for (const CodeInfo& info : all_codes()) {
      names.push_back(code_id(info.code));
      names.emplace_back(info.name);
    }
    auto problem = context.diags.error(
        Code::Usage, {}, "unknown code `" + printable(word) + "`");
    if (const auto near = nearest(word, names)) {
      problem.help("a code with a similar name exists: `" + *near + "`");
    } else {
      problem.help("`shardplan list codes` shows all codes");
    }
    return Exit::CouldNotRun;
  }
  const auto page = page_of(*code);
  SHARDPLAN_CHECK(page.has_value());
  const bool colour =
      style_of(Stream::Out, context.options, context.host).colour;
  return finish_with(context, [&](const TextSink& sink) {
    return sink(plain(*page, colour));
  });
}

}  // namespace shardplan::cli
