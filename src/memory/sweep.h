// SPDX-License-Identifier: Apache-2.0
// Headroom: how far a workload may grow before a device is full.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
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

// What a training step has allocated at its peak (activations/bracket.h).
struct SweptStep {
  int64_t microbatches = 1;
  std::string remat;  // "full:uniform:2"
  int64_t lower = 0;
  int64_t estimate = 0;
  int64_t upper = 0;
  // Beside the categories of a budget: "activations", by the estimate.
  std::vector<std::pair<std::string, int64_t>> beside;
};

// What an engine makes of the devices (serve/serving.h).
struct SweptServing {
  bool starts = false;
  std::vector<std::string> reasons;  // why it does not
  int64_t weights = 0;
  int64_t cache = 0;  // left for it, by the estimate; negative: nothing is
  int64_t tokens = 0;
  std::array<double, 3> sequences{};  // in all groups: least, estimate, most
};

// With a training step `bytes` and `total` are those of its estimate, and it
// fits where its upper end does; where its lower end alone does, it may.
struct SweepPoint {
  size_t mesh = 0;  // of the sweep's list
  std::optional<int64_t> batch;
  std::optional<int64_t> seq;
  std::optional<SweptStep> step;
  std::optional<SweptServing> serving;
  std::optional<DeviceLimit> limit;
  CategoryBytes bytes{};  // of the fullest class of devices
  int64_t total = 0;
  int64_t headroom = 0;  // 0 without a limit
  bool fits = true;
  bool may_fit = false;                // not sure
  std::vector<std::string> refused;    // why no framework runs it
  WorkloadHeadroom workload_headroom;  // with a limit and a KV cache

  // By which points on as many devices are compared: bytes, and with an engine,
  // which fills each device, sequences.
  double cost() const;
};

// `options` is complete: KV request, limit, reserve. Empty, with the reason
// reported, where make_budget is.
std::optional<SweepPoint> sweep_point(const Manifest& manifest,
                                      const SweepMesh& mesh,
                                      const LayerGroups& groups,
                                      const BudgetOptions& options,
                                      Diagnostics& diags);

// The same of a budget that has been made.
SweepPoint sweep_point(const Manifest& manifest, const SweepMesh& mesh,
                       const LayerGroups& groups, const BudgetOptions& options,
                       const Budget& budget);
// `bytes` are those of the estimate. A state that does not fit stays so.
void set_step(SweptStep step, const CategoryBytes& bytes, SweepPoint& point);

// Points that fit, on meshes without errors, and that no other such point of
// the same workload, way of doing it and limit beats: none has fewer devices
// and costs no more, or as many devices and costs less. By workload and limit
// as given, then devices, ascending.
std::vector<size_t> frontier(const std::vector<SweepPoint>& points,
                             const std::vector<SweepMesh>& meshes);

}  // namespace shardplan
