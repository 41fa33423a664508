// SPDX-License-Identifier: Apache-2.0
// From what is asked for to a plan with all that is known of it: model, rules
// and mesh read, resolved, measured, linted and advised on. No command line is
// needed for it.
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
  FoundSets found;               // where these are found; empty without any
  Plan plan;
  Folding folding;  // by placement
  DeviceMemory memory;
  Balance balance;
  std::optional<Slices> slices;  // of the plan's mesh, where they are known
  // How the plan was judged, with its stages where there is a pipeline: memory
  // and balance are of these. And which diagnostics came of it: from one number
  // up to another.
  LintOptions lint_how = {};
  size_t first_finding = 0;
  size_t end_finding = 0;
};

// How a plan is judged: axes that a request for memory names need no rule, and
// those of a pipeline and of ZeRO-3 shard what specs leave whole.
LintOptions lint_options_with(const PlanRequest& request,
                              const MemoryRequest& memory,
                              AxisNames named_axes);

// What a plan is made of, but for the mesh.
struct Inputs {
  Model model;
  RuleSet rules;
  ResolveOptions how;
};
// Empty, with the reason reported.
std::optional<Inputs> read_inputs(const PlanRequest& request, Host& host,
                                  Diagnostics& diags,
                                  ProgressListener& progress);

// The model that is asked for. Empty, with the reason reported.
std::optional<Model> read_model(const PlanRequest& request, Host& host,
                                Diagnostics& diags, ProgressListener& progress);
// The rules that are asked for, with the axes that are declared. Where the
// request names none, those that are shipped for the model's type, on which the
// manifest then remarks. Empty, with the reason reported.
std::optional<RuleSet> read_given_rules(const PlanRequest& request,
                                        Manifest& manifest, Host& host,
                                        Diagnostics& diags);
// The same without a model; REQUIRES: the request names some.
std::optional<RuleSet> read_given_rules(const PlanRequest& request, Host& host,
                                        Diagnostics& diags);

// The mesh that is asked for, else that of the rules or the model. Empty, with
// the reason reported.
std::optional<Mesh> planned_mesh(const PlanRequest& request, Inputs& inputs,
                                 Diagnostics& diags);

// Empty when there can be no answer; the diagnostics say why. Otherwise they
// hold every finding. What memory is asked for names axes, too, which need
// no rule then, and some of which shard weights that the plan leaves whole.
std::optional<Session> open_session(const PlanRequest& request,
                                    const MemoryRequest& memory, Host& host,
                                    Diagnostics& diags,
                                    ProgressListener& progress);

// Fills in what would remove findings (advise/advise.h), of those for which
// `is_asked` is true. `diags` are those of open_session() for the same request,
// which did not look for fixes itself; more may have followed.
void find_fixes(const Session& session, const PlanRequest& request, Host& host,
                const std::function<bool(const Diagnostic&)>& is_asked,
                Diagnostics& diags);

// What has been read or made of a request already.
struct ReadInputs {
  Model model;
  std::optional<RuleSet> rules;  // else those that the request names
  // Axes that something else than the rules names, such as the values of a
  // graph.
  AxisNames named_axes;
};
std::optional<Session> open_session(const PlanRequest& request,
                                    const MemoryRequest& memory,
                                    ReadInputs inputs, Host& host,
                                    Diagnostics& diags,
                                    ProgressListener& progress);

// The mesh of a run: written in a request, or from the rules.

// Reads `fsdp=4,tp=2`, or sizes alone, `4,2`, whose names are the request's
// axes, one for each. The diagnostics keep the text.
std::optional<SlicedMesh> written_mesh(const SourcePtr& text,
                                       const PlanRequest& request,
                                       std::optional<int64_t> devices,
                                       Diagnostics& diags);

// Adds the views that are asked for, and those of the rules that have other
// names. Degrees of expert parallelism divide the experts of the model.
bool add_views(const PlanRequest& request, const RuleSet& rules,
               const Model& model, Mesh& mesh, Diagnostics& diags);

// REQUIRES: the rules have a mesh.
std::optional<SlicedMesh> mesh_of_rules(const RuleSet& rules,
                                        const PlanRequest& request,
                                        Diagnostics& diags);

}  // namespace shardplan
