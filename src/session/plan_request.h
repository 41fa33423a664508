// SPDX-License-Identifier: Apache-2.0
// PlanRequest: the model, rules and mesh of a requested plan, and how they are
// read and checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/host.h"
#include "base/source.h"
#include "core/mesh.h"
#include "core/partition_axis.h"
#include "core/plan.h"
#include "core/rules.h"
#include "core/views.h"
#include "findings/findings.h"
#include "io/load.h"
#include "io/topologies.h"
#include "resolve/name_resolution.h"
#include "resolve/resolve.h"

namespace shardplan {

// How to treat parameters that no rule matches: as an error, or with a note,
// replicated or placed by their size.
enum class Unmatched : uint8_t { Error, Replicate, Auto };

// Degrees of expert parallelism, as one framework's flags give them.
struct ExpertDegrees {
  std::optional<int64_t> experts;  // ranks that whole experts are placed over
  std::optional<int64_t> tensor;   // ranks that shard each expert

  bool given() const { return experts || tensor; }
};

struct PlanRequest {
  std::string model;                   // a path, or "-"
  LoadOptions reading;                 // --architecture
  std::vector<std::string> rules;      // --rules, in order
  std::optional<std::string> dialect;  // --dialect
  std::optional<std::string> table;    // --table
  std::vector<RuleAnswer> answers;     // --set
  // Whether rules other than these may use the answers: state rules, or the
  // rules of the other side of a comparison. Whoever has read all rules checks
  // the answers.
  bool state_rules_ask = false;
  bool other_side_asks = false;
  SourcePtr pattern;  // --pattern, as text named "--pattern"
  // Follows the original tools: how --pattern is split, axes that the mesh
  // lacks.
  bool parity = false;                                      // --parity
  RulesFallback fallback = RulesFallback::AxisIsUnsharded;  // --fallback
  FlaxVersion flax = FlaxVersion::Current;                  // --flax-compat
  SourcePtr mesh;                // --mesh, as text named "--mesh"
  std::vector<SourcePtr> views;  // --view, each as text named "--view"
  // --expert-model-parallel-size, --expert-tensor-parallel-size
  ExpertDegrees megatron;
  // --expert-parallel-degree, --expert-tensor-parallel-degree
  ExpertDegrees torchtitan;
  std::optional<NamedTopology> topology;  // --topology
  // --devices and --slices, or the topology's numbers.
  std::optional<int64_t> devices;
  std::optional<int64_t> slices;
  AxisNames axes;                         // --axes
  std::optional<std::string> saved_plan;  // --plan; excludes rules
  int64_t min_size = 0;                   // --min-size
  // --on-indivisible; else `rows` if the flags name a framework that shards
  // weights by rows, else `drop`.
  std::optional<OnIndivisible> on_indivisible;
  bool cuts_rows = false;
  Unmatched unmatched = {};              // --unmatched
  bool strict = true;                    // --no-strict
  Declarations declarations;             // --declare
  Mode mode = Mode::Train;               // --mode
  double tolerance = 0.02;               // --tolerance
  std::optional<double> max_replicated;  // --max-replicated
  int jobs = 0;                          // --jobs; 0: one per processor
  bool verbose = false;                  // --verbose
  // Whether a framework's degrees of expert parallelism are given.
  bool asks_experts() const { return megatron.given() || torchtitan.given(); }
  // Whether to try changes that would remove a finding. That takes most of the
  // time if there are many findings.
  bool find_fixes = true;
  // Whether fixes of many findings are tried together (advise/advise.h).
  bool fixes_together = false;
};

// Returns the view that a framework's degrees of expert parallelism stand for:
// the pipeline axis of the mesh and, from major to minor:
//
//   Megatron     edp, ep, etp                parallel_state.py: tp-cp-ep-dp-pp
//   torchtitan   its axes of dp_replicate, efsdp, ep, etp     parallel_dims.py
//
// Megatron shards experts over as many devices as the mesh's tensor parallelism
// unless a degree is given. torchtitan does not shard them; its main branch has
// no such degree since April 2026. Without degrees, or with torchtitan's ep of
// 1, which turns expert parallelism off, the view has no axes.
//
// `experts`: the number per layer, if known. Empty, with the reason reported
// (SP010): degrees that do not divide evenly, a mesh with other axes than the
// framework's or in another order, flags of both frameworks.
std::optional<ViewRequest> expert_view(const PlanRequest& request,
                                       const Mesh& mesh,
                                       std::optional<int64_t> experts,
                                       Diagnostics& diags);
// Returns whether a spec of the rules names the axis, or a logical rule maps to
// it.
bool is_named_in_rules(const RuleSet& rules, const AxisName& axis);
// Returns the names of the views that flags ask for.
std::vector<std::string> asked_views(const PlanRequest& request);

// Returns how to read rule files, unless they state it themselves.
RuleReading rule_reading(const PlanRequest& request);
// Returns how to read axis names.
NameReading name_reading(const PlanRequest& request);
ResolveOptions resolve_options(const PlanRequest& request, Host& host);
// Returns how to check a plan, as far as the plan's own request determines it.
LintOptions lint_options(const PlanRequest& request);

}  // namespace shardplan
