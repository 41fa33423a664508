// SPDX-License-Identifier: Apache-2.0
// What a device must hold and what it has: from what is asked for and a plan to
// a budget.
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
#include "core/plan.h"
#include "memory/budget.h"
#include "memory/kv_cache.h"
#include "memory/stages.h"
#include "memory/state.h"
#include "session/plan_request.h"

namespace shardplan {

struct MemoryRequest {
  std::optional<std::string> hardware;  // a shipped profile's name, or a path
  std::optional<int64_t> limit;         // --memory, bytes
  int64_t reserve = 0;                  // --reserve, bytes, or
  double reserve_fraction = 0;          // of what is usable
  double fragmentation = 0;
  std::optional<Stages> stages;
  StateOptions state;
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

struct BudgetInput {
  BudgetOptions options;  // its state_specs points below
  std::unique_ptr<StateSpecs> state_specs;
  TrainedParameters trained;      // empty: all
  GroupOfParameters group_of;     // by options.state.groups; empty: one group
  std::optional<KvAxes> kv_axes;  // with options.kv
  LayerGroups groups;
};

// What names tell, for plans that differ in the mesh alone: reading them again
// for every mesh would take most of the time.
struct NamesRead {
  std::optional<std::vector<KeyProjection>> projections;
  std::vector<KeyProjection> state_projections;  // where there are projections
  std::optional<TrainedParameters> trained;      // by `trainable`
  std::optional<GroupOfParameters> group_of;     // by `state.groups`
  std::vector<uint32_t> kind_of;  // that the units were determined for
  LayerGroups groups;
};

// Empty, with the reason reported. Findings about state rules are reported
// too; `request` says how these are read and judged. `read` is of the same
// manifest. `token_axes`: of a training step (session/step.h).
std::optional<BudgetInput> budget_input(const MemoryRequest& memory,
                                        const PlanRequest& request,
                                        const Manifest& manifest,
                                        const Plan& plan, NamesRead& read,
                                        Host& host, Diagnostics& diags,
                                        const AxisNames& token_axes = {});

struct Session;  // session/session.h

// step_token_axes() where a training step is asked about; else none.
AxisNames token_axes_of(const MemoryRequest& memory, const PlanRequest& request,
                        const Session& session, const Mesh& mesh);

struct BudgetAnswer {
  BudgetInput input;
  Budget budget;
};
// The budget, with SP301 and SP305 reported, and meshes on which it fits.
std::optional<BudgetAnswer> answer_budget(const MemoryRequest& memory,
                                          const PlanRequest& request,
                                          const Session& session, Host& host,
                                          Diagnostics& diags);

}  // namespace shardplan
