// SPDX-License-Identifier: Apache-2.0
#include "memory/state.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include "base/checked.h"
#include "memory/zero.h"

namespace shardplan {
namespace {

// In the order of the enumerations.
constexpr std::array<std::string_view, 11> kOptimizers = {"none",
                                                          "adamw",
                                                          "adafactor",
                                                          "lion",
                                                          "sgd",
                                                          "sgd-momentum",
                                                          "muon",
                                                          "adamw8bit",
                                                          "torchao-adamw8bit",
                                                          "torchao-adamw4bit",
                                                          "torchao-adamwfp8"};
constexpr std::array<std::string_view, 4> kZeroStyles = {"jax", "deepspeed",
                                                         "fsdp2", "megatron"};

constexpr std::array<std::string_view, 5> kPrecisions = {"f32", "bf16", "f16",
                                                         "autocast", "mixed"};

template <typename T, size_t N>
std::optional<T> find(const std::array<std::string_view, N>& names,
                      std::string_view name) {
  const auto* const found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<T>(found - names.begin());
}

// Returns a leaf's spec, derived from its parameter's: without the dimension
// that the leaf lacks; for numbers per block, all axes on one dimension.
PartitionSpec spec_for(const RoleType& role, PartitionSpec spec) {
  if (role.placeholder) return {};
  if (role.of_blocks) {
    AxisNames all = axes_in(spec);
    return all.empty() ? PartitionSpec() : PartitionSpec{{std::move(all)}};
  }
  if (role.removed >= 0 && to_size(role.removed) < spec.dims.size()) {
    spec.dims.erase(spec.dims.begin() + role.removed);
    if (names_no_axis(spec)) spec.dims.clear();
  }
  return spec;
}

// Returns the bytes of a leaf whose parameter has this logical shape.
int64_t logical_bytes(const RoleType& role, Shape shape) {
  if (role.placeholder || role.of_blocks) return role.type.bytes();
  if (role.removed >= 0) shape.erase(shape.begin() + role.removed);
  return TensorType{role.type.dtype, std::move(shape)}.bytes();
}

bool has_master(DType stored, const StateOptions& options) {
  if (options.no_master || options.optimizer == Optimizer::None) return false;
  return is_narrower(stored, options.master_dtype.value_or(DType::F32));
}

struct LeafOf {
  size_t parameter = 0;
  std::string_view role;
};

bool is_trained_at(const TrainedParameters& trained, size_t parameter) {
  return trained.empty() || trained[parameter];
}

// Returns the group of a parameter; 0 if it is frozen.
size_t group_at(const TrainedParameters& trained,
                const GroupOfParameters& group_of, size_t parameter) {
  return group_of.empty() || !is_trained_at(trained, parameter)
             ? 0
             : group_of[parameter];
}

std::vector<StateOptions> options_of_groups(const StateOptions& options) {
  std::vector<StateOptions> all;
  for (size_t group = 0; group <= options.groups.size(); ++group) {
    all.push_back(options_of_group(options, group));
  }
  return all;
}

// Adds every leaf that rules may place, in the order of parameters. Returns
// false if their bytes exceed 63 bits.
bool add_leaves(const Manifest& manifest, const Plan& plan,
                const StateOptions& options, const TrainedParameters& trained,
                const GroupOfParameters& group_of, Manifest& leaves,
                std::vector<LeafOf>& of) {
  const std::vector<StateOptions> by_group = options_of_groups(options);
  for (size_t i = 0; i < manifest.size(); ++i) {
    if (!is_trained_at(trained, i)) continue;
    const TensorType stored = stored_type(
        {manifest.type(i).dtype, stored_shape(plan.of(i))}, options);
    for (const RoleType& role :
         optimizer_roles(stored, by_group[group_at(trained, group_of, i)])) {
      if (role.placeholder) continue;
      const std::string name =
          std::string(role.role) + "/" + std::string(manifest.name(i));
      if (!leaves.add(name, role.type, manifest.where(i))) return false;
      of.push_back({i, role.role});
    }
  }
  return true;
}

size_t sum_of(std::vector<LeafSum>& sums, const StateLeaf& leaf,
              std::optional<size_t> group) {
  const auto found = std::ranges::find_if(sums, [&](const LeafSum& sum) {
    return sum.kind == leaf.kind && sum.role == leaf.role &&
           sum.dtype == leaf.type.dtype && sum.group == group;
  });
  if (found != sums.end()) return to_size(found - sums.begin());
  sums.push_back({.kind = leaf.kind,
                  .role = leaf.role,
                  .dtype = leaf.type.dtype,
                  .group = group});
  return sums.size() - 1;
}

size_t buffer_of(std::vector<FlatBuffer>& buffers, DType weights,
                 const Mesh& mesh, const KindLeaf& entry,
                 std::optional<size_t> group, const StateOptions& options) {
  const StateLeaf& leaf = entry.leaf;
  FlatBuffer buffer = {.kind = leaf.kind,
                       .role = leaf.role,
                       .weights = weights,
                       .dtype = leaf.type.dtype,
                       .axes = free_zero_axes(leaf, mesh, options),
                       .group = group,
                       .matrices = options.optimizer == Optimizer::Muon &&
                                   leaf.type.shape.size() == 2,
                       .sum = entry.sum,
                       .ranks = leaf.buffer_ranks,
                       .shared_by = leaf.zero_ranks};
  const auto found = std::ranges::find(buffers, buffer);
  if (found != buffers.end()) return to_size(found - buffers.begin());
  buffers.push_back(std::move(buffer));
  return buffers.size() - 1;
}

// Returns the view of a leaf: its parameter's, if that has the leaf's axes
// (factored statistics may have none), else the view that has them, since state
// rules may use another one.
std::string view_of_leaf(const StateLeaf& leaf, std::string_view view,
                         const Mesh& mesh) {
  if (mesh.views().empty()) return {};
  AxisNames axes = axes_in(leaf.spec);
  if (leaf.dealt) axes.push_back(leaf.dealt->axis);
  if (std::ranges::all_of(
          axes, [&](const AxisName& axis) { return mesh.has(view, axis); })) {
    return std::string(view);
  }
  return std::string(mesh.view_of(axes).value_or(""));
}

Shape local_at(const StateLeaf& leaf, const Mesh& mesh,
               const std::vector<int64_t>& coordinates) {
  Shape local = leaf.type.shape;
  for (size_t dim = 0; dim < leaf.spec.dims.size(); ++dim) {
    const Slice slice = dimension_slice(mesh, leaf.spec.dims[dim], Cut::Chunked,
                                        local[dim], coordinates);
    local[dim] = slice.end - slice.begin;
  }
  return local;
}

}  // namespace

std::optional<StepPrecision> find_step_precision(std::string_view name) {
  return find<StepPrecision>(kPrecisions, name);
}
std::span<const std::string_view> step_precision_names() { return kPrecisions; }

StateOptions with_precision(StateOptions options, StepPrecision precision,
                            DType stored) {
  const bool narrow = stored == DType::BF16 || stored == DType::F16;
  DType weights = precision == StepPrecision::BF16  ? DType::BF16
                  : precision == StepPrecision::F16 ? DType::F16
                                                    : DType::F32;
  const DType moments = weights;
  if (precision == StepPrecision::Mixed) {
    weights = narrow ? stored : DType::BF16;
  }
  const auto give = [](std::optional<DType>& dtype, DType otherwise) {
    dtype = dtype.value_or(otherwise);
  };
  give(options.param_dtype, weights);
  give(options.grad_dtype, weights);
  give(options.moment_dtype, moments);
  options.autocast = precision == StepPrecision::Autocast;
  const bool is_narrow =
      precision == StepPrecision::BF16 || precision == StepPrecision::F16;
  if (is_narrow && !options.master_dtype) options.no_master = true;
  return options;
}

Optimizer optimizer_of(const StateOptions& options, size_t group) {
  return group == 0 ? options.optimizer : options.groups[group - 1].optimizer;
}

bool uses(const StateOptions& options, Optimizer optimizer) {
  return options.optimizer == optimizer ||
         std::ranges::count(options.groups, optimizer,
                            &OptimizerGroup::optimizer) > 0;
}

Offload whole_offload(const StateOptions& options, bool is_fsdp2) {
  Offload all = options.offload;
  if (all.weights && (is_fsdp2 || options.zero_style == ZeroStyle::Fsdp2)) {
    all.optimizer = all.gradients = true;
  }
  if (all.optimizer && options.zero >= 2 &&
      options.zero_style == ZeroStyle::DeepSpeed) {
    all.gradients = true;
  }
  return all;
}

StateOptions options_of_group(const StateOptions& options, size_t group) {
  StateOptions result = options;
  result.optimizer = optimizer_of(options, group);
  result.groups.clear();
  return result;
}

std::string_view optimizer_name(Optimizer optimizer) {
  return nth(kOptimizers, optimizer);
}
std::optional<Optimizer> find_optimizer(std::string_view name) {
  return find<Optimizer>(kOptimizers, name);
}
std::span<const std::string_view> optimizer_names() { return kOptimizers; }

std::string_view zero_style_name(ZeroStyle style) {
  return nth(kZeroStyles, style);
}
std::span<const std::string_view> zero_style_names() { return kZeroStyles; }

bool is_trainable(DType dtype) {
  switch (dtype) {
    case DType::F64:
    case DType::F32:
    case DType::F16:
    case DType::BF16:
    case DType::F8E4M3:
    case DType::F8E5M2:
    case DType::F8E4M3FN:
    case DType::F8E4M3FNUZ:
    case DType::F8E5M2FNUZ:
      return true;
    default:
      return false;
  }
}

TensorType stored_type(const TensorType& type, const StateOptions& options,
                       bool trained) {
  if (!trained || !options.param_dtype || !is_trainable(type.dtype)) {
    return type;
  }
  return {*options.param_dtype, type.shape};
}

std::vector<StateLeaf> state_leaves(const Placement& placement,
                                    const Mesh& mesh, OnIndivisible policy,
                                    const StateOptions& options,
                                    const RoleSpecs* specs, bool trained) {
  const TensorType stored = stored_type(
      {placement.type.dtype, stored_shape(placement)}, options, trained);
  const Shape& shape = stored.shape;
  const Shape& logical = placement.type.shape;
  std::vector<StateLeaf> leaves;
  const auto add = [&](StateKind kind, RoleType role, PartitionSpec spec) {
    StateLeaf leaf;
    leaf.kind = kind;
    leaf.role = role.role;
    leaf.logical_bytes = logical_bytes(role, logical);
    leaf.type = std::move(role.type);
    leaf.spec = std::move(spec);
    leaf.dealt = placement.dealt;
    leaf.view = view_of_leaf(leaf, placement.view, mesh);
    // The last block of a shard may be partial, so pieces are uneven.
    const OnIndivisible own_policy =
        role.of_blocks ? OnIndivisible::Chunk : policy;
    if (!role.placeholder) apply_zero(leaf, mesh, own_policy, options, trained);
    measure_leaf(leaf, mesh, own_policy);
    leaves.push_back(std::move(leaf));
  };
  const PartitionSpec& spec = placement.spec;
  add(StateKind::Parameter, {"param", stored}, spec);
  if (options.optimizer == Optimizer::None || !trained ||
      !is_trainable(stored.dtype)) {
    return leaves;
  }
  const DType grad = options.grad_dtype.value_or(stored.dtype);
  add(StateKind::Gradient, {"grad", {grad, shape}}, spec);
  if (has_master(stored.dtype, options)) {
    const DType master = options.master_dtype.value_or(DType::F32);
    add(StateKind::Master, {"master", {master, shape}}, spec);
  }
  int64_t held = -1;
  if (has_block_moments(options.optimizer)) {
    StateLeaf probe;
    probe.kind = StateKind::Optimizer;
    probe.type = {DType::U8, shape};
    probe.spec = spec;
    probe.dealt = placement.dealt;
    probe.view = view_of_leaf(probe, placement.view, mesh);
    apply_zero(probe, mesh, policy, options, trained);
    measure_leaf(probe, mesh, policy);
    held = probe.bytes_per_device;
  }
  for (RoleType& role : optimizer_roles(stored, options, held)) {
    PartitionSpec own = spec_for(role, spec);
    if (specs != nullptr && !role.placeholder) {
      const auto found = specs->find(role.role);
      if (found != specs->end()) own = found->second;
    }
    add(StateKind::Optimizer, std::move(role), std::move(own));
  }
  return leaves;
}

std::optional<StateSpecs> resolve_state_rules(
    const Manifest& manifest, const Plan& plan, const StateOptions& options,
    const RuleSet& rules, const ResolveOptions& how,
    const TrainedParameters& trained, const GroupOfParameters& group_of,
    Diagnostics& diags) {
  Manifest leaves;
  leaves.title = manifest.title;
  leaves.sources = manifest.sources;
  std::vector<LeafOf> of;
  if (!add_leaves(manifest, plan, options, trained, group_of, leaves, of)) {
    return diags.error(Code::InvalidMesh, {},
                       "the bytes of the optimizer state exceed 63 bits");
  }
  std::optional<Plan> placed = resolve(leaves, rules, plan.mesh, how, diags);
  if (!placed) return std::nullopt;

  // A parameter's placement, whether it is trained, and its group; then the
  // placements of its leaves by role.
  using Key = std::pair<std::tuple<uint32_t, bool, size_t>,
                        std::map<std::string_view, uint32_t>>;
  std::vector<Key> keys(manifest.size());
  for (size_t i = 0; i < manifest.size(); ++i) {
    keys[i].first = {plan.placement_of[i], is_trained_at(trained, i),
                     group_at(trained, group_of, i)};
  }
  for (size_t i = 0; i < of.size(); ++i) {
    keys[of[i].parameter].second[of[i].role] = placed->placement_of[i];
  }
  StateSpecs result{{}, {}, std::move(leaves), *std::move(placed)};
  std::map<Key, uint32_t> known;
  for (const Key& key : keys) {
    const auto [entry, is_new] =
        known.try_emplace(key, static_cast<uint32_t>(result.kinds.size()));
    if (is_new) {
      const auto& [placement, is_trained, group] = key.first;
      StateSpecs::Kind kind{placement, {}, is_trained, group};
      for (const auto& [role, number] : key.second) {
        kind.specs[role] = result.plan.placements[number].spec;
      }
      result.kinds.push_back(std::move(kind));
    }
    result.kind_of.push_back(entry->second);
  }
  return result;
}

StateSpecs kinds_by_training(const Plan& plan, const TrainedParameters& trained,
                             const GroupOfParameters& group_of) {
  // A placement, whether it is frozen, and its group.
  using Key = std::tuple<uint32_t, bool, size_t>;
  const auto key_of = [&](size_t i) {
    return Key{plan.placement_of[i], !is_trained_at(trained, i),
               group_at(trained, group_of, i)};
  };
  std::map<Key, uint32_t> kinds;
  for (size_t i = 0; i < plan.placement_of.size(); ++i) {
    kinds.try_emplace(key_of(i), 0);
  }
  StateSpecs result{
      {},
      {},
      {},
      {plan.mesh, plan.on_indivisible, plan.strict, {}, {}, {}, {}}};
  for (auto& [key, number] : kinds) {
    number = static_cast<uint32_t>(result.kinds.size());
    const auto& [placement, is_frozen, group] = key;
    result.kinds.push_back({placement, {}, !is_frozen, group});
  }
  for (size_t i = 0; i < plan.placement_of.size(); ++i) {
    result.kind_of.push_back(kinds.at(key_of(i)));
  }
  return result;
}

size_t kind_count(const Plan& plan, const StateSpecs* specs) {
  return specs != nullptr ? specs->kinds.size() : plan.placements.size();
}

const Placement& kind_placement(const Plan& plan, const StateSpecs* specs,
                                size_t kind) {
  return plan
      .placements[specs != nullptr ? specs->kinds[kind].placement : kind];
}

bool is_kind_trained(const StateSpecs* specs, size_t kind) {
  return specs == nullptr || specs->kinds[kind].trained;
}

size_t group_of_kind(const StateSpecs* specs, size_t kind) {
  return specs == nullptr ? 0 : specs->kinds[kind].group;
}

HeldState hold_state(const Plan& plan, const StateOptions& options,
                     const StateSpecs* specs) {
  HeldState held;
  const std::vector<StateOptions> by_group = options_of_groups(options);
  for (size_t kind = 0; kind < kind_count(plan, specs); ++kind) {
    const Placement& placement = kind_placement(plan, specs, kind);
    const RoleSpecs* own =
        specs != nullptr ? &specs->kinds[kind].specs : nullptr;
    const bool trained = is_kind_trained(specs, kind);
    std::optional<size_t> group = group_of_kind(specs, kind);
    const StateOptions& of = by_group[*group];
    if (!trained && !options.groups.empty()) group.reset();
    const DType weights = stored_type(placement.type, options, trained).dtype;
    for (StateLeaf& leaf : state_leaves(
             placement, plan.mesh, plan.on_indivisible, of, own, trained)) {
      KindLeaf entry;
      entry.kind = static_cast<uint32_t>(kind);
      entry.leaf = std::move(leaf);
      entry.sum = sum_of(held.sums, entry.leaf, group);
      if (entry.leaf.layout == LeafLayout::Buffer) {
        entry.buffer =
            buffer_of(held.buffers, weights, plan.mesh, entry, group, of);
      }
      if (cut_of(plan.on_indivisible) == Cut::Chunked) {
        entry.uneven = add_breakpoints(plan.mesh, entry.leaf.type.shape,
                                       entry.leaf.spec, held.breakpoints);
      }
      add_breakpoints(entry.leaf.dealt, held.breakpoints);
      held.leaves.push_back(std::move(entry));
    }
  }
  return held;
}

void visit_held(const HeldState& held, const Mesh& mesh,
                const StateOptions& options, const std::vector<int64_t>& counts,
                const std::vector<int64_t>& coordinates,
                const std::function<void(size_t, StateKind, Int128)>& add) {
  std::vector<Int128> elements(held.buffers.size());
  std::map<uint32_t, DealtKind> dealt;
  for (const KindLeaf& entry : held.leaves) {
    const StateLeaf& leaf = entry.leaf;
    const Int128 count =
        held_at(leaf.dealt, mesh, counts[entry.kind], coordinates);
    if (count == 0) continue;
    Shape here;
    if (entry.uneven) here = local_at(leaf, mesh, coordinates);
    const Shape& local = entry.uneven ? here : leaf.local_shape;
    if (leaf.layout == LeafLayout::Buffer) {
      const int64_t own = *element_count(local);
      elements[entry.buffer] +=
          count * buffer_elements(own, options.zero_style);
      if (is_dealt(held.buffers[entry.buffer], options)) {
        DealtKind& kind = dealt[entry.kind];
        kind.numbers = own;
        kind.count = count;
        kind.buffers.push_back(entry.buffer);
      }
    } else {
      add(entry.sum, leaf.kind,
          count *
              (entry.uneven ? leaf_bytes(leaf, local) : leaf.bytes_per_device));
    }
  }
  std::vector<Int128> of_fullest(held.buffers.size());
  deal(dealt, held.buffers, of_fullest);
  for (size_t i = 0; i < held.buffers.size(); ++i) {
    const FlatBuffer& buffer = held.buffers[i];
    add(buffer.sum, buffer.kind,
        is_dealt(buffer, options)
            ? of_fullest[i]
            : buffer_bytes(elements[i], buffer.dtype, options.zero_style,
                           buffer.ranks, buffer.shared_by));
  }
}

HeldByClass held_by_class(const HeldState& held, const Mesh& mesh,
                          const StateOptions& options, const HeldCounts& counts,
                          const ClassSums& classes,
                          std::span<const CoordinateClass> devices) {
  HeldByClass result;
  for (auto& kind : result.bytes) kind.resize(classes.classes());
  result.of_sum.resize(held.sums.size());
  std::vector<std::vector<Int128>> elements(
      held.buffers.size(), std::vector<Int128>(classes.classes()));
  // Per leaf that is assigned whole to ranks: its parameters, and their
  // elements.
  std::map<size_t, std::array<std::vector<Int128>, 2>> dealt;
  for (size_t e = 0; e < held.leaves.size(); ++e) {
    const KindLeaf& entry = held.leaves[e];
    const StateLeaf& leaf = entry.leaf;
    const bool deals = leaf.layout == LeafLayout::Buffer &&
                       is_dealt(held.buffers[entry.buffer], options);
    if (deals) {
      for (auto& of : dealt[e]) of.resize(classes.classes());
    }
    const auto count_on = [&](size_t stage) {
      return counts.of_stage[stage][entry.kind];
    };
    Breakpoints own;
    if (entry.uneven) add_breakpoints(mesh, leaf.type.shape, leaf.spec, own);
    add_breakpoints(leaf.dealt, own);
    for (size_t stage = 1; stage < counts.of_stage.size(); ++stage) {
      if (count_on(stage) != count_on(stage - 1)) {
        own[mesh.all_axes()[*counts.axis].name].insert(
            static_cast<int64_t>(stage));
      }
    }
    classes.each_box(own, [&](const ClassSums::Box& box) {
      const int64_t on_stage =
          count_on(counts.axis ? to_size(box.coordinates[*counts.axis]) : 0);
      const Int128 count = held_at(leaf.dealt, mesh, on_stage, box.coordinates);
      if (count == 0) return;
      Shape here;
      if (entry.uneven) here = local_at(leaf, mesh, box.coordinates);
      const Shape& local = entry.uneven ? here : leaf.local_shape;
      if (leaf.layout == LeafLayout::Buffer) {
        classes.add(
            box,
            count * buffer_elements(*element_count(local), options.zero_style),
            elements[entry.buffer]);
        if (deals) {
          classes.add(box, count, dealt[e][0]);
          classes.add(box, count * *element_count(local), dealt[e][1]);
        }
        return;
      }
      const Int128 bytes = count * (entry.uneven ? leaf_bytes(leaf, local)
                                                 : leaf.bytes_per_device);
      classes.add(box, bytes, nth(result.bytes, leaf.kind));
      result.of_sum[entry.sum] += bytes * box.devices;
    });
  }
  for (auto& kind : result.bytes) classes.finish(kind);
  std::vector<std::vector<Int128>> of_fullest(
      classes.classes(), std::vector<Int128>(held.buffers.size()));
  for (auto& [leaf, sums] : dealt) {
    for (auto& of : sums) classes.finish(of);
  }
  for (size_t c = 0; !dealt.empty() && c < classes.classes(); ++c) {
    std::map<uint32_t, DealtKind> kinds;
    for (const auto& [leaf, sums] : dealt) {
      DealtKind& kind = kinds[held.leaves[leaf].kind];
      kind.count = sums[0][c];
      kind.numbers = kind.count > 0 ? sums[1][c] / kind.count : Int128{0};
      kind.buffers.push_back(held.leaves[leaf].buffer);
    }
    deal(kinds, held.buffers, of_fullest[c]);
  }
  for (size_t i = 0; i < held.buffers.size(); ++i) {
    const FlatBuffer& buffer = held.buffers[i];
    classes.finish(elements[i]);
    std::vector<Int128>& kind = nth(result.bytes, buffer.kind);
    for (size_t c = 0; c < classes.classes(); ++c) {
      const Int128 bytes =
          is_dealt(buffer, options)
              ? of_fullest[c][i]
              : buffer_bytes(elements[i][c], buffer.dtype, options.zero_style,
                             buffer.ranks, buffer.shared_by);
      kind[c] += bytes;
      result.of_sum[buffer.sum] += bytes * devices[c].devices;
    }
  }
  return result;
}

}  // namespace shardplan
