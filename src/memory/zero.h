// SPDX-License-Identifier: Apache-2.0
// ZeRO: sharding of state over axes that the specs do not use, as each
// framework does it.
//
// Jax: the axes go before those of the first dimension that they divide.
// Fsdp2: dimension 0 of the local shard is split as by torch.chunk, and every
// rank stores as many rows as the first (FSDPParam of PyTorch 2).
// DeepSpeed, stages 1 and 2: one flat buffer of all weights of a dtype, padded
// to a multiple of 2 x ranks elements; stage 3: every parameter is flattened
// and padded to a multiple of the ranks (deepspeed 0.19, stage_1_and_2.py and
// partition_parameters.py).
// Megatron: one flat buffer in which parameters begin at multiples of 64
// elements and whose end is padded to a multiple of lcm(ranks, 128)
// (megatron-core 0.16, param_and_grad_buffer.py, without overlapped gradient
// reduction, which makes several buckets). It shards only optimizer state and
// master weights.
// The buffers of DeepSpeed and Megatron contain only trained parameters
// (requires_grad). All styles act on the local shard that a spec gives.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/diagnostic.h"
#include "core/mesh.h"
#include "core/plan.h"
#include "memory/state.h"

namespace shardplan {

// Reports unknown or missing axes, and features that a style lacks (SP010).
// Returns false if there are any.
bool check_state_options(const StateOptions& options, const Mesh& mesh,
                         Diagnostics& diags);

// A higher stage than that of the options, with the flags that request it. It
// shards over the options' axes, or else those of the batch. There is none
// without such axes, without an optimizer, or above the highest stage of the
// style.
struct ZeroStage {
  std::string flags;
  int stage = 0;
  AxisNames axes;
};
std::vector<ZeroStage> higher_zero_stages(const StateOptions& options,
                                          const AxisNames& batch_axes);

// Returns ZeRO's axes along which devices hold copies of a leaf, in order: axes
// of its view, larger than 1, that its spec does not use and over which it is
// not placed whole.
AxisNames free_zero_axes(const StateLeaf& leaf, const Mesh& mesh,
                         const StateOptions& options);

// Sets the layout, spec and ranks of a leaf according to the style. If
// `trained` is false, the parameter is frozen: no flat buffer contains it, but
// stage 3 shards it like any other.
void apply_zero(StateLeaf& leaf, const Mesh& mesh, OnIndivisible policy,
                const StateOptions& options, bool trained = true);

// Fills local_shape, replicas and bytes_per_device.
void measure_leaf(StateLeaf& leaf, const Mesh& mesh, OnIndivisible policy);

// Returns the bytes of a leaf on a device whose shard, by the spec, has this
// shape. Not for a Buffer.
int64_t leaf_bytes(const StateLeaf& leaf, const Shape& local);

// Returns the elements that a parameter occupies in a flat buffer.
int64_t buffer_elements(int64_t elements, ZeroStyle style);
// Returns whether a weight that this axis shards is gathered over it for use,
// independently of ZeRO.
bool is_gathered_for_use(const AxisName& axis, const StateOptions& options);

// Returns the bytes per device of a buffer of `elements` elements, whose end is
// padded for `ranks` and which is divided among `shared_by` devices.
int64_t buffer_bytes(Int128 elements, DType dtype, ZeroStyle style,
                     int64_t ranks, int64_t shared_by);

// Gathered layers: before a layer's weights are used, they are gathered over
// the axes of the batch under FSDP (model/units.h), and over ZeRO's axes under
// ZeRO-3. Weights in host memory are fetched, which is a copy as well.
//
// The copy exists in addition to the shards. Weights on the device that no such
// axis shards are used in place and cost nothing more.

// Returns the bytes of one gathered parameter, in the compute dtype; 0 if
// nothing is gathered. `leaf` is the parameter's own (StateKind::Parameter).
// `stacked_dim` is the dimension along which a tensor stacks layers, of which
// one layer's part is gathered; -1: none.
int64_t gathered_bytes(const Placement& placement, const StateLeaf& leaf,
                       const Mesh& mesh, OnIndivisible policy,
                       const StateOptions& options, int stacked_dim);

// The bytes of a gathered group, and the number of such groups.
// largest_gathered() sums the `live` largest.
struct GatheredGroup {
  int64_t bytes = 0;
  int64_t groups = 0;
};
Int128 largest_gathered(std::vector<GatheredGroup> groups, int64_t live);

// Returns whether the parameters of a buffer are placed whole on ranks, as
// Megatron-core's optimizer for Muon does: the smallest first, to the ranks in
// order and then in reverse (LayerWiseDistributedOptimizer of
// core/optimizer/layer_wise_optimizer.py). So an embedding is on one rank. A
// DealtKind describes parameters of equal size.
bool is_dealt(const FlatBuffer& buffer, const StateOptions& options);
struct DealtKind {
  Int128 numbers = 0;
  Int128 count = 0;             // parameters of `numbers` elements each
  std::vector<size_t> buffers;  // buffers with an element for each of these
};
// Adds to `bytes`, per buffer, the bytes of the rank that has the most, but at
// least an even share. `all` is keyed by the kinds of the plan, each with at
// least one buffer.
void deal(const std::map<uint32_t, DealtKind>& all,
          std::span<const FlatBuffer> buffers, std::vector<Int128>& bytes);

}  // namespace shardplan
