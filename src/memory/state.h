// SPDX-License-Identifier: Apache-2.0
// Training state: the tensors that training stores for each parameter, exactly.
//
// For every trained parameter an optimizer stores leaves: moments of the
// parameter's shape, factored statistics, counters. In addition, there are a
// gradient and, under mixed precision, master weights. Each leaf has its own
// type and spec. A leaf's spec follows the parameter's, unless state rules
// override it. ZeRO then shards the leaf over further axes (memory/zero.h),
// with the padding that the framework really stores.
//
// Sources: shapes and roles are those of optax 0.2 (adamw, lion, trace,
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
  None,  // no training: parameters only
  AdamW,
  Adafactor,
  Lion,
  Sgd,
  SgdMomentum,
  Muon,
  AdamW8bit,  // bitsandbytes: 8-bit moments in blocks
  // torchao: the same, in blocks of each rank's own shard
  TorchaoAdamW8bit,
  TorchaoAdamW4bit,
  TorchaoAdamWFp8,
};
// Returns whether its moments are stored in blocks, with their own dtype.
bool has_block_moments(Optimizer optimizer);
std::string_view optimizer_name(Optimizer optimizer);  // "sgd-momentum"
std::optional<Optimizer> find_optimizer(std::string_view name);
std::span<const std::string_view> optimizer_names();
// Translates the name of an optimizer in transformers (`optim`,
// "adamw_bnb_8bit") into a help line that gives the flag; "" if there is none.
std::string trainers_optimizer(std::string_view name);

// The framework that shards state over the ZeRO axes, which determines the
// padding.
enum class ZeroStyle : uint8_t {
  Jax,        // the first dimension that the axes divide; else replicated
  DeepSpeed,  // flat buffers (stages 1, 2), flat parameters (stage 3)
  Fsdp2,      // torch.chunk of dimension 0, padded to the first chunk
  Megatron,   // distributed optimizer: flat buckets of the gradient buffer
};
std::string_view zero_style_name(ZeroStyle style);
std::span<const std::string_view> zero_style_names();

// The usual combinations of dtypes of a training step.
enum class StepPrecision : uint8_t {
  F32,       // everything in f32
  BF16,      // everything in bf16
  F16,       // everything in f16
  Autocast,  // PyTorch: weights and state in f32, products in bf16
  Mixed,     // 16-bit weights and gradients with f32 master weights and state
};
std::optional<StepPrecision> find_step_precision(std::string_view name);
std::span<const std::string_view> step_precision_names();

// Parameters with their own optimizer: those whose names match the pattern.
struct OptimizerGroup {
  std::string pattern;
  Optimizer optimizer = Optimizer::None;

  bool operator==(const OptimizerGroup&) const = default;
};

// The state that is in host memory while it is not used (--offload).
struct Offload {
  bool weights = false;
  bool optimizer = false;  // optimizer state and master weights
  // With `optimizer`: only optimizer state, not master weights, in pages that
  // leave the device if memory runs short and are updated on it (bitsandbytes'
  // paged optimizers).
  bool pages = false;
  bool gradients = false;  // moved to the host as they are computed

  bool any() const { return weights || optimizer || gradients; }
};

struct StateOptions {
  Optimizer optimizer = Optimizer::None;
  // The first group whose pattern matches a name applies; parameters in no
  // group use `optimizer`.
  std::vector<OptimizerGroup> groups = {};
  std::optional<DType> param_dtype;    // of stored weights; default: unchanged
  std::optional<DType> grad_dtype;     // default: that of the stored weight
  std::optional<DType> moment_dtype;   // default: f32; f64 for f64 weights
  std::optional<DType> compute_dtype;  // of gathered weights; default: as
                                       // stored
  // Master weights: none, or of this dtype for every floating-point weight that
  // is narrower. Default: f32 if there is an optimizer.
  bool no_master = false;
  std::optional<DType> master_dtype;
  // Products are computed in a narrower dtype than everything else
  // (torch.autocast).
  bool autocast = false;
  // 1: optimizer state and master weights; 2: also gradients; 3: also weights.
  int zero = 0;
  AxisNames zero_axes;
  // Axes that shard the tokens of a step. Weights are gathered over them for
  // use, as over the axes whose names are those of batch axes (model/units.h).
  AxisNames token_axes = {};
  ZeroStyle zero_style = ZeroStyle::Jax;
  Offload offload = {};
};

// Returns the requested offload with what it implies. Under FSDP2, offloaded
// weights imply optimizer state and gradients, since CPUOffloadPolicy has no
// parts and the optimizer is made from weights on the host. Under DeepSpeed's
// stages 2 and 3, offloaded optimizer state implies gradients, which are sent
// to the optimizer as they are computed (stage_1_and_2.py, stage3.py).
Offload whole_offload(const StateOptions& options, bool is_fsdp2);

// Returns the options with the dtypes of a precision where none are given.
// `stored` is the dtype of most weights.
StateOptions with_precision(StateOptions options, StepPrecision precision,
                            DType stored);

