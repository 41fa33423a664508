// SPDX-License-Identifier: Apache-2.0
// What `shardplan sweep` is to try: meshes, workloads and devices from lists in
// flags that elsewhere take one value.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cli/commands.h"
#include "core/mesh.h"
#include "core/rules.h"
#include "memory/budget.h"

namespace shardplan::cli {

struct Workload {
  int64_t batch = 1;
  int64_t seq = 1;
};
struct SweepDevice {
  std::optional<DeviceLimit> limit;
  int64_t reserve = 0;
};

// The meshes of `--mesh "A;B"`, those that --over and --devices make, or that
// of the rules; each once. Empty, with the reason reported, when there is none
// or one is bad.
std::optional<std::vector<Mesh>> sweep_meshes(Context& context,
                                              const RuleSet& rules);
// All pairs of --batch (default 1) and --seq; none without --seq.
std::vector<Workload> sweep_workloads(const Options& options);
// One per --hardware, else what --memory says, else one without a limit.
// Empty, with the reason reported, when one cannot be read.
std::optional<std::vector<SweepDevice>> sweep_devices(Context& context);

}  // namespace shardplan::cli
