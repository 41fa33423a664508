// SPDX-License-Identifier: Apache-2.0
// Reads the entries of `--fail-on`.
#include "gate/fail_on.h"

#include <cmath>

#include "base/text.h"
#include "base/words.h"
#include "gate/rule_changes.h"

namespace shardplan {
namespace {

template <typename Value>
struct FailOnEntry {
  std::string_view name;
  Value FailOn::*field;
};
constexpr FailOnEntry<bool> kSwitches[] = {
    {"new-errors", &FailOn::new_errors},
    {"new-warnings", &FailOn::new_warnings},
    {"lost-axes", &FailOn::lost_axes},
    {"any-change", &FailOn::any_change}};
constexpr FailOnEntry<std::optional<double>> kGrowths[] = {
    {"memory>", &FailOn::memory},
    {"replicated>", &FailOn::replicated},
    {"time>", &FailOn::time}};

// Reads "1%" or "0.01" as 0.01.
std::optional<double> fraction_of(std::string_view text) {
  const bool is_percent = text.ends_with('%');
  if (is_percent) text.remove_suffix(1);
  const auto value = parse_real(text);
  if (!value || !std::isfinite(*value) || *value < 0) return std::nullopt;
  return is_percent ? *value / 100 : *value;
}

}  // namespace

std::vector<std::string> fail_on_forms() {
  std::vector<std::string> forms = {"memory>1%", "replicated>0", "time>3%"};
  for (const auto& each : kSwitches) forms.emplace_back(each.name);
  return forms;
}

bool add_fail_on(std::string_view text, FailOn& fail_on) {
  for (const auto& each : kSwitches) {
    if (text != each.name) continue;
    fail_on.*each.field = true;
    return true;
  }
  for (const auto& each : kGrowths) {
    if (!text.starts_with(each.name)) continue;
    const std::string_view written = text.substr(each.name.size());
    const bool is_percent = written.ends_with('%');
    const auto limit = fraction_of(written);
    // `time>3` could mean 300 % or seconds.
    if (each.field == &FailOn::time && !is_percent) return false;
    // A bare number is a fraction; one above 1 is a size in bytes.
    if (each.field == &FailOn::memory && !is_percent &&
        (!limit || *limit > 1)) {
      const auto bytes = parse_bytes(written);
      if (bytes) fail_on.memory_bytes = bytes;
      return bytes.has_value();
    }
    if (limit) fail_on.*each.field = limit;
    return limit.has_value();
  }
  return false;
}

std::vector<std::string> without_meaning_for_rules(const FailOn& fail_on) {
  std::vector<std::string> names;
  if (fail_on.memory || fail_on.memory_bytes) names.emplace_back("memory");
  if (fail_on.replicated) names.emplace_back("replicated");
  if (fail_on.time) names.emplace_back("time");
  if (fail_on.new_errors) names.emplace_back("new-errors");
  if (fail_on.new_warnings) names.emplace_back("new-warnings");
  return names;
}

bool fails(const RuleSetChange& change, const FailOn& fail_on) {
  return fail_on.any_change || (fail_on.lost_axes && !change.lost.empty());
}

}  // namespace shardplan