// Returns the optimizer of a parameter group: group 0 uses `optimizer`, group 1
// the first of `groups`.
Optimizer optimizer_of(const StateOptions& options, size_t group);
bool uses(const StateOptions& options, Optimizer optimizer);  // in any group
// Returns options under which the group's optimizer is that of all parameters.
StateOptions options_of_group(const StateOptions& options, size_t group);

enum class StateKind : uint8_t { Parameter, Gradient, Master, Optimizer };

// How a device stores its part of a leaf.
enum class LeafLayout : uint8_t {
  Spec,    // the shard given by the spec
  Rows,    // ceil(rows / zero_ranks) of that shard's rows (FSDP2)
  Flat,    // ceil(elements / zero_ranks) of that shard (DeepSpeed, stage 3)
  Buffer,  // in a flat buffer with other shards (memory/zero.h)
};

// One tensor of a parameter's training state; the parameter itself is one.
struct StateLeaf {
  StateKind kind = StateKind::Parameter;
  // "param", "grad", "master", or optax's name: "mu", "nu", "trace", "v_row",
  // "v_col", "v", "count", "ns_coeffs".
  std::string_view role;
  TensorType type;     // the whole tensor as stored, with declarations
  PartitionSpec spec;  // with ZeRO's axes if they shard a dimension
  std::optional<ExpertPlacement> dealt = {};  // that of the parameter
  std::string view = {};  // the view of the mesh whose axes the spec
                          // names
  LeafLayout layout = LeafLayout::Spec;
  // Ranks among which ZeRO divides the shard that the spec gives; 1: not
  // divided.
  int64_t zero_ranks = 1;
  int64_t buffer_ranks = 1;  // of a Buffer: ranks that its end is padded for
  Shape local_shape;         // of the largest shard by `spec`
  // Bytes of the largest part, including padding. For a Buffer: the bytes that
  // the shard adds to it, before the end is padded and the buffer is divided
  // among ranks.
  int64_t bytes_per_device = 0;
  int64_t replicas = 1;       // devices that hold each part
  int64_t logical_bytes = 0;  // of one copy, without declarations
  // ZeRO should have sharded it, but its axes divide no dimension.
  bool zero_failed = false;
};

// The specs of leaves by role, from state rules.
using RoleSpecs = std::map<std::string_view, PartitionSpec>;

// Returns whether an optimizer can train this dtype: it is floating-point, and
// not that of block scales.
bool is_trainable(DType dtype);
// Returns the type of a parameter as stored with `param_dtype`; a frozen
// parameter retains its own.
TensorType stored_type(const TensorType& type, const StateOptions& options,
                       bool trained = true);

// Returns the parameter, then its gradient, master weights and optimizer
// leaves; only the parameter if it is frozen. With `specs`, optimizer leaves of
// these roles have these specs before ZeRO. REQUIRES: check_state_options() is
// true, and 16 bytes per element of the parameter fit 63 bits.
std::vector<StateLeaf> state_leaves(const Placement& placement,
                                    const Mesh& mesh, OnIndivisible policy,
                                    const StateOptions& options,
                                    const RoleSpecs* specs = nullptr,
                                    bool trained = true);

// Returns the leaves that an optimizer stores once for all its parameters,
// replicated: step counters and tables.
std::vector<StateLeaf> optimizer_counters(const Mesh& mesh,
                                          const StateOptions& options);

// The role and type of one optimizer leaf of a parameter. Rules do not apply to
// a placeholder, which is replicated.
struct RoleType {
  std::string_view role;
  TensorType type;
  // The dimension of the parameter that the leaf lacks; -1: none.
  int removed = -1;
  bool placeholder = false;
  // The leaf has one number per block of the parameter, in order, and is split
  // into as many pieces as the parameter.
  bool of_blocks = false;
};
// Returns the roles of a parameter. `held`: its elements on the rank with the
// most; -1: all.
std::vector<RoleType> optimizer_roles(const TensorType& stored,
                                      const StateOptions& options,
                                      int64_t held = -1);

// State rules: the user's rules for the specs of optimizer leaves, as EasyDeL
// shards its optimizer's tree.
//
// A leaf's name consists of its role and its parameter, `mu/model/norm/kernel`.
// Placeholders of one element, tables and counters are replicated, and no rule
// applies to them.

// Per parameter, whether it is trained; empty: all are.
using TrainedParameters = std::vector<bool>;

// Per parameter, the number of its group; empty: all are in group 0.
using GroupOfParameters = std::vector<uint8_t>;

// Kinds of parameters. Parameters of one kind have equal placements, equal
// specs of their leaves and the same group, and are all trained or all frozen.
struct StateSpecs {
  struct Kind {
    uint32_t placement = 0;
    RoleSpecs specs;
    bool trained = true;
    size_t group = 0;  // 0 if frozen
  };
  std::vector<Kind> kinds;
  std::vector<uint32_t> kind_of;  // per parameter

