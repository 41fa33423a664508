// SPDX-License-Identifier: Apache-2.0
// Session: a plan and everything known about it. The model, rules and mesh are
// read, resolved, measured and checked, and fixes are found. It needs no
// command line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "base/diagnostic.h"
#include "base/host.h"
#include "base/source.h"
#include "core/fold.h"
#include "core/manifest.h"
#include "core/mesh.h"
#include "core/plan.h"
#include "core/rules.h"
#include "findings/findings.h"
#include "model/model.h"
#include "resolve/device_memory.h"
#include "resolve/resolve.h"
#include "session/memory_request.h"
#include "session/plan_request.h"
#include "session/progress_listener.h"

namespace shardplan {

struct Session {
  Model model;
  std::optional<RuleSet> rules;  // absent with --plan
  FoundSets found;               // the matches of `rules`; empty without
  Plan plan;
  Folding folding;  // by placement
  DeviceMemory memory;
  Balance balance;
  std::optional<Slices> slices;  // of the plan's mesh, if known
  // How the plan was checked, including its stages if there is a pipeline;
  // memory and balance refer to these stages. The check produced the
  // diagnostics from first_finding up to end_finding.
  LintOptions lint_how = {};
  size_t first_finding = 0;
  size_t end_finding = 0;
};

// Returns how to check a plan. Axes that a memory request names need no rule,
// and the axes of a pipeline and of ZeRO-3 shard what specs replicate.
LintOptions lint_options_with(const PlanRequest& request,
                              const MemoryRequest& memory,
                              AxisNames named_axes);

// Everything that a plan is made from, except the mesh.
struct Inputs {
  Model model;
  RuleSet rules;
  ResolveOptions how;
};
// Reads the inputs. Empty, with the reason reported.
std::optional<Inputs> read_inputs(const PlanRequest& request, Host& host,
                                  Diagnostics& diags,
                                  ProgressListener& progress);

// Reads the requested model. Empty, with the reason reported.
std::optional<Model> read_model(const PlanRequest& request, Host& host,
                                Diagnostics& diags, ProgressListener& progress);
// Reads the requested rules and adds the declared axes. If the request names no
// rules, uses the shipped set for the model, with a remark. Empty, with the
// reason reported.
std::optional<RuleSet> read_given_rules(const PlanRequest& request,
                                        Manifest& manifest, Host& host,
                                        Diagnostics& diags);

// Returns the requested mesh, else the mesh of the rules or the model. Empty,
// with the reason reported.
std::optional<Mesh> planned_mesh(const PlanRequest& request, Inputs& inputs,
                                 Diagnostics& diags);

// Makes and checks the requested plan. Empty if there can be no answer; the
// diagnostics state the reason. Otherwise they hold every finding. Axes that
// `memory` names need no rule, and some of them shard weights that the plan
// replicates.
std::optional<Session> open_session(const PlanRequest& request,
                                    const MemoryRequest& memory, Host& host,
                                    Diagnostics& diags,
                                    ProgressListener& progress);

// Adds fixes (advise/advise.h) to the findings for which `is_asked` is true.
// `diags` are those of open_session() for the same request, which did not look
// for fixes itself; later diagnostics may follow.
void find_fixes(const Session& session, const PlanRequest& request, Host& host,
                const std::function<bool(const Diagnostic&)>& is_asked,
                Diagnostics& diags);

// The parts of a request that have already been read or built.
struct ReadInputs {
  Model model;
  std::optional<RuleSet> rules;  // else read those that the request names
  // Axes that something other than the rules names, such as the values of a
  // graph.
  AxisNames named_axes;
};
std::optional<Session> open_session(const PlanRequest& request,
                                    const MemoryRequest& memory,
                                    ReadInputs inputs, Host& host,
                                    Diagnostics& diags,
                                    ProgressListener& progress);

// The mesh of a run, from the request's text or from the rules.

// Reads `fsdp=4,tp=2`, or sizes alone, `4,2`, which belong to the request's
// axes in order. The diagnostics keep the text.
std::optional<SlicedMesh> written_mesh(const SourcePtr& text,
                                       const PlanRequest& request,
                                       std::optional<int64_t> devices,
                                       Diagnostics& diags);

// Adds the requested views, and the rules' views with other names. Degrees of
// expert parallelism must divide the model's experts.
bool add_views(const PlanRequest& request, const RuleSet& rules,
               const Model& model, Mesh& mesh, Diagnostics& diags);

// Makes the mesh of the rules. REQUIRES: the rules have one.
std::optional<SlicedMesh> mesh_of_rules(const RuleSet& rules,
                                        const PlanRequest& request,
                                        Diagnostics& diags);

}  // namespace shardplan
