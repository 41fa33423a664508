// SPDX-License-Identifier: Apache-2.0
// Lints: what is wrong, or not what was meant, in a plan.
//
// Each finding names the parameters, the numbers that mattered, and what it
// costs in bytes per device. They are told from the plan alone, so a saved plan
// has the same findings as the rules it came from; the rules, where they are
// at hand, give the places.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "core/fold.h"
#include "core/manifest.h"
#include "core/plan.h"
#include "core/rules.h"
#include "model/units.h"
#include "resolve/analyze.h"

namespace shardplan {

struct LintOptions {
  // SP304: how much more the fullest device may hold than was asked for, as a
  // fraction; and the largest fraction of bytes that may be unsharded.
  double tolerance = 0.02;
  std::optional<double> max_replicated;
  // The user asked for unmatched parameters to be replicated, or to be placed
  // by their size: SP101 is a note.
  bool accept_unmatched = false;
  // A logical axis that no rule places is an error (SP111).
  bool raise_unplaced = false;
  // What shards parameters though no spec says so: a pipeline's stages ("" for
  // none), and the axes of ZeRO-3.
  AxisName pipeline_axis = {};
  AxisNames zero_axes = {};
  // Axes that are named for what is no parameter: a batch, a cache, the values
  // of a graph.
  AxisNames named_axes = {};
};

// Whether the rules are for this model's names and this mesh's axes at all.
struct Meeting {
  // The rules that should shard are found in no name (SP115).
  bool misses_names = false;
  // The logical axes that rules place are none of the model's (SP115).
  bool misses_labels = false;
  // A rule that would be found in the name that another scheme gives to a
  // parameter; 0 for none.
  int other_rule = 0;  // 1-based
  size_t other_parameter = 0;
  std::string other_name;
  // Axes of the mesh that shard nothing and that nothing mentions (SP208), and
  // what the rules call each; "" where they have no like.
  struct Unmentioned {
    AxisName axis;
    AxisName meant;
  };
  std::vector<Unmentioned> unmentioned;
};

// A model of which parameters that are alike in all that a change can touch are
// one, with how many they are (advise/what_if.h). What is told of it is counted
// and compared, never shown.
struct Summary {
  std::vector<int64_t> counts;  // per parameter of the manifest
  int64_t total_bytes = 0;
  const UnitFacts& known;  // of the whole model
  // is_catch_all() of resolve/match.h, which compiles the pattern, remembered.
  std::function<bool(const std::string&)> is_catch_all;
};

struct LintInput {
  const Manifest& manifest;
  const Plan& plan;
  const Folding& folding;  // by placement
  const RuleSet* rules;    // null for a saved plan
  const DeviceMemory& memory;
  const LintOptions& options;
  Members of_placement;
  Members of_class;
  Meeting meeting;
  const Summary* summary = nullptr;  // null: every parameter is there
};

LintInput make_lint_input(const Manifest& manifest, const Plan& plan,
                          const Folding& folding, const RuleSet* rules,
                          const DeviceMemory& memory,
                          const LintOptions& options);

// All of the below: what makes others needless first, then in order of code.
void lint(const LintInput& input, Diagnostics& diags);

// SP115: rules for other names or other logical axes.
void lint_meeting(const LintInput& input, Diagnostics& diags);
// SP208, SP209: axes that only the mesh or only the rules have.
void lint_mesh_axes(const LintInput& input, Diagnostics& diags);
Meeting meeting_of(const LintInput& input);

// SP101, SP102, SP103, SP106, SP107: rules against names.
void lint_rules(const LintInput& input, Diagnostics& diags);
// SP110, SP111, SP112, SP113: semantic and logical names. The last two need the
// rules.
void lint_names(const LintInput& input, Diagnostics& diags);
// SP114: rules from tables that fold digits of names.
void lint_folding(const LintInput& input, Diagnostics& diags);
// SP104, SP201, SP202, SP203, SP207, SP303: specs against shapes and the mesh.
void lint_specs(const LintInput& input, Diagnostics& diags);
// SP206: heads, KV heads and experts that are cut.
void lint_units(const LintInput& input, Diagnostics& diags);
// SP204, SP302, SP304: what the plan as a whole leaves replicated.
void lint_costs(const LintInput& input, Diagnostics& diags);

// What the lints share.

// How many parameters these are.
int64_t count_of(const LintInput& input, std::span<const uint32_t> parameters);
// Says which parameters a finding is about; it counts as many findings.
void name_parameters(Diagnostics::Builder& report,
                     std::vector<std::string> names, int64_t count);

std::vector<std::string> names_of(const Manifest& manifest,
                                  std::span<const uint32_t> parameters);
// "`a`", "`a` and 31 more".
std::string names_text(const std::vector<std::string>& names);
// Bytes that a placement would take on one device if it were as requested:
// under `pad`, once unknown and repeated axes are gone.
int64_t requested_bytes(const Plan& plan, const Placement& placement);
// "15.6 MiB more per device", for all `count` parameters of a placement.
std::string cost_text(const Plan& plan, const Placement& placement,
                      int64_t count);
// The place of a rule's spec entry, or of the whole spec.
Span spec_span(const LintInput& input, int rule, int dim);
Span rule_span(const LintInput& input, int rule);
// The same, or the logical rule that placed the dimension.
Span asked_span(const LintInput& input, const Placement& placement, int dim);
// "rule 3 (rules.yaml:5)"; for 0, what places parameters that no rule does.
std::string rule_text(const Plan& plan, int rule);
// Sizes from 1 up to `limit`, but at most 65536, that divide both numbers.
std::vector<int64_t> common_divisors(int64_t a, int64_t b, int64_t limit);

}  // namespace shardplan
