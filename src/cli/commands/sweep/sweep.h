// SPDX-License-Identifier: Apache-2.0
// What `shardplan sweep` is to try: meshes, views, workloads and devices from
// lists in flags that elsewhere take one value.
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

struct Flag;

// Lists that `sweep` takes where other commands take one value.
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

// --over; the lists come from flags that others take, too.
const std::vector<Flag>& sweep_flags();

// The meshes of `--mesh "A;B"`, with the slices that are known, those that
// --over and --devices make, or that of the rules; each once. Empty, with the
// reason reported, when there is none or one is bad.
std::optional<std::vector<SlicedMesh>> sweep_meshes(const SweepRequest& sweep,
                                                    const PlanRequest& planning,
                                                    const RuleSet& rules,
                                                    Diagnostics& diags);
// The meshes with the views of --view and of the rules, which are the same on
// every mesh but for their sizes.
struct ViewedMeshes {
  std::vector<Mesh> meshes;
  int64_t left_out = 0;  // meshes and sizes of views that do not go together
  std::string why = {};  // of the first of these
};
// Every mesh with every combination of sizes: `--view experts:ep=4,8,edp=-1`
// has two, `--view "experts:ep=4,edp=2;ep=8,edp=1"` too. Empty, with the reason
// reported, where none of them go together, or a view cannot be read.
std::optional<ViewedMeshes> with_views(const std::vector<SlicedMesh>& meshes,
                                       const PlanRequest& planning,
                                       const RuleSet& rules, const Model& model,
                                       Diagnostics& diags);
// All pairs of --batch (default 1) and --seq; none without --seq.
std::vector<Workload> sweep_workloads(const SweepRequest& sweep);
// All pairs of --microbatches and --remat, over the other options of a step.
std::vector<StepOptions> sweep_steps(const SweepRequest& sweep,
                                     const StepOptions& step);
// One per --hardware, else what --memory says, else one without a limit.
// Empty, with the reason reported, when one cannot be read.
std::optional<std::vector<Device>> sweep_devices(const SweepRequest& sweep,
                                                 const MemoryRequest& memory,
                                                 Host& host,
                                                 Diagnostics& diags);

}  // namespace shardplan::cli
