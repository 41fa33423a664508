// SPDX-License-Identifier: Apache-2.0
// Budget: everything that a device must hold under a plan, by category,
// compared with the capacity of the device.
//
// Devices that hold the same bytes form one class; classes differ between
// pipeline stages and, under Cut::Chunked, between uneven shards. The fullest
// class comes first and decides whether the plan fits.
//
// Identity, per category of state and for the KV cache: bytes over all devices
// = replicas x logical bytes + padding. All other categories count as they are
// stored, without padding.
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
  GatheredLayer,  // the largest layer, gathered for use (FSDP)
  KvCache,
  RecurrentState,
  Fragmentation,
  Reserve,
};
inline constexpr size_t kCategories = 9;
std::string_view category_name(Category category);   // "master_weights"
std::string_view category_title(Category category);  // "master weights"
using CategoryBytes = std::array<int64_t, kCategories>;

// The memory capacity of a device, in bytes.
struct DeviceLimit {
  std::string name;     // "h100-sxm", "--memory"
  int64_t nominal = 0;  // advertised
  int64_t usable = 0;   // what a program can allocate
  // `usable` was never measured: it is assumed to be all, or computed.
  bool usable_is_estimated = false;
  std::string vendor = {};  // "NVIDIA"; "" if no profile gives it
  // The bytes that the cards of each stage can allocate, if they differ;
  // `usable` is then the largest. The shortfall from it counts as the reserve
  // of a stage. Empty: all cards are alike.
  std::vector<int64_t> of_stages = {};
  CardGeneration generation = CardGeneration::Unknown;
};
// Returns "stage 0 has 16.0 GiB, stage 1 has 32.0 GiB: any shortfall from 32.0
// GiB counts as reserve"; empty if all stages are alike.
std::string stage_limits_text(const DeviceLimit& limit);

struct BudgetOptions {
  StateOptions state;
  std::optional<KvRequest> kv;  // in prefill and decode
  KvSharding kv_sharding;       // its product divides the devices of a stage
  std::optional<Stages> stages;
  int64_t live_layers = 1;   // layers gathered at a time
  int64_t reserve = 0;       // bytes left free on each device
  double fragmentation = 0;  // fraction of all but the reserve, rounded to
                             // millionths
  std::optional<DeviceLimit> limit;
  // The kinds of parameters, if state rules place optimizer leaves, or some
  // parameters are frozen or in groups. Null: leaves follow the parameters, and
  // all are trained. Must outlive the call.
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

  // Returns the bytes on the device and on the host.
  int64_t held(Category category) const {
    const auto i = to_size(category);
    return bytes[i] + on_host[i];
  }
};

// Over all devices.
struct CategoryTotal {
  Int128 on_devices = 0;
  Int128 with_replicas = 0;  // sum of replicas x logical bytes
  Int128 padding = 0;        // on_devices - with_replicas
};

// Layer groups of one form, and the bytes of one of them on a device.
struct GatheredClass {
  std::string label;  // "model/layers/*"
  int64_t groups = 0;
  int64_t sharded = 0;   // bytes as stored
  int64_t gathered = 0;  // bytes of the copy for use; 0: no copy is needed
};

struct Budget {
  std::vector<BudgetClass> classes;  // fullest first
  std::array<CategoryTotal, kCategories> totals{};
  std::optional<DeviceLimit> limit;
  // usable - the fullest class's total; negative if it does not fit. 0 without
  // a limit.
  int64_t headroom = 0;

  std::vector<LeafSum> leaves;
  std::vector<GatheredClass> gathered;
  std::optional<StagePlan> stages;
  std::vector<std::string> stage_labels;  // per stage
  // Parameters of a group with gradients and optimizer state: those of rank 2,
  // and others.
  struct TrainedGroup {
    int64_t matrices = 0;
    int64_t others = 0;
    int64_t elements = 0;
  };
  std::vector<TrainedGroup> groups;  // by group number
  // Per stage, the trained parameters of which its fullest device holds at least
  // a part. Experts that are placed whole count where they are.
  std::vector<int64_t> updated;
  // Parameters that no optimizer can train because of their dtype, and their
  // bytes.
  int64_t untrained = 0;
  int64_t untrained_bytes = 0;
  // Counts of parameters, elements and bytes, each once, as in the model:
  // trained parameters, and frozen ones of any dtype.
  struct Part {
    int64_t parameters = 0;
    int64_t elements = 0;
    int64_t bytes = 0;
  };
  Part trained;
  Part frozen;
  // Bytes of gradients on a device. Replicated are those that neither ZeRO nor
  // an axis of the batch shards, although the mesh has such an axis.
  Int128 replicated_gradients = 0;
  Int128 all_gradients = 0;

  bool fits() const { return !limit || headroom >= 0; }
};

// Returns the budget. Returns no value, and reports the reason, if facts are
// missing (for the KV cache, or the layers of stages) or a sum exceeds 63 bits.
// Whether the plan fits is not reported here (findings/memory_findings.cc).
std::optional<Budget> make_budget(const Manifest& manifest, const Plan& plan,
                                  const BudgetOptions& options,
                                  Diagnostics& diags);

// The same with known layers: `groups` are the layer groups by the plan's
// `placement_of`, or by that of `options.state_specs`. The cost is proportional
// to the numbers of placements and groups, not of parameters.
std::optional<Budget> make_budget(const Manifest& manifest, const Plan& plan,
                                  const LayerGroups& groups,
                                  const BudgetOptions& options,
                                  Diagnostics& diags);

}  // namespace shardplan
