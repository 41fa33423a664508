// SPDX-License-Identifier: Apache-2.0
// Changes: what a change of rules, model or settings does to a target, a model
// under rules on a mesh, and which of it is too much.
//
// A change is told by what people wrote or see (a pattern, a label, a code,
// bytes of the fullest device), before and after, with the line that did it on
// its side. Parameters that change alike are one change.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/diagnostic.h"
#include "base/source.h"
#include "core/mesh.h"
#include "core/plan.h"
#include "core/spec.h"
#include "gate/fail_on.h"
#include "memory/budget.h"
#include "session/memory_answer.h"
#include "session/session.h"

namespace shardplan {

enum class GateKind : uint8_t {
  Rule,
  Label,
  Placement,
  Memory,
  Finding,
  Collective,
  Time,
  Target,
  Baseline,
};
// "placement", as in the contract's tables.gate_changes.
std::string_view gate_kind_name(GateKind kind);

// Null where it is not there on that side.
struct ChangeBytes {
  int64_t value = 0;
  bool operator==(const ChangeBytes&) const = default;
};
struct ChangeSeconds {
  double value = 0;
  bool operator==(const ChangeSeconds&) const = default;
};
using ChangeValue = std::variant<std::monostate, PartitionSpec, int64_t,
                                 ChangeBytes, ChangeSeconds, std::string>;

// A line of a file as it is on one side.
struct ChangeLine {
  std::string file;  // "" is none
  int64_t line = 0;  // 1-based
  bool before = false;
  Span where;  // the same, where its text is at hand
};

struct GateChange {
  GateKind kind = GateKind::Target;
  std::string target;  // "" of a rule, a label or the baseline alone
  std::string what;    // a pattern, label, code, collective, setting
  ChangeValue before;
  ChangeValue after;
  ChangeLine line;
  std::string text;  // why, in words: "rule 1 `.*` takes over from rule 2 `q`"
  AxisNames lost;    // axes that no longer shard it, or that the label lost
  AxisNames gained;
  int64_t parameters = 0;        // how many of them change alike
  int64_t bytes_per_device = 0;  // after minus before, of all of these
  int64_t of_bytes = 0;          // of memory: what a growth is a fraction of
  double time_growth = 0;        // of time: 0.1 where a step takes 10 % longer
  std::string key;               // of a finding: finding_key()
  // Of a finding that is new or graver than it was; else off.
  Severity severity = Severity::Off;
  bool fails = false;
  bool reported = false;  // as a finding of its own
};

// One side of a target.
struct TargetSide {
  const Session& session;
  const Budget* budget;              // null: parameters alone are counted
  const MemoryBracket* step;         // null: no training step is asked for
  std::optional<int64_t> kv_tokens;  // tokens that the cache has room for
  const Diagnostics& diags;
  const StepTime* time = nullptr;   // null: there is none
  std::string_view timed = "step";  // what takes it: "step", "token", "prompt"
  // Why a time that was asked for is not known; "" where nobody asked.
  std::string_view untimed = {};
};

// What a category takes on the fullest device. With training steps on both
// sides it is that of their brackets; else of what is stored, whose ends are
// one.
struct CategoryChange {
  using Ends = std::array<int64_t, 3>;  // at least, estimate, at most
  std::string category;                 // "optimizer_state"; "total"
  std::string title;
  Ends before{};
  Ends after{};
};
// Categories that differ, in their order, and the total last; none where
// nothing does.
std::vector<CategoryChange> category_changes(const TargetSide& before,
                                             const TargetSide& after);

// What differs: placements, the largest first, memory, collectives, which are
// given (gate/collective_changes.h), findings.
std::vector<GateChange> target_changes(
    const std::string& target, const TargetSide& before,
    const TargetSide& after, std::vector<GateChange> collectives = {});

// The findings (warnings, errors) that are new, gone or about other parameters;
// new errors first.
std::vector<GateChange> finding_changes(const Diagnostics& before,
                                        const Diagnostics& after);
// The change that tells of this finding; null where it is as it was.
const GateChange* change_of(const std::vector<GateChange>& changes,
                            const Diagnostic& diagnostic);

bool falls_short(const FailOn& fail_on, const GateChange& change);

// The rule that decided a placement; null where none did.
const PlanRule* rule_of(const Session& session, const Placement& placement);
// Where the rule stands that decided a placement, or the logical axis rule: of
// those the one that gave it one of the axes, else the first.
ChangeLine deciding_line(const Session& session, const Placement& placement,
                         const AxisNames& axes, bool before);

// The rank that an expert of this name is dealt to.
int64_t rank_of(const Dealt& dealt, std::string_view name);

// What says whether two runs found the same: the code with the axis, and the
// names it is about or, without names, the text it points at.
std::string finding_key(const Diagnostic& diagnostic);

// "activations +3.10 GiB, gathered layer -1.00 GiB": the largest few amounts,
// with their names, by `text` of an amount.
template <typename Amount, typename Text>
std::string largest_text(
    std::vector<std::pair<Amount, std::string_view>> changes,
    const Text& text) {
  constexpr size_t kMostNamed = 4;
  std::ranges::stable_sort(changes, [](const auto& a, const auto& b) {
    return std::abs(a.first) > std::abs(b.first);
  });
  std::string all;
  for (size_t i = 0; i < std::min(changes.size(), kMostNamed); ++i) {
    const Amount by = changes[i].first;
    all += (i == 0 ? "" : ", ") + std::string(changes[i].second) +
           (by < 0 ? " -" : " +") + text(std::abs(by));
  }
  return all;
}

}  // namespace shardplan
