// SPDX-License-Identifier: Apache-2.0
// MemoryRequest: a request about memory, read from flags, and the memory of a
// device.
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
  std::optional<int64_t> limit;         // --memory, in bytes, or
  std::vector<int64_t> stage_limits;    // per stage, that of its devices
  int64_t reserve = 0;                  // --reserve, in bytes, or
  double reserve_fraction = 0;          // as a fraction of the usable memory
  double fragmentation = 0;
  std::optional<Stages> stages;
  StateOptions state;
  std::optional<StepPrecision> precision;
  std::vector<std::string> state_rules;  // like PlanRequest::rules
  // Name patterns (session/trainable.h); none: all parameters are trained.
  std::vector<std::string> trainable;
  int64_t live_layers = 1;
  std::optional<int64_t> batch;
  std::optional<int64_t> seq;
  std::optional<int64_t> source_seq;  // tokens that an encoder reads
  std::optional<DType> kv_dtype;
  int64_t kv_block = 1;
  // Each is empty if not given.
  AxisNames kv_axes;
  AxisNames batch_axes;
  AxisNames sequence_axes;
  AxisNames ulysses_axes;  // of a step: attention shards heads instead
};

inline constexpr int64_t kMostMicrobatches = 1'000'000;

// How a step runs. --batch and --seq also set those of the KV cache.
struct WorkloadRequest {
  // --remat, --microbatches, --schedule, --attention, --loss-tiles,
  // --expert-factor.
  StepOptions step;
  bool given = false;          // whether any of these was given
  bool kernels_given = false;  // --kernels, which also affects inference
  Hide hide = Hide::Framework;
};

// Reports flags that do not agree (SP010), and returns false.
bool refuse_flags(const std::string& message, const std::string& help,
                  Diagnostics& diags);

// Returns the memory of a device. Empty if neither --memory nor --hardware is
// given, which is no error, or if the profile cannot be read or states no
// memory: then diags.cannot_run(). --memory overrides the size in the profile,
// but a named profile is read anyway.
std::optional<DeviceLimit> device_limit(const MemoryRequest& memory, Host& host,
                                        Diagnostics& diags);

// Returns --reserve in bytes, rounded up: as given, or as a fraction of the
// usable memory. Empty, with the reason reported (SP010), for a fraction
// without a limit.
std::optional<int64_t> reserve_bytes(const MemoryRequest& memory,
                                     const std::optional<DeviceLimit>& limit,
                                     Diagnostics& diags);

// Returns whether anything beyond the parameters is requested.
bool asks_for_budget(const MemoryRequest& memory, Mode mode);

// Checks mode, batch, optimizer and ZeRO against each other (SP010).
bool check_memory_request(const MemoryRequest& memory, Mode mode,
                          Diagnostics& diags);

// Returns whether a training step with a workload is requested.
bool asks_for_step(const PlanRequest& planning, const MemoryRequest& memory);
// Checks the flags of a training step against each other and against the
// workload (SP010).
bool check_step_request(const PlanRequest& planning,
                        const MemoryRequest& memory,
                        const WorkloadRequest& workload, Diagnostics& diags);

// Returns the named hardware profile with its measured tables, calibrated. Null
// if no profile is named, or, with the reason reported, if a file cannot be
// read.
std::shared_ptr<const HardwareProfile> measured_card(
    const MemoryRequest& memory, Host& host, Diagnostics& diags);

// Reads a request: the device, the trained parameters, the state rules. Empty,
// with the reason reported. `request` states how to read and check rules, and
// `workload` how a training step runs. `rules` are those of parameters; null
// for a saved plan.
// REQUIRES: check_memory_request().
std::optional<AskedMemory> asked_memory(const MemoryRequest& memory,
                                        const PlanRequest& request,
                                        const WorkloadRequest& workload,
                                        const Manifest& manifest,
                                        const RuleSet* rules, Host& host,
                                        Diagnostics& diags);

}  // namespace shardplan
