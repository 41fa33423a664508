// SPDX-License-Identifier: Apache-2.0
// Sweep: one model on many meshes, under many workloads and on many devices,
// and the points among these that are worth a look.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "core/mesh.h"
#include "memory/budget.h"
#include "memory/fit.h"
#include "memory/kv_cache.h"

namespace shardplan {

// Returns all ways to write `devices` as a product of one size per axis,
// including sizes of 1. The first axis varies slowest, from large to small.
// Returns no value if there are more than `limit`.
std::optional<std::vector<Mesh>> factorizations(int64_t devices,
                                                const AxisNames& over,
                                                size_t limit);

// A mesh, and the findings that all points on it share.
struct SweepMesh {
  Mesh mesh;
  int64_t errors = 0;  // findings about the plan, before grouping
  int64_t warnings = 0;
  std::string error_codes = {};  // "SP203, SP206"
};

// The allocated bytes of a training step at its peak (activations/bracket.h).
struct SweptStep {
  int64_t microbatches = 1;
  std::string remat;  // "full:uniform:2"
  int64_t lower = 0;
  int64_t estimate = 0;
  int64_t upper = 0;
  // Parts in addition to the categories of a budget, by the estimate:
  // "activations".
  std::vector<std::pair<std::string, int64_t>> beside;
};

// Seconds: lower end, estimate, upper end.
using SweptSeconds = std::array<double, 3>;

// The time of a training step, of a prompt's first token or of each further
// token; no value if no profile gives it or it was not requested.
enum class Timed : uint8_t { TrainingStep, FirstToken, NextToken };
inline constexpr size_t kTimed = 3;
struct SweptTimes {
  std::optional<Timed> asked = {};  // points are compared by this one
  std::array<std::optional<SweptSeconds>, kTimed> of{};
  double tokens_per_second = 0;  // of the requested time
  std::string untimed = {};      // why the time is not known

  bool is_known() const { return asked && nth(of, *asked); }
};

// How an engine uses the devices (serve/serving.h).
struct SweptServing {
  bool starts = false;
  std::vector<std::string> reasons;  // why it does not start
  int64_t weights = 0;
  int64_t cache = 0;  // bytes left for it, by the estimate; negative: nothing
                      // is left
  int64_t tokens = 0;
  std::array<double, 3> sequences{};  // in all groups: lower end, estimate,
                                      // upper end
};

// The measure by which points with equally many devices are ranked.
enum class Objective : uint8_t { Memory, StepTime, TokensPerSecond };
inline constexpr std::array<std::string_view, 3> kObjectiveNames = {
    "memory", "step-time", "tokens-per-second"};

// A point of the sweep. With a training step, `bytes` and `total` are those of
// its estimate.
struct SweepPoint {
  size_t mesh = 0;  // index in the sweep's list
  std::optional<int64_t> batch;
  std::optional<int64_t> seq;
  std::optional<SweptStep> step;
  std::optional<SweptServing> serving;
  SweptTimes times;
  std::optional<DeviceLimit> limit;
  std::string device = {};  // name of the timed profile, else of the limit
  CategoryBytes bytes{};    // of the fullest class of devices
  int64_t total = 0;
  Fit fit;                             // of the requested workload
  std::vector<std::string> refused;    // why no framework runs it
  int64_t warnings = 0;                // in addition to those of its mesh
  WorkloadHeadroom workload_headroom;  // with a limit and a KV cache

  Objective objective = Objective::Memory;  // other than Memory only if its
                                            // time is known

  // Returns the cost by which points with equally many devices are compared;
  // less is better. For Memory: the bytes or, with an engine, which fills each
  // device, minus the sequences.
  double cost() const;
  // Return whether it fits, or may fit, and a framework runs it.
  bool will_fit() const { return refused.empty() && fit.will_fit(); }
  bool may_fit() const { return refused.empty() && fit.may_fit(); }
};

// Returns the best points: those that fit, on meshes without errors, and that
// no other such point with the same workload, step and device beats. A point
// beats another if it has fewer devices and costs no more, or as many devices
// and costs less. Ordered by workload and device as given, then by devices,
// ascending.
std::vector<size_t> frontier(const std::vector<SweepPoint>& points,
                             const std::vector<SweepMesh>& meshes);

}  // namespace shardplan
