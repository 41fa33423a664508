// SPDX-License-Identifier: Apache-2.0
// Training state: what a parameter takes besides itself, exactly.
//
// For every parameter that is trained an optimizer keeps leaves: moments of the
// parameter's shape, factored statistics, counters; around it stand a gradient
// and, under mixed precision, master weights. Each leaf has a type and a spec
// of its own.
// A leaf's spec follows the parameter's, unless rules of its own say otherwise;
// ZeRO then shards it over further axes (memory/zero.h), with the padding that
// the framework really stores.
// Sources: shapes and roles as optax 0.2 has them (adamw, lion, trace,
// scale_by_factored_rms, contrib.muon). docs/formats/memory.md has the
// formulas.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/checked.h"
#include "base/diagnostic.h"
#include "core/manifest.h"
#include "core/mesh.h"
#include "core/plan.h"
#include "core/rules.h"
#include "core/spec.h"
#include "core/types.h"
#include "resolve/device_memory.h"
#include "resolve/resolve.h"

namespace shardplan {

enum class Optimizer : uint8_t {
  None,  // no training: parameters alone
  AdamW,
  Adafactor,
  Lion,
  Sgd,
  SgdMomentum,
  Muon,
  AdamW8bit,  // bitsandbytes': moments of 8 bits, in blocks
  // torchao's: the same in blocks of each rank's own shard
  TorchaoAdamW8bit,
  TorchaoAdamW4bit,
  TorchaoAdamWFp8,
};
// Whether its moments have a dtype of their own, and are blocks.
bool has_block_moments(Optimizer optimizer);
std::string_view optimizer_name(Optimizer optimizer);  // "sgd-momentum"
std::optional<Optimizer> find_optimizer(std::string_view name);
std::span<const std::string_view> optimizer_names();
// What transformers calls an optimizer (`optim`, "adamw_bnb_8bit"), as a help
// line that says which of these it is; "" where none is.
std::string trainers_optimizer(std::string_view name);

// Who shards state over the ZeRO axes, and hence how it is padded.
enum class ZeroStyle : uint8_t {
  Jax,        // the first dimension that the axes divide; else replicated
  DeepSpeed,  // flat buffers (stages 1, 2), flat parameters (stage 3)
  Fsdp2,      // torch.chunk of dimension 0, padded to the first chunk
  Megatron,   // distributed optimizer: flat buckets of the gradient buffer
};
std::string_view zero_style_name(ZeroStyle style);
std::optional<ZeroStyle> find_zero_style(std::string_view name);
std::span<const std::string_view> zero_style_names();

// Dtypes of a training step as people name them together.
enum class StepPrecision : uint8_t {
  F32,       // all of it
  BF16,      // all of it
  F16,       // all of it
  Autocast,  // PyTorch's: weights and state in f32, products in bf16
  Mixed,     // 16-bit weights and gradients beside f32 master weights and state
};
std::string_view step_precision_name(StepPrecision precision);
std::optional<StepPrecision> find_step_precision(std::string_view name);
std::span<const std::string_view> step_precision_names();

// Parameters with an optimizer of their own: those in whose names the pattern
// is found.
struct OptimizerGroup {
  std::string pattern;
  Optimizer optimizer = Optimizer::None;

  bool operator==(const OptimizerGroup&) const = default;
};

// What lies in host memory between its uses (--offload).
struct Offload {
  bool weights = false;
  bool optimizer = false;  // its state, and master weights
  // Of `optimizer`: its state alone, in pages that leave the device only where
  // there is no room, and are updated there (bitsandbytes' paged optimizers).
  bool pages = false;
  bool gradients = false;  // they go there as they are made

