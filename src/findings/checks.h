// SPDX-License-Identifier: Apache-2.0
// Checks: the functions of the table in findings/findings.cc. Each check_
// function reports the findings of one row.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/checked.h"
#include "base/diagnostic.h"
#include "findings/findings.h"

namespace shardplan {

// REQUIRES: rule >= 1.
inline const PlanRule& rule_of(const Plan& plan, int rule) {
  return nth(plan.rules, rule - 1);
}

// rule_findings.cc: rules against names.
void check_unmatched(const LintInput& input, Diagnostics& diags);
void check_unused_rules(const LintInput& input, Diagnostics& diags);
void check_shadowed_rules(const LintInput& input, Diagnostics& diags);
void check_broad_patterns(const LintInput& input, Diagnostics& diags);
void check_catch_alls(const LintInput& input, Diagnostics& diags);
// Logical axes that were not placed, or whose meaning is unclear.
void check_lost_labels(const LintInput& input, Diagnostics& diags);
void check_ambiguous_axes(const LintInput& input, Diagnostics& diags);
void check_overridden_labels(const LintInput& input, Diagnostics& diags);
// Rules from tables that fold digits of names.
void check_merged_layouts(const LintInput& input, Diagnostics& diags);

// Returns whether the dialect added the rule, for what no line of the file
// names.
bool is_of_dialect(const LintInput& input, int rule);

// Returns whether the rule would match any name. A rule that does not match
// every name of the model is not compiled for this.
bool matches_every_name(const LintInput& input, const PlanRule& rule);

// Returns the form in which the rules are written; null: ours.
const RuleForm* form_of(const LintInput& input);

// Returns the help that explains how to make the rules shard over an axis.
std::string help_to_name(const LintInput& input, const AxisName& axis);

// naming_findings.cc: rules for other names or labels.
void check_other_names(const LintInput& input, Diagnostics& diags);
NamingMismatch naming_mismatch(const LintInput& input);
// Adds help to use the shipped set for the model's type, if it is not in use.
void help_with_other_set(const LintInput& input, Diagnostics::Builder& report);
// Returns "`tp`, `fsdp`, .."; the first five.
std::string quoted_list(std::vector<std::string> names);

// mesh_axis_findings.cc: axes that the rules or the mesh lack.
void check_mesh_axes(const LintInput& input, Diagnostics& diags);
// Returns axes of the mesh, larger than 1, that shard nothing and that neither
// the rules nor the options mention; none if the rules shard nothing at all.
// Omits axes that the rules misspell, which are SP201.
std::vector<NamingMismatch::UnmentionedAxis> unmentioned_axes(
    const LintInput& input);

// spec_findings.cc: specs against shapes and the mesh.
void check_spec_entries(const LintInput& input, Diagnostics& diags);
void check_divisions(const LintInput& input, Diagnostics& diags);

// unit_findings.cc: heads, experts and layers that are split.
void check_split_units(const LintInput& input, Diagnostics& diags);

// sharding_findings.cc: parameters that the plan as a whole leaves replicated.
void check_unused_axes(const LintInput& input, Diagnostics& diags);
void check_large_replicas(const LintInput& input, Diagnostics& diags);
void check_lost_sharding(const LintInput& input, Diagnostics& diags);

// view_findings.cc: views of the mesh, and experts.
void check_unused_views(const LintInput& input, Diagnostics& diags);
void check_expert_axes(const LintInput& input, Diagnostics& diags);
// Reports experts that their `deal` axis does not divide; part of
// check_divisions.
void report_uneven_dealing(const LintInput& input, Diagnostics& diags);
// Returns whether any parameter is placed over the view.
bool is_placed_over(const Plan& plan, std::string_view view);
// Returns the view that has the axis; empty: the mesh itself.
std::string view_with_axis(const Mesh& mesh, const AxisName& axis);
// Returns whether there are rules for the view.
bool is_view_of_rules(const LintInput& input, const std::string& view);
// Reports axes that the user's rules declare for the mesh but only a view has;
// part of check_mesh_axes.
void report_axes_of_views(const LintInput& input, Diagnostics& diags);
// Adds help for a view over which nothing is placed.
void help_with_view(const LintInput& input, const MeshView& view,
                    Diagnostics::Builder& report);

// memory_findings.cc: a plan that does not fit, and uneven stages.
void check_over_memory(const MemoryInput& input, Diagnostics& diags);
void check_stages(const LintInput& input, Diagnostics& diags);

// serve_findings.cc: degrees at which an engine does not start, and a cache
// that is too small.
void check_engine_start(const ServeInput& input, Diagnostics& diags);
void check_cache_size(const ServeInput& input, Diagnostics& diags);

// program_findings.cc: implicit reshards, and weights read in no layout or in
// two.
void check_reshards(const ProgramInput& input, Diagnostics& diags);
void check_weight_uses(const ProgramInput& input, Diagnostics& diags);
void check_repeated_biases(const ProgramInput& input, Diagnostics& diags);

// run_findings.cc: the results that devices computed.
void check_decisions(const RunInput& input, Diagnostics& diags);
void check_dropped_tokens(const RunInput& input, Diagnostics& diags);
void check_doubts(const RunInput& input, Diagnostics& diags);
void check_amplification(const RunInput& input, Diagnostics& diags);
void check_mismatch(const RunInput& input, Diagnostics& diags);
void check_recorded_outputs(const RecordedInput& input, Diagnostics& diags);

}  // namespace shardplan
