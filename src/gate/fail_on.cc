// SPDX-License-Identifier: Apache-2.0
#include "gate/fail_on.h"

#include <cmath>

#include "base/text.h"
#include "base/words.h"
#include "gate/rule_changes.h"

namespace shardplan {
namespace {

constexpr std::string_view kMemory = "memory>";
constexpr std::string_view kReplicated = "replicated>";
constexpr std::string_view kTime = "time>";

struct FailOnSwitch {
  std::string_view name;
  bool FailOn::*field;
};
constexpr FailOnSwitch kSwitches[] = {{"new-errors", &FailOn::new_errors},
                                      {"new-warnings", &FailOn::new_warnings},
                                      {"lost-axes", &FailOn::lost_axes},
                                      {"any-change", &FailOn::any_change}};

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
  for (const FailOnSwitch& each : kSwitches) forms.emplace_back(each.name);
  return forms;
}

bool add_fail_on(std::string_view text, FailOn& fail_on) {
  for (const FailOnSwitch& each : kSwitches) {
    if (text != each.name) continue;
    fail_on.*each.field = true;
    return true;
  }
  if (text.starts_with(kTime)) {
    // `time>3` could mean 300 % or seconds.
    if (!text.ends_with('%')) return false;
    const auto limit = fraction_of(text.substr(kTime.size()));
    if (limit) fail_on.time = limit;
    return limit.has_value();
  }
  const bool is_memory = text.starts_with(kMemory);
  if (!is_memory && !text.starts_with(kReplicated)) return false;
  const std::string_view written =
      text.substr(is_memory ? kMemory.size() : kReplicated.size());
  const auto limit = fraction_of(written);
  // A bare number is a fraction; one above 1 is a size in bytes.
  const bool is_size =
      is_memory && (!limit || *limit > 1) && !written.ends_with('%');
  if (is_size) {
    const auto bytes = parse_bytes(written);
    if (bytes) fail_on.memory_bytes = bytes;
    return bytes.has_value();
  }
  if (!limit) return false;
  (is_memory ? fail_on.memory : fail_on.replicated) = *limit;
  return true;
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