  bool any() const { return weights || optimizer || gradients; }
};

struct StateOptions {
  Optimizer optimizer = Optimizer::None;
  // Of several whose pattern is found the first counts; what none is found in
  // has `optimizer`.
  std::vector<OptimizerGroup> groups = {};
  std::optional<DType> param_dtype;    // stored weights; default: as they are
  std::optional<DType> grad_dtype;     // default: that of the stored weight
  std::optional<DType> moment_dtype;   // default: f32, f64 beside f64 weights
  std::optional<DType> compute_dtype;  // gathered weights; default: as stored
  // Master weights: none, or of this dtype, beside every floating weight that
  // is narrower. By default f32, when there is an optimizer.
  bool no_master = false;
  std::optional<DType> master_dtype;
  // Products are computed in a narrower dtype than all else (torch.autocast).
  bool autocast = false;
  // 1: optimizer state and master weights; 2: gradients too; 3: weights too.
  int zero = 0;
  AxisNames zero_axes;
  // Axes over which weights are gathered for use beside those that are called
  // as axes of the batch (model/units.h): they cut the tokens of a step.
  AxisNames token_axes = {};
  ZeroStyle zero_style = ZeroStyle::Jax;
  Offload offload = {};
};

// What goes with what was asked to lie in host memory: all of it under FSDP2,
// whose CPUOffloadPolicy knows no parts and makes the optimizer of weights on
// the host; gradients under DeepSpeed's stages 2 and 3, which send them to the
// optimizer as they are made (stage_1_and_2.py, stage3.py).
Offload whole_offload(const StateOptions& options, bool is_fsdp2);

// The options with the dtypes of a precision where none are given. `stored` is
// the dtype of most weights.
StateOptions with_precision(StateOptions options, StepPrecision precision,
                            DType stored);

// Groups of parameters by number: 0 has `optimizer`, 1 the first of `groups`.
Optimizer optimizer_of(const StateOptions& options, size_t group);
bool uses(const StateOptions& options, Optimizer optimizer);  // in any group
// Options under which the group's optimizer is that of all parameters.
StateOptions options_of_group(const StateOptions& options, size_t group);

enum class StateKind : uint8_t { Parameter, Gradient, Master, Optimizer };

// How a device stores its part of a leaf.
enum class LeafLayout : uint8_t {
  Spec,    // the shard that the spec tells
  Rows,    // ceil(rows / zero_ranks) of that shard's rows (FSDP2)
  Flat,    // ceil(elements / zero_ranks) of that shard (DeepSpeed, stage 3)
  Buffer,  // that shard lies in a flat buffer with others (memory/zero.h)
};

// One tensor of a parameter's training state; the parameter itself is one.
struct StateLeaf {
  StateKind kind = StateKind::Parameter;
  // "param", "grad", "master", or optax's name: "mu", "nu", "trace", "v_row",
  // "v_col", "v", "count", "ns_coeffs".
  std::string_view role;
  TensorType type;     // whole, as stored: with what is declared
  PartitionSpec spec;  // with ZeRO's axes where they shard a dimension
  std::optional<Dealt> dealt = {};  // as the parameter is
  std::string view = {};            // of the mesh, whose axes the spec names
  LeafLayout layout = LeafLayout::Spec;
  // Ranks that share what the spec leaves on a device; 1: nothing is shared.
  int64_t zero_ranks = 1;
  int64_t buffer_ranks = 1;  // of a Buffer: ranks that its padding suits
  Shape local_shape;         // of the largest shard by `spec`
  // Of the largest part, padding included. What a Buffer takes from it, when
  // its end is not padded yet, is this many bytes before it is shared.
  int64_t bytes_per_device = 0;
  int64_t replicas = 1;       // devices that hold each part
  int64_t logical_bytes = 0;  // of one copy, without what is declared
  // ZeRO should have sharded it, but no dimension is divided by the axes.
  bool zero_failed = false;

  // Identity, unless in a Buffer: devices x bytes_per_device = replicas x
  // logical_bytes + padding, where all shards are equal.
  int64_t padding_bytes(int64_t devices) const;
};

// Specs of leaves by role, from rules of their own.
using RoleSpecs = std::map<std::string_view, PartitionSpec>;

// Whether an optimizer can train it: floating point, and no block scale.
bool is_trainable(DType dtype);
// Type of a parameter as stored, after --param-dtype; one that is frozen keeps
// its own.
TensorType stored_type(const TensorType& type, const StateOptions& options,
                       bool trained = true);

// The parameter, then its gradient, master weights and optimizer leaves; of a
// parameter that is frozen nothing but itself.
// `specs`: where given, optimizer leaves of these roles have these specs before
// ZeRO. REQUIRES: check_state_options, and 16 bytes for each of the parameter's
// elements fit 63 bits.
std::vector<StateLeaf> state_leaves(const Placement& placement,
                                    const Mesh& mesh, OnIndivisible policy,
                                    const StateOptions& options,
                                    const RoleSpecs* specs = nullptr,
                                    bool trained = true);

// What an optimizer keeps once for all its parameters, replicated: step
// counters.
std::vector<StateLeaf> optimizer_counters(const Mesh& mesh,
                                          const StateOptions& options);

// Roles of a parameter's own leaves, with the types that rules may place:
// placeholders of one element and counters are not among them.
struct RoleType {
  std::string_view role;
  TensorType type;
  // The dimension of the parameter that the leaf lacks; -1: none.
  int removed = -1;
  bool placeholder = false;
  // One number for each block of the parameter's, in order: cut into as many
  // pieces as the parameter is.
  bool of_blocks = false;
};
// `held`: elements of the parameter on the rank that has most; -1: all.
std::vector<RoleType> optimizer_roles(const TensorType& stored,
                                      const StateOptions& options,
                                      int64_t held = -1);

// State rules: specs of optimizer leaves from rules of their own, as EasyDeL
// shards its optimizer's tree.
//
// A leaf is named by its role and parameter, `mu/model/norm/kernel`.
// Placeholders of one element and counters are replicated, and no rule applies
// about them.

// Per parameter, whether it is trained or frozen; empty: all are trained.
using TrainedParameters = std::vector<bool>;

// Per parameter, its group's number; empty: all are in group 0.
using GroupOfParameters = std::vector<uint8_t>;

// Kinds of parameters: equal placement, equal specs of their leaves, trained
// alike by one group's optimizer.
struct StateSpecs {
  struct Kind {
    uint32_t placement = 0;
    RoleSpecs specs;
    bool trained = true;
    size_t group = 0;  // of what is frozen: 0
  };
  std::vector<Kind> kinds;
  std::vector<uint32_t> kind_of;  // per parameter

