// SPDX-License-Identifier: Apache-2.0
#include "cli/parameter_name.h"

#include <vector>

#include "base/text.h"
#include "core/rules.h"
#include "resolve/match.h"

namespace shardplan::cli {
namespace {

// The parameters that a pattern is found in; none where it is not a pattern.
std::vector<size_t> found_in(const Manifest& manifest,
                             const std::string& pattern) {
  RuleSet rules;
  rules.rules.emplace_back().pattern = pattern;
  Diagnostics ignored;  // a name need not be a pattern
  const auto matcher =
      Matcher::compile(rules, manifest.names_are_plain(), ignored);
  std::vector<size_t> parameters;
  if (!matcher) return parameters;
  std::vector<int> found;
  for (size_t i = 0; i < manifest.size(); ++i) {
    matcher->find_one_by_one(manifest.name(i), found);
    if (!found.empty()) parameters.push_back(i);
  }
  return parameters;
}

}  // namespace

std::optional<size_t> find_parameter(const Manifest& manifest,
                                     const Folding& folding,
                                     const std::string& name,
                                     Diagnostics& diags) {
  for (size_t i = 0; i < manifest.size(); ++i) {
    if (manifest.name(i) == name) return i;
  }
  const std::vector<size_t> found = found_in(manifest, name);
  if (found.size() == 1) return found.front();
  auto report = diags.error(
      Code::Usage, {}, "the model has no parameter `" + printable(name) + "`");
  if (!found.empty()) {
    report.fact("as a pattern it is found in " +
                plural(static_cast<int64_t>(found.size()), "name"));
    report.help("a parameter of that name's kind exists: `" +
                printable(manifest.name(found.front())) + "`");
    return report;
  }
  // Names within a class differ in numbers alone: one of each is enough.
  std::vector<std::string> candidates;
  for (const ParameterClass& c : folding.classes) {
    candidates.emplace_back(manifest.name(c.first));
    if (candidates.back().find(name) != std::string::npos) {
      report.help("a parameter of that name's kind exists: `" +
                  printable(candidates.back()) + "`");
      return report;
    }
  }
  if (const auto near = nearest(name, candidates)) {
    report.help("a parameter with a similar name exists: `" + printable(*near) +
                "`");
  }
  return report;
}

}  // namespace shardplan::cli
