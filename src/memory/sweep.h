// SPDX-License-Identifier: Apache-2.0
// Headroom: how far a workload may grow before a device is full.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/diagnostic.h"
#include "core/manifest.h"
#include "core/mesh.h"
#include "core/plan.h"
#include "memory/budget.h"
#include "memory/kv_cache.h"
#include "memory/stages.h"

namespace shardplan {

// The largest batch (context) with which every device still fits while the
// other stays; 0 when not even 1 does, and empty when there is no limit below
// kMaxKvCount.
struct WorkloadHeadroom {
  std::optional<int64_t> batch;
  std::optional<int64_t> context;
};

// Exact: the budget with these fits, with one more it does not. REQUIRES:
// `options` has a KV request and a limit, and `budget` is what make_budget gave
// for them. Reports nothing new.
WorkloadHeadroom find_headroom(const Manifest& manifest, const Plan& plan,
                               const LayerGroups& groups,
                               const BudgetOptions& options,
                               const Budget& budget);

// Sweep: budgets of one model on many meshes, under many workloads, against
// many devices.
//
// What a mesh decides (placements, layers, axes of the KV cache) is computed
// once per mesh; a point then costs one budget and its margins.

// All ways to write `devices` as a product of one size per axis, sizes of 1
// among them; the first axis varies slowest, from large to small. Empty when
// there are more than `limit`.
std::optional<std::vector<Mesh>> factorizations(int64_t devices,
                                                const AxisNames& over,
                                                size_t limit);

// A mesh, and what all points on it share.
struct SweepMesh {
  Plan plan;
  KvSharding kv_sharding;
  int64_t errors = 0;  // findings about the plan, before grouping
  int64_t warnings = 0;
  std::string error_codes = {};  // "SP203, SP206"
};

struct SweepPoint {
  size_t mesh = 0;  // of the sweep's list
  std::optional<int64_t> batch;
  std::optional<int64_t> seq;
  std::optional<DeviceLimit> limit;
  CategoryBytes bytes{};  // of the fullest class of devices
  int64_t total = 0;
  int64_t headroom = 0;  // 0 without a limit
  bool fits = true;
  WorkloadHeadroom workload_headroom;  // with a limit and a workload
};

// `options` is complete: KV request, limit, reserve. Empty, with the reason
// reported, where make_budget is.
std::optional<SweepPoint> sweep_point(const Manifest& manifest,
                                      const SweepMesh& mesh,
                                      const LayerGroups& groups,
                                      const BudgetOptions& options,
                                      Diagnostics& diags);

// Points that fit, on meshes without errors, and that no other such point of
// the same workload and limit beats: none has fewer devices and no more bytes
// per device, or as many devices and fewer bytes. By workload and limit as
// given, then devices, ascending.
std::vector<size_t> frontier(const std::vector<SweepPoint>& points,
                             const std::vector<SweepMesh>& meshes);

}  // namespace shardplan
