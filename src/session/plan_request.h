// SPDX-License-Identifier: Apache-2.0
// What a plan is asked for with: which model, rules and mesh, and how they are
// read and judged.
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

// What becomes of parameters that no rule matches: an error, or a note where
// they are to be replicated or placed by their size.
enum class Unmatched : uint8_t { Error, Replicate, Auto };

// Degrees of expert parallelism, by the flags of one framework.
struct ExpertDegrees {
  std::optional<int64_t> experts;  // ranks among which experts are dealt out
  std::optional<int64_t> tensor;   // ranks that each expert is cut over

  bool given() const { return experts || tensor; }
};

struct PlanRequest {
  std::string model;                   // a path, or "-"
  LoadOptions reading;                 // --architecture
  std::vector<std::string> rules;      // --rules, in order
  std::optional<std::string> dialect;  // --dialect
  std::optional<std::string> table;    // --table
  std::vector<RuleAnswer> answers;     // --set
  // Others than these rules may ask for them: rules of state, or those of the
  // other side of a change. Whoever has read all of them checks the answers.
  bool state_rules_ask = false;
  bool other_side_asks = false;
  SourcePtr pattern;  // --pattern, as text named "--pattern"
  // As the originals did it: how --pattern is split, axes that the mesh lacks.
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
  // --devices and --slices, or what the topology says of them.
  std::optional<int64_t> devices;
  std::optional<int64_t> slices;
  AxisNames axes;                         // --axes
  std::optional<std::string> saved_plan;  // --plan; then no rules
  int64_t min_size = 0;                   // --min-size
  // --on-indivisible; else `rows` where the flags name a framework that cuts
  // weights so, else `drop`.
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
  // Whether changes that would remove a finding are tried, which takes most of
  // the time where there are many.
  bool find_fixes = true;
  // Whether those of many findings are tried together (advise/advise.h).
  bool fixes_together = false;
};

// The view that a framework's degrees of expert parallelism stand for: the
// pipeline's axis of the mesh and, major to minor,
//
//   Megatron     edp, ep, etp                parallel_state.py: tp-cp-ep-dp-pp
//   torchtitan   its axes of dp_replicate, efsdp, ep, etp     parallel_dims.py
//
// Megatron cuts experts over as many devices as the mesh's tensor parallelism
// where no other degree is given, torchtitan not at all; its main branch has no
// such degree since April 2026. Without degrees, or with torchtitan's ep of 1,
// which turns expert parallelism off, the view has no axes.
//
// `experts`: those of a layer, where that is known. Empty, with the reason
// reported (SP010): degrees that do not divide what they must, a mesh with
// other axes or in another order than the framework's, flags of both.
std::optional<ViewRequest> expert_view(const PlanRequest& request,
                                       const Mesh& mesh,
                                       std::optional<int64_t> experts,
                                       Diagnostics& diags);
// Whether flags ask for any view, and the names of these.
std::vector<std::string> asked_views(const PlanRequest& request);

// How rule files are read, but for what they say themselves.
RuleReading rule_reading(const PlanRequest& request);
// How names of axes are read.
NameReading name_reading(const PlanRequest& request);
ResolveOptions resolve_options(const PlanRequest& request, Host& host);
// How a plan is judged by what is asked of it alone.
LintOptions lint_options(const PlanRequest& request);

}  // namespace shardplan
