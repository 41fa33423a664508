// SPDX-License-Identifier: Apache-2.0
// Matches the patterns of `--trainable` and `--optimizer-of` against a model.
#include "session/trainable.h"

#include <set>

#include "advise/name_pattern.h"
#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
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

std::optional<Matcher> matcher_of(const std::vector<std::string>& patterns,
                                  const Manifest& manifest,
                                  Diagnostics& diags) {
  RuleSet rules;
  for (const std::string& pattern : patterns) {
    rules.rules.emplace_back().pattern = pattern;
  }
  return Matcher::compile(rules, manifest.names_are_plain(), diags);
}

bool is_found(const std::string& pattern, const Manifest& manifest) {
  Diagnostics ignored;
  const auto matcher = matcher_of({pattern}, manifest, ignored);
  if (!matcher) return false;
  std::vector<int> found;
  for (size_t i = 0; i < manifest.size(); ++i) {
    matcher->find_one_by_one(manifest.name(i), found);
    if (!found.empty()) return true;
  }
  return false;
}

// Reports a pattern without matches. `what`: "`--trainable` `lora_`".
void report_unfound(const std::string& what, const std::string& pattern,
                    const Manifest& manifest, Diagnostics& diags) {
  auto problem = diags.error(Code::Usage, {}, what + " matches no parameter");
  const std::vector<std::string> names = folded_names(manifest);
  auto meant = spelling_corrected(pattern, names);
  if (meant && !is_found(*meant, manifest)) meant.reset();
  if (!meant) meant = nearest(pattern, names);
  if (meant) {
    problem.help("did you mean " + in_backticks(*meant) + "?");
  } else {
    problem.fact("the model has " + some_names(names));
  }
}

}  // namespace

std::optional<TrainedParameters> find_trained(
    const std::vector<std::string>& patterns, const Manifest& manifest,
    Diagnostics& diags) {
  const auto matcher = matcher_of(patterns, manifest, diags);
  if (!matcher) return std::nullopt;
  TrainedParameters trained(manifest.size());
  std::vector<bool> is_used(patterns.size());
  bool any = false;
  std::vector<int> found;
  for (size_t i = 0; i < manifest.size(); ++i) {
    matcher->find(manifest.name(i), found);
    trained[i] = !found.empty();
    any = any || (trained[i] && is_trainable(manifest.type(i).dtype));
    for (const int pattern : found) nth(is_used, pattern) = true;
  }
  for (size_t p = 0; p < patterns.size(); ++p) {
    if (is_used[p]) continue;
    report_unfound("`--trainable` " + in_backticks(patterns[p]), patterns[p],
                   manifest, diags);
  }
  if (contains(is_used, false)) return std::nullopt;
  if (!any) {
    return diags
        .error(Code::Usage, {},
               "`--trainable` matches only parameters that cannot be trained")
        .fact("integers and packed weights have no gradient")
        .help("match the adapters, e.g. `--trainable lora_`");
  }
  return trained;
}

std::optional<GroupOfParameters> find_groups(
    const std::vector<OptimizerGroup>& groups, const Manifest& manifest,
    const TrainedParameters& trained, Diagnostics& diags) {
  std::vector<std::string> patterns;
  for (const OptimizerGroup& group : groups) patterns.push_back(group.pattern);
  const auto matcher = matcher_of(patterns, manifest, diags);
  if (!matcher) return std::nullopt;
  GroupOfParameters group_of(manifest.size());
  std::vector<bool> is_found(groups.size() + 1);
  std::vector<bool> is_trained(groups.size() + 1);
  std::vector<int> found;
  for (size_t i = 0; i < manifest.size(); ++i) {
    matcher->find(manifest.name(i), found);
    const size_t group = found.empty() ? 0 : to_size(found.front()) + 1;
    group_of[i] = static_cast<uint8_t>(group);
    for (const int each : found) nth(is_found, each + 1) = true;
    if ((trained.empty() || trained[i]) &&
        is_trainable(manifest.type(i).dtype)) {
      is_trained[group] = true;
    }
  }
  bool good = true;
  for (size_t group = 1; group <= groups.size(); ++group) {
    const OptimizerGroup& of = groups[group - 1];
    const std::string flag =
        "--optimizer-of " + std::string(optimizer_name(of.optimizer)) + ":";
    if (!is_found[group]) {
      report_unfound(in_backticks(flag + of.pattern), of.pattern, manifest,
                     diags);
    } else if (!is_trained[group]) {
      diags
          .error(Code::Usage, {},
                 in_backticks(flag + of.pattern) + " trains no parameter")
          .fact(
              "its matches are frozen, have a dtype that is not trained, or "
              "are matched by an earlier `--optimizer-of`");
    }
    good = good && is_trained[group];
  }
  if (good && !is_trained[0]) {
    good = false;
    diags.error(Code::Usage, {}, "no parameter is left for `--optimizer`")
        .fact("patterns of `--optimizer-of` match every trained parameter")
        .help("use `--optimizer` alone for a single optimizer");
  }
  if (!good) return std::nullopt;
  return group_of;
}

}  // namespace shardplan
