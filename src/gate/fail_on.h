// SPDX-License-Identifier: Apache-2.0
// FailOn: the changes that `--fail-on LIST` rejects.
//
//   memory>1%       the fullest device needs that much more; or memory>2GiB
//   replicated>0    a larger share of the bytes is replicated
//   time>3%         the estimated step is that much longer
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

// The default without the flag.
inline constexpr std::array<std::string_view, 3> kGateFailOn = {
    "new-errors", "lost-axes", "memory>10%"};
inline constexpr std::string_view kDiffFailOn = "new-errors";

struct FailOn {
  std::optional<double> memory;      // allowed growth, 0.01: 1 %
  std::optional<double> replicated;  // allowed growth, as a fraction of all
                                     // bytes
  bool new_errors = false;
  bool new_warnings = false;
  bool lost_axes = false;
  bool any_change = false;
  std::optional<int64_t> memory_bytes = {};  // allowed growth in bytes
  std::optional<double> time = {};           // allowed growth, 0.03: 3 %

  bool operator==(const FailOn&) const = default;
};

// Returns the forms above, for help.
std::vector<std::string> fail_on_forms();

// Adds one entry of a list. Returns false if the entry has none of these forms.
bool add_fail_on(std::string_view text, FailOn& fail_on);

// Returns the entries that have no meaning when only rules are compared.
std::vector<std::string> without_meaning_for_rules(const FailOn& fail_on);

bool fails(const RuleSetChange& change, const FailOn& fail_on);

}  // namespace shardplan
