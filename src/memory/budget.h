// SPDX-License-Identifier: Apache-2.0
// Budget: everything that a device must hold under a plan, category by
// category, against what the device has.
//
// Devices that hold the same form one class; classes differ between pipeline
// stages and, under `chunk`, between uneven shards. The fullest class leads,
// and decides whether the plan fits.
// Identity, per category of state: bytes over all devices = replicas x logical
// bytes + padding. What exists for a while only (gathered layers) or follows no
// plan (cache, fragmentation, reserve) counts as it is stored.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/checked.h"
#include "base/diagnostic.h"
#include "core/hardware.h"
#include "core/manifest.h"
#include "core/plan.h"
#include "memory/kv_cache.h"
#include "memory/stages.h"
#include "memory/state.h"

namespace shardplan {

enum class Category : uint8_t {
  Parameters,
  Gradients,
  MasterWeights,
  OptimizerState,
  GatheredLayer,  // the largest layer, as gathered for use (FSDP)
  KvCache,
  RecurrentState,
  Fragmentation,
  Reserve,
};
inline constexpr size_t kCategories = 9;
std::string_view category_name(Category category);   // "master_weights"
std::string_view category_title(Category category);  // "master weights"
using CategoryBytes = std::array<int64_t, kCategories>;

// What a device offers, in bytes.
struct DeviceLimit {
  std::string name;     // "h100-sxm", "--memory"
  int64_t nominal = 0;  // as sold
  int64_t usable = 0;   // what a program can allocate
  // Nobody has seen what is usable: it is taken to be all, or worked out.
  bool usable_is_estimated = false;
  std::string vendor = {};  // "NVIDIA"; "" where no profile says it
  // What the cards of each stage can allocate, if they differ; `usable` is the
  // largest. The difference to it counts as the reserve of a stage. Empty: all
  // cards are alike.
  std::vector<int64_t> of_stages = {};
  CardGeneration generation = CardGeneration::Unknown;
};
// "stage 0 has 16.0 GiB, stage 1 has 32.0 GiB: what one has less than 32.0 GiB
// counts as reserve"; empty where all are alike.
std::string stage_limits_text(const DeviceLimit& limit);

struct BudgetOptions {
  StateOptions state;
  std::optional<KvRequest> kv;  // in prefill and decode
  KvSharding kv_sharding;       // its product divides the devices of a stage
  std::optional<Stages> stages;
  int64_t live_layers = 1;   // gathered at once
  int64_t reserve = 0;       // bytes kept free on each device
  double fragmentation = 0;  // of everything but the reserve; in millionths
  std::optional<DeviceLimit> limit;
  // Kinds of parameters where rules of their own place optimizer leaves, or
  // some are frozen; null: leaves follow the parameters, and all are trained.
  // Must outlive the call.
  const StateSpecs* state_specs = nullptr;
};

struct BudgetClass {
  std::string label;  // "stage 0: embedding, layers 0-7"; "" when all are alike
  int64_t devices = 0;
  int64_t stage = 0;                 // the first of its stages
  std::vector<int64_t> stages = {};  // all of them; none without a pipeline
  CategoryBytes bytes{};             // on the device
  CategoryBytes on_host{};           // in host memory (StateOptions::offload)
  int64_t total = 0;                 // of `bytes`
  int64_t host = 0;                  // of `on_host`

  // Wherever it lies.
  int64_t held(Category category) const {
    const auto i = static_cast<size_t>(category);
    return bytes[i] + on_host[i];
  }
};

// Over all devices.
struct CategoryTotal {
  Int128 on_devices = 0;
  Int128 with_replicas = 0;  // sum of replicas x logical bytes
  Int128 padding = 0;        // on_devices - with_replicas
};

// Units of layers that are alike: what one takes on a device.
struct GatheredClass {
  std::string label;  // "model/layers/*"
  int64_t groups = 0;
  int64_t sharded = 0;   // bytes as stored
  int64_t gathered = 0;  // bytes of the copy for use; 0: used where it is
};

struct Budget {
  std::vector<BudgetClass> classes;  // fullest first
  std::array<CategoryTotal, kCategories> totals{};
  std::optional<DeviceLimit> limit;
  // usable - the fullest class's total; negative when it does not fit. 0
  // without a limit.
  int64_t headroom = 0;

  std::vector<LeafSum> leaves;
  std::vector<GatheredClass> gathered;
  std::optional<StagePlan> stages;
  std::vector<std::string> stage_labels;  // per stage
  // Parameters with gradient and state of a group: of rank 2, and others.
  struct TrainedGroup {
    int64_t matrices = 0;
    int64_t others = 0;
    int64_t elements = 0;
  };
  std::vector<TrainedGroup> groups;  // by number
  // Those that no optimizer trains, for their dtype; and those that are
  // frozen, whatever their dtype.
  int64_t untrained = 0;
  int64_t untrained_bytes = 0;
  // With elements and bytes, each counted once, as the model has them.
  struct Part {
    int64_t parameters = 0;
    int64_t elements = 0;
    int64_t bytes = 0;
  };
  Part trained;
  Part frozen;
  // Bytes of gradients on a device: of those that no axis of the batch cuts,
  // and no ZeRO, though the mesh has one, and of all.
  Int128 replicated_gradients = 0;
  Int128 all_gradients = 0;

  bool fits() const { return !limit || headroom >= 0; }
};

// Empty, with the reason reported, when something is not known (no facts for
// the KV cache, stages without layers) or exceeds 63 bits. Whether the plan
// fits is not reported here (findings/memory_findings.cc).
std::optional<Budget> make_budget(const Manifest& manifest, const Plan& plan,
                                  const BudgetOptions& options,
                                  Diagnostics& diags);

// The same where the layers are known already: those of the plan's
// `placement_of`, or of `options.state_specs`. Costs as much as there are
// placements and units, not parameters.
std::optional<Budget> make_budget(const Manifest& manifest, const Plan& plan,
                                  const LayerGroups& groups,
                                  const BudgetOptions& options,
                                  Diagnostics& diags);

}  // namespace shardplan
