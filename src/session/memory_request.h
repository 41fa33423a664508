// SPDX-License-Identifier: Apache-2.0
// A request about memory, read from flags, and the memory of a device.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "base/host.h"
#include "core/manifest.h"
#include "core/mesh.h"
#include "evaluate/asked_memory.h"
#include "memory/budget.h"
#include "memory/stages.h"
#include "memory/state.h"
#include "session/plan_request.h"

namespace shardplan {

struct MemoryRequest {
  std::optional<std::string> hardware;  // a shipped profile's name, or a path
  std::vector<std::string> calibrate;   // files of --calibrate
  std::optional<int64_t> limit;         // --memory, bytes, or
  std::vector<int64_t> stage_limits;    // of the devices of each stage
  int64_t reserve = 0;                  // --reserve, bytes, or
  double reserve_fraction = 0;          // of what is usable
  double fragmentation = 0;
  std::optional<Stages> stages;
  StateOptions state;
  std::optional<StepPrecision> precision;
  std::vector<std::string> state_rules;  // as `rules`
  // Patterns of names (session/trainable.h); none: all are trained.
  std::vector<std::string> trainable;
  int64_t live_layers = 1;
  std::optional<int64_t> batch;
  std::optional<int64_t> seq;
  std::optional<int64_t> source_seq;  // tokens that an encoder gives
  std::optional<DType> kv_dtype;
  int64_t kv_block = 1;
  // Each empty when not given.
  AxisNames kv_axes;
  AxisNames batch_axes;
  AxisNames sequence_axes;
  AxisNames ulysses_axes;  // of a training step: attention cuts heads instead
};

inline constexpr int64_t kMostMicrobatches = 1'000'000;

// How a step is done. --batch and --seq are those of the KV cache, too.
struct WorkloadRequest {
  // --remat, --microbatches, --schedule, --attention, --loss-tiles,
  // --expert-factor.
  StepOptions step;
  bool given = false;          // one of these was
  bool kernels_given = false;  // --kernels, which inference has as well
  Hide hide = Hide::Framework;
};

// Empty when neither --memory nor --hardware is given, which is not a mistake,
// or when the profile cannot be read or states no memory: then
// diags.cannot_run(). --memory overrides the profile's size, but a profile
// that is named is read all the same.
std::optional<DeviceLimit> device_limit(const MemoryRequest& memory, Host& host,
                                        Diagnostics& diags);

// --reserve in bytes, rounded up: as given, or the fraction of what is usable.
// Empty, with the reason reported (SP010), for a fraction without a limit.
std::optional<int64_t> reserve_bytes(const MemoryRequest& memory,
                                     const std::optional<DeviceLimit>& limit,
                                     Diagnostics& diags);

// Whether anything was asked for beyond what parameters take.
bool asks_for_budget(const MemoryRequest& memory, Mode mode);

// Mode, batch, optimizer and ZeRO against one another (SP010).
bool check_memory_request(const MemoryRequest& memory, Mode mode,
                          Diagnostics& diags);

// Whether a training step with a workload is asked for.
bool asks_for_step(const PlanRequest& planning, const MemoryRequest& memory);
// Whether the flags of a training step agree with one another and with a
// workload; else SP010.
bool check_step_request(const PlanRequest& planning,
                        const MemoryRequest& memory,
                        const WorkloadRequest& workload, Diagnostics& diags);

// The profile that is named, with what was measured, calibrated; null where
// none is, or, with the reason reported, where something cannot be read.
std::shared_ptr<const HardwareProfile> measured_card(
    const MemoryRequest& memory, Host& host, Diagnostics& diags);

// Reads a request: the device, the parameters that are trained, state rules.
// Empty, with the reason reported. `request` says how rules are read and
// judged, and `workload` how a training step is done; `rules` are those of
// parameters, null for a saved plan.
// REQUIRES: check_memory_request().
std::optional<AskedMemory> asked_memory(const MemoryRequest& memory,
                                        const PlanRequest& request,
                                        const WorkloadRequest& workload,
                                        const Manifest& manifest,
                                        const RuleSet* rules, Host& host,
                                        Diagnostics& diags);

}  // namespace shardplan