  // The leaves as tensors, and where the rules place them: for the findings.
  // Nothing without rules.
  Manifest leaves;
  Plan plan;
};

// Empty, with the reason reported, when a pattern cannot be compiled or the
// leaves exceed 63 bits. What is frozen has no leaves.
std::optional<StateSpecs> resolve_state_rules(
    const Manifest& manifest, const Plan& plan, const StateOptions& options,
    const RuleSet& rules, const ResolveOptions& how,
    const TrainedParameters& trained, const GroupOfParameters& group_of,
    Diagnostics& diags);

// Without rules: the plan's placements in their order, each once for every
// group and then for what is frozen.
StateSpecs kinds_by_training(const Plan& plan, const TrainedParameters& trained,
                             const GroupOfParameters& group_of = {});

// Held state: the leaves of all parameters of a plan, and the bytes of them
// that a device holds.
//
// Leaves are kept per kind of parameter (its placement, or what state rules
// make of it), so a sum over a device costs as much as there are kinds.
// A flat buffer gathers one role of all weights of a dtype over the same axes;
// groups of parameters apart, and under muon matrices and others.

// All leaves of one role and dtype; of each group of parameters, where there
// are several.
struct LeafSum {
  StateKind kind = StateKind::Parameter;
  std::string_view role;
  DType dtype = DType::F32;
  std::optional<size_t> group = 0;  // none: frozen, beside groups
  int64_t tensors = 0;
  Int128 logical = 0;            // bytes, each once
  int64_t bytes_per_device = 0;  // on the fullest device
  Int128 padding = 0;            // bytes over all devices
  // Bytes on the fullest device that ZeRO should have sharded and could not.
  int64_t unsharded = 0;
};

// A leaf of all parameters of one kind.
struct KindLeaf {
  uint32_t kind = 0;
  StateLeaf leaf;
  size_t sum = 0;       // of HeldState::sums
  size_t buffer = 0;    // of HeldState::buffers, where its layout is Buffer
  bool uneven = false;  // its shards differ between devices
};

struct FlatBuffer {
  StateKind kind = StateKind::Parameter;
  std::string_view role;
  DType weights = DType::F32;  // whose buffer it goes with
  DType dtype = DType::F32;
  AxisNames axes;  // that share it, or could
  std::optional<size_t> group = 0;
  bool matrices = false;  // muon's own
  size_t sum = 0;         // of HeldState::sums
  int64_t ranks = 1;      // that its end is padded for
  int64_t shared_by = 1;
};

struct HeldState {
  std::vector<KindLeaf> leaves;  // by kind, the parameter first
  std::vector<FlatBuffer> buffers;
  std::vector<LeafSum> sums;  // roles and dtypes; the numbers are not filled
  // Coordinates at which shards change, under `chunk`.
  Breakpoints breakpoints;
};

// Kinds of a plan: `specs` where state rules were given or some parameters are
// frozen, else its placements.
size_t kind_count(const Plan& plan, const StateSpecs* specs);
const Placement& kind_placement(const Plan& plan, const StateSpecs* specs,
                                size_t kind);
bool is_kind_trained(const StateSpecs* specs, size_t kind);
size_t group_of_kind(const StateSpecs* specs, size_t kind);

// REQUIRES: check_state_options.
HeldState hold_state(const Plan& plan, const StateOptions& options,
                     const StateSpecs* specs);

// How many parameters of each kind devices hold: per stage, where the stage is
// a coordinate of `axis`; without an axis there is one.
struct HeldCounts {
  std::span<const std::vector<int64_t>> of_stage;
  std::optional<size_t> axis;  // of the mesh
};

// The same of all classes of devices at once.
struct HeldByClass {
  std::array<std::vector<Int128>, 4> bytes;  // per kind of state and class
  std::vector<Int128> of_sum;                // per sum, over all devices
};
// `classes` are of breakpoints that hold those of `held` and where stages
// begin, and `devices` are how many each class has.
HeldByClass held_by_class(const HeldState& held, const Mesh& mesh,
                          const StateOptions& options, const HeldCounts& counts,
                          const ClassSums& classes,
                          std::span<const CoordinateClass> devices);

// Calls add(sum, kind, bytes) for all that the device at these coordinates
// holds, when it holds counts[kind] parameters of each kind.
void visit_held(const HeldState& held, const Mesh& mesh,
                const StateOptions& options, const std::vector<int64_t>& counts,
                const std::vector<int64_t>& coordinates,
                const std::function<void(size_t, StateKind, Int128)>& add);

}  // namespace shardplan
