// SPDX-License-Identifier: Apache-2.0
// Session: model, rules and mesh read, resolved, measured and linted; what
// check, resolve and analyze have in common.
#pragma once

#include <cstdint>
#include <optional>

#include "base/diagnostic.h"
#include "base/source.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "core/fold.h"
#include "core/manifest.h"
#include "core/mesh.h"
#include "core/plan.h"
#include "core/rules.h"
#include "resolve/analyze.h"
#include "resolve/resolve.h"

namespace shardplan::cli {

struct Session {
  Manifest manifest;
  std::optional<RuleSet> rules;  // absent with --plan
  Plan plan;
  Folding folding;  // by placement
  DeviceMemory memory;
  Balance balance;
  std::optional<Slices> slices;  // of the plan's mesh, where they are known
};

// What a plan is made of, but for the mesh.
struct Inputs {
  Manifest manifest;
  RuleSet rules;
  ResolveOptions how;
};
// Empty, with the reason reported.
std::optional<Inputs> read_inputs(Context& context);

// The model that the options name. Empty, with the reason reported.
std::optional<Manifest> read_manifest(Context& context);
// The rules that they name, with the axes that they declare; REQUIRES: they
// name some. Empty, with the reason reported.
std::optional<RuleSet> read_given_rules(Context& context);

// The mesh that the options name, else that of the rules. Empty, with the
// reason reported.
std::optional<Mesh> planned_mesh(Context& context, Inputs& inputs);

// Empty when there can be no answer; the diagnostics say why. Otherwise they
// hold every finding.
std::optional<Session> open_session(Context& context);
// The same for a model that has been read; with `rules`, by these instead of
// those that the options name. `named_axes` are axes that something else than
// the rules names, such as the values of a graph.
std::optional<Session> open_session(Context& context, Manifest manifest,
                                    std::optional<RuleSet> rules = {},
                                    AxisNames named_axes = {});

// The mesh of a run: from --mesh with --axes, --devices and --slices, or from
// the rules.

// Reads `fsdp=4,tp=2`, or sizes alone, `4,2`, whose names are --axes, one for
// each. The diagnostics keep the text.
std::optional<SlicedMesh> written_mesh(const SourcePtr& text,
                                       const Options& options,
                                       std::optional<int64_t> devices,
                                       Diagnostics& diags);

// REQUIRES: the rules have a mesh.
std::optional<SlicedMesh> mesh_of_rules(const RuleSet& rules,
                                        std::optional<int64_t> devices,
                                        std::optional<int64_t> slices,
                                        Diagnostics& diags);

}  // namespace shardplan::cli
