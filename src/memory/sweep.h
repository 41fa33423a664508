// SPDX-License-Identifier: Apache-2.0
// Sweep: one model on many meshes, under many workloads, against many devices,
// and which of these points are worth a look.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/mesh.h"
#include "memory/budget.h"
#include "memory/fit.h"
#include "memory/kv_cache.h"

namespace shardplan {

// All ways to write `devices` as a product of one size per axis, sizes of 1
// among them; the first axis varies slowest, from large to small. Empty when
// there are more than `limit`.
std::optional<std::vector<Mesh>> factorizations(int64_t devices,
                                                const AxisNames& over,
                                                size_t limit);

// A mesh, and what all points on it share.
struct SweepMesh {
  Mesh mesh;
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

// Seconds: at least, by the estimate, at most.
using SweptSeconds = std::array<double, 3>;

// How long a step of training, a prompt's first token or every one after it
// takes, each empty where no profile says or nobody asked.
enum class Timed : uint8_t { TrainingStep, FirstToken, NextToken };
inline constexpr size_t kTimed = 3;
struct SweptTimes {
  std::optional<Timed> asked = {};  // what points are compared by
  std::array<std::optional<SweptSeconds>, kTimed> of{};
  double tokens_per_second = 0;  // of what is asked for
  std::string untimed = {};      // why it has no time

  bool is_known() const { return asked && of[static_cast<size_t>(*asked)]; }
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

// What comes first among points on as many devices.
enum class Objective : uint8_t { Memory, StepTime, TokensPerSecond };
inline constexpr std::array<std::string_view, 3> kObjectiveNames = {
    "memory", "step-time", "tokens-per-second"};

// With a training step `bytes` and `total` are those of its estimate.
struct SweepPoint {
  size_t mesh = 0;  // of the sweep's list
  std::optional<int64_t> batch;
  std::optional<int64_t> seq;
  std::optional<SweptStep> step;
  std::optional<SweptServing> serving;
  SweptTimes times;
  std::optional<DeviceLimit> limit;
  std::string device = {};  // the timed profile's name, else the limit's
  CategoryBytes bytes{};    // of the fullest class of devices
  int64_t total = 0;
  Fit fit;                             // of what is asked for
  std::vector<std::string> refused;    // why no framework runs it
  int64_t warnings = 0;                // beside those of its mesh
  WorkloadHeadroom workload_headroom;  // with a limit and a KV cache

  Objective objective = Objective::Memory;  // else its time is known

  // By which points on as many devices are compared, less being better. Memory:
  // bytes, and with an engine, which fills each device, sequences.
  double cost() const;
  // Whether it fits, or may, and a framework runs it.
  bool is_sure() const { return refused.empty() && fit.surely(); }
  bool is_possible() const { return refused.empty() && fit.perhaps(); }
};

// Points that fit, on meshes without errors, and that no other such point of
// the same workload, way of doing it and limit beats: none has fewer devices
// and costs no more, or as many devices and costs less. By workload and limit
// as given, then devices, ascending.
std::vector<size_t> frontier(const std::vector<SweepPoint>& points,
                             const std::vector<SweepMesh>& meshes);

}  // namespace shardplan
