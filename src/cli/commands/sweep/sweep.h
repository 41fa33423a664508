// SPDX-License-Identifier: Apache-2.0
// The configurations that `shardplan sweep` tries: meshes, views, workloads and
// devices, from flags that have a list of values here and one value elsewhere.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "activations/remat.h"
#include "base/diagnostic.h"
#include "base/host.h"
#include "core/mesh.h"
#include "core/rules.h"
#include "evaluate/candidate.h"
#include "memory/sweep.h"
#include "session/memory_request.h"
#include "session/plan_request.h"

namespace shardplan::cli {

// Lists for flags that other commands accept with one value.
struct SweepRequest {
  AxisNames over;                           // --over
  std::vector<int64_t> devices;             // --devices
  std::vector<int64_t> batch;               // --batch
  std::vector<int64_t> seq;                 // --seq
  std::vector<int64_t> microbatches;        // --microbatches
  std::vector<Remat> remat;                 // --remat
  std::vector<std::string> hardware;        // --hardware
  Objective objective = Objective::Memory;  // --objective
};

// Returns the meshes of `--mesh "A;B"`, with slices if they are known; or the
// meshes that --over and --devices produce; or that of the rules. Each mesh
// appears once. Returns empty, with the reason reported, if there is none or
// one is invalid.
std::optional<std::vector<SlicedMesh>> sweep_meshes(const SweepRequest& sweep,
                                                    const PlanRequest& planning,
                                                    const RuleSet& rules,
                                                    Diagnostics& diags);
// The meshes with the views of --view and of the rules. All meshes have the
// same views, which differ only in size.
struct ViewedMeshes {
  std::vector<Mesh> meshes;
  int64_t left_out = 0;  // invalid pairs of mesh and view sizes
  std::string why = {};  // reason for the first of these
};
// Combines every mesh with every combination of view sizes: both `--view
// experts:ep=4,8,edp=-1` and `--view "experts:ep=4,edp=2;ep=8,edp=1"` have two.
// Returns empty, with the reason reported, if no combination is valid or a view
// cannot be read.
std::optional<ViewedMeshes> with_views(const std::vector<SlicedMesh>& meshes,
                                       const PlanRequest& planning,
                                       const RuleSet& rules, const Model& model,
                                       Diagnostics& diags);
// Returns all pairs of --batch (default 1) and --seq; none without --seq.
std::vector<Workload> sweep_workloads(const SweepRequest& sweep);
// Returns all pairs of --microbatches and --remat, with the other options of
// `step`.
std::vector<StepOptions> sweep_steps(const SweepRequest& sweep,
                                     const StepOptions& step);
// Returns one device per --hardware, else the device of --memory, else one
// without a limit. Returns empty, with the reason reported, if one cannot be
// read.
std::optional<std::vector<Device>> sweep_devices(const SweepRequest& sweep,
                                                 const MemoryRequest& memory,
                                                 Host& host,
                                                 Diagnostics& diags);

}  // namespace shardplan::cli