  // The leaves as tensors and their placements by the rules, for the findings;
  // empty without rules.
  Manifest leaves;
  Plan plan;
};

// Resolves state rules. Returns no value, and reports the reason, if a pattern
// cannot be compiled or the leaves exceed 63 bits. Frozen parameters have no
// leaves.
std::optional<StateSpecs> resolve_state_rules(
    const Manifest& manifest, const Plan& plan, const StateOptions& options,
    const RuleSet& rules, const ResolveOptions& how,
    const TrainedParameters& trained, const GroupOfParameters& group_of,
    Diagnostics& diags);

// Returns the kinds without rules: the plan's placements in their order, each
// once per group and then once for its frozen parameters.
StateSpecs kinds_by_training(const Plan& plan, const TrainedParameters& trained,
                             const GroupOfParameters& group_of = {});

// Held state: the leaves of all parameters of a plan, and their bytes on a
// device.
//
// Leaves are stored per kind of parameter (its placement, or the result of
// state rules), so the cost of a sum over a device is proportional to the
// number of kinds. A flat buffer collects one role of all weights of one dtype
// that are shared over the same axes. Parameter groups have separate buffers,
// and under muon so do matrices and other parameters.

// The sum of all leaves of one role and dtype, per parameter group if there are
// several.
struct LeafSum {
  StateKind kind = StateKind::Parameter;
  std::string_view role;
  DType dtype = DType::F32;
  std::optional<size_t> group = 0;  // no value: frozen parameters, if there are
                                    // groups
  int64_t tensors = 0;
  Int128 logical = 0;            // bytes, each parameter once
  int64_t bytes_per_device = 0;  // on the fullest device
  Int128 padding = 0;            // bytes over all devices
  // Bytes on the fullest device that ZeRO should have sharded but could not.
  int64_t unsharded = 0;
};

// A leaf of all parameters of one kind.
struct KindLeaf {
  uint32_t kind = 0;
  StateLeaf leaf;
  size_t sum = 0;       // index in HeldState::sums
  size_t buffer = 0;    // index in HeldState::buffers if its layout is Buffer
  bool uneven = false;  // its shards differ between devices
};

struct FlatBuffer {
  StateKind kind = StateKind::Parameter;
  std::string_view role;
  DType weights = DType::F32;  // dtype of its weights
  DType dtype = DType::F32;
  AxisNames axes;  // that divide it, or could
  std::optional<size_t> group = 0;
  bool matrices = false;  // separate buffer of matrices, for muon
  size_t sum = 0;         // index in HeldState::sums
  int64_t ranks = 1;      // ranks that its end is padded for
  int64_t shared_by = 1;

  bool operator==(const FlatBuffer&) const = default;
};

struct HeldState {
  std::vector<KindLeaf> leaves;  // by kind, the parameter first
  std::vector<FlatBuffer> buffers;
  std::vector<LeafSum> sums;  // roles and dtypes only, without numbers
  // Coordinates at which shards change under Cut::Chunked, or ranks of experts
  // differ.
  Breakpoints breakpoints;
};

// The kinds of a plan are those of `specs`, which is given if there are state
// rules, frozen parameters or groups, else its placements.
size_t kind_count(const Plan& plan, const StateSpecs* specs);
const Placement& kind_placement(const Plan& plan, const StateSpecs* specs,
                                size_t kind);
bool is_kind_trained(const StateSpecs* specs, size_t kind);
size_t group_of_kind(const StateSpecs* specs, size_t kind);

// Returns the leaves of a plan. REQUIRES: check_state_options() is true.
HeldState hold_state(const Plan& plan, const StateOptions& options,
                     const StateSpecs* specs);

// The number of parameters of each kind on a device, per stage. A device's
// stage is its coordinate on `axis`; without an axis there is one stage.
struct HeldCounts {
  std::span<const std::vector<int64_t>> of_stage;
  std::optional<size_t> axis;  // of the mesh
};

// The bytes of all classes of devices.
struct HeldByClass {
  std::array<std::vector<Int128>, 4> bytes;  // per kind of state and class
  std::vector<Int128> of_sum;                // per sum, over all devices
};
// Computes the bytes of all classes at once. The breakpoints of `classes`
// include those of `held` and the beginnings of stages; `devices` gives the
// number of devices of each class.
HeldByClass held_by_class(const HeldState& held, const Mesh& mesh,
                          const StateOptions& options, const HeldCounts& counts,
                          const ClassSums& classes,
                          std::span<const CoordinateClass> devices);

// Calls add(sum, kind, bytes) for each leaf and buffer on the device at these
// coordinates, if it holds counts[kind] parameters of each kind.
void visit_held(const HeldState& held, const Mesh& mesh,
                const StateOptions& options, const std::vector<int64_t>& counts,
                const std::vector<int64_t>& coordinates,
                const std::function<void(size_t, StateKind, Int128)>& add);

}  // namespace shardplan
