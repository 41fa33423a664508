// SPDX-License-Identifier: Apache-2.0
#include "session/default_rules.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/checked.h"
#include "base/shipped.h"
#include "base/text.h"
#include "base/words.h"
#include "core/fold.h"
#include "io/load.h"
#include "resolve/match.h"

namespace shardplan {
namespace {

// Returns whether an architecture explains some parameter of the model.
bool is_explained(const Manifest& manifest) {
  for (size_t i = 0; manifest.kinds != nullptr && i < manifest.size(); ++i) {
    if (manifest.kinds->contains(
            {folded_name(manifest.name(i)), manifest.type(i).shape})) {
      return true;
    }
  }
  return false;
}

// Returns the names that follow from the model's config but match no rule of
// the shipped set, such as those of quantised layers or of heads for other
// tasks. Layer numbers are folded, because no shipped set distinguishes them.
std::vector<std::string> names_without_rule(const std::string& set,
                                            const Manifest& manifest,
                                            const PlanRequest& request,
                                            Host& host) {
  std::vector<std::string> missed;
  if (manifest.kinds == nullptr) return missed;
  Diagnostics quiet;
  const std::vector<std::string> files = {set};
  const auto rules =
      load_rules(files, request.dialect, rule_reading(request), host, quiet);
  if (!rules) return missed;
  const auto matcher = Matcher::compile(*rules, false, quiet);
  SHARDPLAN_CHECK(matcher.has_value());
  std::vector<int> found;
  for (const auto& [key, kind] : *manifest.kinds) {
    const auto& [folded, shape] = key;
    std::string name = folded;
    std::ranges::replace(name, '*', '0');
    matcher->find(name, found);
    if (!found.empty() || shape.empty()) continue;
    if (missed.empty() || missed.back() != folded) missed.push_back(folded);
  }
  return missed;
}

}  // namespace

std::string fitting_set(const Manifest& manifest) {
  std::string_view type = manifest.model_type;
  constexpr std::string_view kTextPart = "_text";
  if (type.ends_with(kTextPart)) type.remove_suffix(kTextPart.size());
  const std::vector<std::string> sets = shipped_names("models");
  return !contains(sets, type) ? "" : "@" + std::string(type);
}

DefaultSet default_set(const Manifest& manifest, const PlanRequest& request,
                       Host& host) {
  const std::string named = fitting_set(manifest);
  const std::string every = "any model built from a config";
  if (named.empty()) {
    return is_explained(manifest) ? DefaultSet{kEveryModel, every}
                                  : DefaultSet();
  }
  const std::vector<std::string> missed =
      names_without_rule(named, manifest, request, host);
  if (missed.empty() || !is_explained(manifest)) {
    return {named, "model type " + in_backticks(manifest.model_type)};
  }
  const auto others = std::ssize(missed) - 1;
  return {kEveryModel,
          every + ": " + in_backticks(named) + " has no rule for " +
              in_backticks(missed.front()) +
              (others == 0 ? "" : " and " + plural(others, "other name"))};
}

}  // namespace shardplan
