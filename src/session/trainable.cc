// SPDX-License-Identifier: Apache-2.0
#include "session/trainable.h"

#include <algorithm>
#include <set>

#include "advise/name_pattern.h"
#include "base/text.h"
#include "core/fold.h"
#include "core/rules.h"
#include "resolve/match.h"

namespace shardplan {
namespace {

std::vector<std::string> folded_names(const Manifest& manifest) {
  std::set<std::string> names;
  for (size_t i = 0; i < manifest.size(); ++i) {
    names.insert(folded_name(manifest.name(i)));
  }
  return {names.begin(), names.end()};
}

bool is_found(const std::string& pattern, const Manifest& manifest) {
  RuleSet rules;
  rules.rules.emplace_back().pattern = pattern;
  Diagnostics ignored;
  const auto matcher =
      Matcher::compile(rules, manifest.names_are_plain(), ignored);
  if (!matcher) return false;
  std::vector<int> found;
  for (size_t i = 0; i < manifest.size(); ++i) {
    matcher->find_one_by_one(manifest.name(i), found);
    if (!found.empty()) return true;
  }
  return false;
}

void report_unfound(const std::string& pattern, const Manifest& manifest,
                    Diagnostics& diags) {
  auto problem = diags.error(
      Code::Usage, {},
      "`--trainable` " + in_backticks(pattern) + " matches no parameter");
  const std::vector<std::string> names = folded_names(manifest);
  auto meant = respelled(pattern, names);
  if (meant && !is_found(*meant, manifest)) meant.reset();
  if (!meant) meant = nearest(pattern, names);
  if (meant) {
    problem.help("did you mean " + in_backticks(*meant) + "?");
  } else {
    problem.fact("there are " + some_names(names));
  }
}

}  // namespace

std::optional<TrainedParameters> find_trained(
    const std::vector<std::string>& patterns, const Manifest& manifest,
    Diagnostics& diags) {
  RuleSet rules;
  for (const std::string& pattern : patterns) {
    rules.rules.emplace_back().pattern = pattern;
  }
  const auto matcher =
      Matcher::compile(rules, manifest.names_are_plain(), diags);
  if (!matcher) return std::nullopt;
  TrainedParameters trained(manifest.size());
  std::vector<bool> is_used(patterns.size());
  bool any = false;
  std::vector<int> found;
  for (size_t i = 0; i < manifest.size(); ++i) {
    matcher->find(manifest.name(i), found);
    trained[i] = !found.empty();
    any = any || (trained[i] && is_trainable(manifest.type(i).dtype));
    for (const int pattern : found)
      is_used[static_cast<size_t>(pattern)] = true;
  }
  for (size_t p = 0; p < patterns.size(); ++p) {
    if (!is_used[p]) report_unfound(patterns[p], manifest, diags);
  }
  if (std::find(is_used.begin(), is_used.end(), false) != is_used.end()) {
    return std::nullopt;
  }
  if (!any) {
    return diags
        .error(Code::Usage, {},
               "what `--trainable` matches has no dtype that is trained")
        .fact("integers and packed weights have no gradient")
        .help("match the adapters, e.g. `--trainable lora_`");
  }
  return trained;
}

}  // namespace shardplan
