// SPDX-License-Identifier: Apache-2.0
#include "memory/zero.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <string>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "model/units.h"

namespace shardplan {
namespace {

constexpr int64_t kMegatronParameter = 64;  // elements
constexpr int64_t kMegatronBucket = 128;
constexpr int64_t kDeepSpeedRank = 2;

// Returns whether the stage shards this kind.
bool is_sharded_by_zero(StateKind kind, const StateOptions& options) {
  // The first stage that does so, in the order of StateKind.
  constexpr std::array<int, 4> kFirstStages = {3, 2, 1, 1};
  return options.zero >= nth(kFirstStages, kind);
}

std::string mesh_axes_text(const Mesh& mesh) {
  return joined_of(mesh.all_axes(), ", ", [](const Axis& axis) {
    return axis.name + "=" + std::to_string(axis.size);
  });
}

bool check_axes(const StateOptions& options, const Mesh& mesh,
                Diagnostics& diags) {
  bool good = true;
  for (size_t i = 0; i < options.zero_axes.size(); ++i) {
    const AxisName& axis = options.zero_axes[i];
    if (contains(std::span(options.zero_axes).first(i), axis)) {
      diags.error(Code::Usage, {},
                  "`--zero-axes` names axis `" + axis + "` twice");
      good = false;
    } else if (!mesh.find(axis)) {
      diags
          .error(Code::Usage, {},
                 "`--zero-axes` names axis `" + axis +
                     "`, which the mesh does not have")
          .fact("the mesh has axes " + mesh_axes_text(mesh));
      good = false;
    }
  }
  return good;
}

bool check_style(const StateOptions& options, Diagnostics& diags) {
  const std::string style =
      "`--zero-style " + std::string(zero_style_name(options.zero_style)) + "`";
  if (options.zero_style == ZeroStyle::Megatron && options.zero > 1) {
    diags
        .error(Code::Usage, {},
               style + " has no ZeRO stage " + std::to_string(options.zero))
        .fact(
            "Megatron's distributed optimizer shards optimizer state and "
            "master weights: stage 1")
        .help("use `--zero 1`, or `--zero-style fsdp2` for more");
    return false;
  }
  if (options.zero_style != ZeroStyle::Jax &&
      uses(options, Optimizer::Adafactor)) {
    diags.error(Code::Usage, {}, style + " cannot shard adafactor's state")
        .fact(
            "its factored statistics differ in shape from the parameters, "
            "which this style shards")
        .help("use `--zero-style jax`");
    return false;
  }
  const bool is_flat = options.zero_style == ZeroStyle::DeepSpeed ||
                       options.zero_style == ZeroStyle::Megatron;
  for (size_t group = 0; is_flat && group <= options.groups.size(); ++group) {
    const Optimizer optimizer = optimizer_of(options, group);
    if (!has_block_moments(optimizer)) continue;
    diags
        .error(Code::Usage, {},
               style + " does not support optimizer " +
                   in_backticks(optimizer_name(optimizer)))
        .fact("its flat buffers hold floating-point values")
        .help("use `--zero-style fsdp2`, with `torchao-adamw8bit`");
    return false;
  }
  if (options.offload.pages &&
      (is_flat || options.zero_style == ZeroStyle::Fsdp2)) {
    diags
        .error(Code::Usage, {},
               "`--offload optimizer:paged` needs bitsandbytes' optimizers, "
               "which cannot update shards of " +
                   style)
        .help("`--offload optimizer` keeps the state in host memory");
    return false;
  }
  if (options.zero_style == ZeroStyle::Fsdp2 &&
      uses(options, Optimizer::AdamW8bit)) {
    diags
        .error(Code::Usage, {},
               "bitsandbytes' `adamw8bit` cannot update parameters that "
               "`fully_shard` shards")
        .fact("its step fails on a DTensor (bitsandbytes 0.50)")
        .help(
            "use `--optimizer torchao-adamw8bit`, which keeps separate state "
            "for each shard");
    return false;
  }
  return true;
}

// Adds the free axes to the spec, before those of the first dimension whose
// local size they divide. Returns false if there is no such dimension.
bool add_axes(StateLeaf& leaf, const Mesh& mesh, OnIndivisible policy,
              const AxisNames& free) {
  const int64_t ranks = shard_count(mesh, free);
  const Shape local =
      local_shape({&mesh, leaf.spec, cut_of(policy)}, leaf.type.shape);
  for (size_t dim = 0; dim < local.size(); ++dim) {
    if (local[dim] % ranks != 0) continue;
    leaf.spec.dims.resize(local.size());
    AxisNames& axes = leaf.spec.dims[dim];
    axes.insert(axes.begin(), free.begin(), free.end());
    return true;
  }
  return false;
}

int64_t rounded_up(int64_t number, int64_t step) {
  return ceil_div(number, step) * step;
}

}  // namespace

bool check_state_options(const StateOptions& options, const Mesh& mesh,
                         Diagnostics& diags) {
  if (options.zero == 0) {
    if (options.zero_axes.empty()) return true;
    diags.error(Code::Usage, {}, "`--zero-axes` is given without a ZeRO stage")
        .help("add `--zero 1`, `2` or `3`");
    return false;
  }
  if (options.zero_axes.empty()) {
    std::vector<std::string> data_axes;
    for (const Axis& axis : mesh.all_axes()) {
      if (is_data_axis(axis.name)) data_axes.push_back(axis.name);
    }
    diags
        .error(Code::Usage, {},
               "`--zero " + std::to_string(options.zero) +
                   "` needs axes to shard over")
        .fact("the mesh has axes " + mesh_axes_text(mesh))
        .help(data_axes.empty()
                  ? "add `--zero-axes AXIS`, the axis of data "
                    "parallelism"
                  : "add `--zero-axes " + joined(data_axes, ",") + "`");
    return false;
  }
  const bool good = check_axes(options, mesh, diags);
  return check_style(options, diags) && good;
}

std::vector<ZeroStage> higher_zero_stages(const StateOptions& options,
                                          const AxisNames& batch_axes) {
  const bool is_given = !options.zero_axes.empty();
  const AxisNames& axes = is_given ? options.zero_axes : batch_axes;
  std::vector<ZeroStage> stages;
  if (options.optimizer == Optimizer::None || axes.empty()) return stages;
  const int most = options.zero_style == ZeroStyle::Megatron ? 1 : 3;
  for (int stage = options.zero + 1; stage <= most; ++stage) {
    std::string flags = "--zero " + std::to_string(stage);
    if (!is_given) flags += " --zero-axes " + joined(texts_of(axes), ",");
    stages.push_back({std::move(flags), stage, axes});
  }
  return stages;
}

AxisNames free_zero_axes(const StateLeaf& leaf, const Mesh& mesh,
                         const StateOptions& options) {
  AxisNames free;
  for (const AxisName& axis : options.zero_axes) {
    const bool cuts = contains(axes_in(leaf.spec), axis) ||
                      (leaf.dealt && leaf.dealt->axis == axis);
    if (mesh.size_of(axis) > 1 && !cuts && mesh.has(leaf.view, axis)) {
      free.push_back(axis);
    }
  }
  return free;
}

void apply_zero(StateLeaf& leaf, const Mesh& mesh, OnIndivisible policy,
                const StateOptions& options, bool trained) {
  if (options.zero == 0) return;
  const bool sharded = is_sharded_by_zero(leaf.kind, options);
  if (options.zero == 3 && options.zero_style == ZeroStyle::DeepSpeed &&
      policy == OnIndivisible::Rows) {
    // Flat parts need no rows that the ranks divide.
    for (AxisNames& axes : leaf.spec.dims) {
      erase_if(axes, [&](const AxisName& axis) {
        return contains(options.zero_axes, axis);
      });
    }
  }
  const AxisNames free = free_zero_axes(leaf, mesh, options);
  const int64_t ranks = shard_count(mesh, free);
  switch (options.zero_style) {
    case ZeroStyle::Jax:
      if (!sharded || ranks == 1) return;
      leaf.zero_failed = !add_axes(leaf, mesh, policy, free);
      return;
    case ZeroStyle::Fsdp2:
      if (!sharded || ranks == 1) return;
      // fully_shard refuses scalars.
      leaf.zero_failed = leaf.type.shape.empty();
      if (leaf.zero_failed) return;
      leaf.layout = LeafLayout::Rows;
      leaf.zero_ranks = ranks;
      return;
    case ZeroStyle::DeepSpeed:
      if (options.zero == 3) {
        leaf.layout = LeafLayout::Flat;
        leaf.zero_ranks = ranks;
        return;
      }
      if (leaf.kind == StateKind::Gradient && !sharded) return;
      break;
    case ZeroStyle::Megatron:
      break;
  }
  // Buffers of weights (and of Megatron's gradients) are padded in the same way
  // whether or not they are divided. Parameters that no optimizer trains are in
  // none.
  if (!trained || !is_trainable(leaf.type.dtype)) return;
  leaf.layout = LeafLayout::Buffer;
  leaf.buffer_ranks = ranks;
  leaf.zero_ranks = sharded ? ranks : 1;
}

void measure_leaf(StateLeaf& leaf, const Mesh& mesh, OnIndivisible policy) {
  leaf.local_shape =
      local_shape({&mesh, leaf.spec, cut_of(policy)}, leaf.type.shape);
  leaf.replicas =
      mesh.devices() / shard_count(mesh, leaf.spec) / leaf.zero_ranks;
  if (leaf.dealt) leaf.replicas /= leaf.dealt->size;
  leaf.bytes_per_device = leaf_bytes(leaf, leaf.local_shape);
}

int64_t leaf_bytes(const StateLeaf& leaf, const Shape& local) {
  TensorType stored = {leaf.type.dtype, local};
  switch (leaf.layout) {
    case LeafLayout::Rows:
      stored.shape[0] = ceil_div(stored.shape[0], leaf.zero_ranks);
      break;
    case LeafLayout::Flat:
      stored.shape = {ceil_div(stored.elements(), leaf.zero_ranks)};
      break;
    case LeafLayout::Spec:
    case LeafLayout::Buffer:
      break;
  }
  return stored.bytes();
}

bool is_gathered_for_use(const AxisName& axis, const StateOptions& options) {
  return is_gathered_axis(axis) || contains(options.token_axes, axis);
}

int64_t buffer_elements(int64_t elements, ZeroStyle style) {
  return style == ZeroStyle::Megatron ? rounded_up(elements, kMegatronParameter)
                                      : elements;
}

int64_t buffer_bytes(Int128 elements, DType dtype, ZeroStyle style,
                     int64_t ranks, int64_t shared_by) {
  const int64_t step = style == ZeroStyle::Megatron
                           ? std::lcm(ranks, kMegatronBucket)
                           : kDeepSpeedRank * ranks;
  const Int128 padded = (elements + step - 1) / step * step;
  return static_cast<int64_t>(wide_byte_count(padded / shared_by, dtype));
}

int64_t gathered_bytes(const Placement& placement, const StateLeaf& leaf,
                       const Mesh& mesh, OnIndivisible policy,
                       const StateOptions& options, int stacked_dim) {
  const bool zero3 = is_sharded_by_zero(StateKind::Parameter, options);
  const auto goes = [&](const AxisName& axis) {
    return is_gathered_for_use(axis, options) ||
           (zero3 && contains(options.zero_axes, axis));
  };
  const bool is_cut =
      options.offload.weights || leaf.zero_ranks > 1 ||
      leaf.spec != placement.spec ||
      std::ranges::any_of(axes_in(placement.spec), [&](const AxisName& axis) {
        return goes(axis) && mesh.size_of(axis) > 1;
      });
  if (!is_cut) return 0;

  TensorType type = leaf.type;
  if (options.compute_dtype && is_trainable(type.dtype)) {
    type.dtype = *options.compute_dtype;
  }
  PartitionSpec spec = placement.spec;
  for (AxisNames& axes : spec.dims) erase_if(axes, goes);
  if (stacked_dim >= 0) {
    type.shape.erase(type.shape.begin() + stacked_dim);
    if (stacked_dim < static_cast<int>(spec.dims.size())) {
      spec.dims.erase(spec.dims.begin() + stacked_dim);
    }
  }
  type.shape = local_shape({&mesh, spec, cut_of(policy)}, type.shape);
  return type.bytes();
}

Int128 largest_gathered(std::vector<GatheredGroup> groups, int64_t live) {
  std::ranges::sort(groups, std::ranges::greater(), &GatheredGroup::bytes);
  Int128 sum = 0;
  for (const GatheredGroup& group : groups) {
    const int64_t taken = std::min(live, group.groups);
    sum += static_cast<Int128>(group.bytes) * taken;
    live -= taken;
  }
  return sum;
}

bool is_dealt(const FlatBuffer& buffer, const StateOptions& options) {
  return options.zero_style == ZeroStyle::Megatron && buffer.shared_by > 1 &&
         uses(options, Optimizer::Muon);
}

void deal(const std::map<uint32_t, DealtKind>& all,
          std::span<const FlatBuffer> buffers, std::vector<Int128>& bytes) {
  std::map<int64_t, std::vector<const DealtKind*>> by_ranks;
  for (const auto& [number, kind] : all) {
    if (kind.count > 0) {
      by_ranks[buffers[kind.buffers.front()].shared_by].push_back(&kind);
    }
  }
  for (auto& entry : by_ranks) {
    const int64_t ranks = entry.first;
    std::vector<const DealtKind*>& kinds = entry.second;
    std::ranges::stable_sort(kinds, {}, &DealtKind::numbers);
    const int64_t around = 2 * ranks;
    // Visits the parameters that remain after full rounds, in which every rank
    // gets two of a kind, and the ranks that get them.
    const auto each_rest = [&](const auto& visit) {
      int64_t next = 0;
      for (const DealtKind* kind : kinds) {
        for (auto rest = static_cast<int64_t>(kind->count % around); rest > 0;
             --rest) {
          visit(*kind, next < ranks ? next : around - 1 - next);
          next = (next + 1) % around;
        }
      }
    };
    std::vector<Int128> held(to_size(ranks));
    each_rest([&](const DealtKind& kind, int64_t rank) {
      for (const size_t b : kind.buffers) {
        nth(held, rank) += wide_byte_count(kind.numbers, buffers[b].dtype);
      }
    });
    const int64_t fullest = std::ranges::max_element(held) - held.begin();
    const auto add = [&](const DealtKind& kind, Int128 count) {
      for (const size_t b : kind.buffers) {
        bytes[b] += count * wide_byte_count(kind.numbers, buffers[b].dtype);
      }
    };
    for (const DealtKind* kind : kinds) add(*kind, kind->count / around * 2);
    each_rest([&](const DealtKind& kind, int64_t rank) {
      if (rank == fullest) add(kind, 1);
    });
    // The fullest rank may have less than an even share of one buffer, which
    // counts in full.
    std::vector<Int128> all_of(buffers.size());
    for (const DealtKind* kind : kinds) {
      for (const size_t b : kind->buffers) {
        all_of[b] +=
            kind->count * wide_byte_count(kind->numbers, buffers[b].dtype);
        bytes[b] = std::max(bytes[b], (all_of[b] + ranks - 1) / ranks);
      }
    }
  }
}

}  // namespace shardplan
