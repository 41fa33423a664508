// SPDX-License-Identifier: Apache-2.0
// Rules from tables in which digits of names stand as `*`.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "core/folded_key.h"
#include "resolve/lint.h"

namespace shardplan {
namespace {

// The names, with the numbers between dots folded, that one name with every
// digit folded stands for, each with the number of its first class.
using Merged = std::map<std::string, std::map<std::string, uint32_t>>;

}  // namespace

void lint_folding(const LintInput& input, Diagnostics& diags) {
  std::map<int, std::vector<uint32_t>> classes_of;
  for (size_t i = 0; i < input.folding.classes.size(); ++i) {
    const int rule = input.plan.placements[input.folding.classes[i].kind].rule;
    if (rule > 0) classes_of[rule].push_back(static_cast<uint32_t>(i));
  }
  for (const auto& [rule, classes] : classes_of) {
    const auto key =
        key_of_pattern(input.plan.rules[static_cast<size_t>(rule) - 1].pattern);
    if (!key || key->find('*') == std::string::npos) continue;
    Merged merged;
    for (const uint32_t number : classes) {
      const std::string& name =
          input.folding.folded_names[input.folding.classes[number].folded];
      merged[fold_digits(name, DigitFolding::EveryRun)].emplace(name, number);
    }
    for (const auto& [folded, kinds] : merged) {
      const auto type_of = [&](uint32_t number) -> const TensorType& {
        return input.plan.placements[input.folding.classes[number].kind].type;
      };
      const Shape& first = type_of(kinds.begin()->second).shape;
      const bool differ =
          std::any_of(kinds.begin(), kinds.end(), [&](const auto& kind) {
            return type_of(kind.second).shape != first;
          });
      if (!differ) continue;
      auto report = diags.report(
          Code::MergedLayouts, rule_span(input, rule),
          "`" + printable(*key) + "` stands for parameters of different kinds");
      std::vector<std::string> names;
      constexpr size_t kShown = 4;
      size_t shown = 0;
      for (const auto& [name, number] : kinds) {
        if (shown++ < kShown) {
          report.fact("`" + printable(name) + "` is " +
                      type_text(type_of(number)));
        }
        for (std::string& member :
             names_of(input.manifest, input.of_class.of(number))) {
          names.push_back(std::move(member));
        }
      }
      report.fact(
          "all are cut as " +
          spec_text(input.plan.rules[static_cast<size_t>(rule) - 1].spec) +
          ", since every digit of a name is `*` there");
      report.help(
          "transformers 5.2 and later keep such names apart: give each an "
          "entry, and say `\"transformers_version\": \"5.2.0\"` beside the "
          "plan");
      report.about({rule, -1, ""});
      report.parameters(std::move(names)).findings(1);
    }
  }
}

}  // namespace shardplan
