// SPDX-License-Identifier: Apache-2.0
// `shardplan explain CODE`: the page of docs/codes, as plain text on a
// terminal; with --matmul the spec of a matrix product, with --algorithm the
// schedule of a collective.
#include <algorithm>
#include <string_view>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "cli/commands.h"
#include "cli/flag_values.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/pages.h"
#include "cli/views/algorithm_report.h"
#include "cli/views/matmul_report.h"
#include "core/mesh.h"

namespace shardplan::cli {
namespace {

std::string_view page_of(Code code) {
  const auto page =
      std::ranges::find(code_pages(), code_id(code) + ".md", &Page::path);
  SHARDPLAN_CHECK(page != code_pages().end());
  return page->text;
}

}  // namespace

Exit run_explain(Context& context) {
  const Options& options = context.options;
  std::vector<std::string> subjects = options.arguments;
  if (options.explain.matmul != nullptr) subjects.emplace_back("--matmul");
  if (options.explain.algorithm) subjects.emplace_back("--algorithm");
  if (subjects.size() > 1) {
    context.diags
        .error(Code::Usage, {},
               "both `" + subjects[0] + "` and `" + subjects[1] + "` are given")
        .help("explain one at a time");
    return Exit::CouldNotRun;
  }
  if (options.explain.algorithm) {
    return finish(context, algorithm_report(options.explain, context.diags));
  }
  if (options.explain.matmul != nullptr) {
    return finish(context,
                  matmul_report(options.explain.matmul, options.planning.parity,
                                context.diags));
  }
  if (options.arguments.empty()) {
    context.diags
        .error(Code::Usage, {},
               "`explain` needs CODE, `--matmul` or `--algorithm`")
        .help("usage: `shardplan explain SP203`")
        .help("`shardplan list codes` shows all codes");
    return Exit::CouldNotRun;
  }
  const std::string& word = options.arguments[0];
  const std::optional<Code> code = find_code(word);
  if (!code) {
    suggest(context.diags.error(Code::Usage, {},
                                "unknown code " + in_backticks(word)),
            word, code_words(), "`shardplan list codes` shows all codes");
    return Exit::CouldNotRun;
  }
  const bool colour =
      style_of(Stream::Out, options.output, context.host).colour;
  return finish_text(context, plain_page(page_of(*code), colour));
}

std::vector<Flag> explain_flags() {
  return {
      {"matmul", Takes::Text, "SPECS", "Inputs",
       "describe a matrix product instead: \"P(dp, None) @ P(None, tp)\"",
       "explain",
       [](auto& s, auto& o, auto&) { o.explain.matmul = source_of(s); }, false,
       false},
      {"algorithm", Takes::Choice, "NAME", "Inputs",
       "collective algorithm to draw over --ranks (explain) or to run where "
       "supported (simulate)",
       "explain simulate",
       [](auto& s, auto& o, auto&) {
         o.explain.algorithm = s.value;
         o.simulate.algorithm = s.value;
       },
       false, true, algorithm_names},
      {"ranks", Takes::Text, "N", "Inputs", "number of ranks in the schedule",
       "explain",
       [](auto& s, auto& o, auto& d) {
         o.explain.ranks = integer_of(s, 1, kMaxDevices, d);
       },
       false, false},
      {"kind", Takes::Choice, "COLLECTIVE", "Inputs",
       "collective to schedule (default all-reduce)", "explain",
       [](auto& s, auto& o, auto&) { o.explain.kind = s.value; }, false, false,
       collective_names},
      {"inner", Takes::Text, "K", "Inputs",
       "neighbouring ranks on the fast axis, for hierarchical", "explain",
       [](auto& s, auto& o, auto& d) {
         o.explain.inner = integer_of(s, 1, kMaxDevices, d);
       },
       false, false},
  };
}

void validate_explain(std::span<const Setting> given, const Options& options,
                      Diagnostics& diags) {
  if (options.planning.parity && !options.explain.matmul) {
    diags.error(Code::Usage, {}, "`--parity` needs `--matmul`");
  }
  constexpr std::string_view kOfSchedules = "ranks kind inner expand";
  for (const Setting& setting : given) {
    if (!options.explain.algorithm &&
        has_word(kOfSchedules, setting.flag->name)) {
      diags.error(Code::Usage, {}, title_of(setting) + " needs `--algorithm`");
    }
  }
  if (options.output.format_was_given && !options.explain.matmul &&
      !options.explain.algorithm) {
    diags.error(Code::Usage, {}, "the page of a code is text only")
        .help("reports of `--matmul` and `--algorithm` have other formats");
  }
}

}  // namespace shardplan::cli
