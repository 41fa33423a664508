// SPDX-License-Identifier: Apache-2.0
// `--fail-on LIST`: which changes are not to be let through.
//
//   memory>1%       the fullest device needs that much more; or memory>2GiB
//   replicated>0    a larger share of the bytes is on every device
//   time>3%         the estimate of a step is that much longer
//   new-errors, new-warnings
//   lost-axes       a rule, label or parameter lost a mesh axis
//   any-change
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardplan {

struct RuleSetChange;

// What fails without the flag.
inline constexpr std::array<std::string_view, 3> kGateFailOn = {
    "new-errors", "lost-axes", "memory>10%"};
inline constexpr std::string_view kDiffFailOn = "new-errors";

struct FailOn {
  std::optional<double> memory;      // of what it was: 0.01
  std::optional<double> replicated;  // of all bytes, beyond what it was
  bool new_errors = false;
  bool new_warnings = false;
  bool lost_axes = false;
  bool any_change = false;
  std::optional<int64_t> memory_bytes = {};  // by which it may grow
  std::optional<double> time = {};           // of what it was: 0.03

  bool operator==(const FailOn&) const = default;
};

// The forms above, for help.
std::vector<std::string> fail_on_forms();

// Adds one entry of a list; false when it is none of these.
bool add_fail_on(std::string_view text, FailOn& fail_on);

// Entries that mean nothing where there are rules alone, as they are written.
std::vector<std::string> without_meaning_for_rules(const FailOn& fail_on);

bool fails(const RuleSetChange& change, const FailOn& fail_on);

}  // namespace shardplan
