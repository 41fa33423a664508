// SPDX-License-Identifier: Apache-2.0
// ZeRO: state sharded over axes that the specs do not use, as each framework
// does it.
//
// Jax: the axes go in front of those of the first dimension that they divide.
// Fsdp2: dimension 0 of the local shard in torch.chunk pieces; every rank
// stores as many rows as the first (FSDPParam of PyTorch 2).
// DeepSpeed, stages 1 and 2: one flat buffer of all weights of a dtype, padded
// to a multiple of 2 x ranks elements; stage 3: every parameter flat, padded to
// a multiple of the ranks (deepspeed 0.19, stage_1_and_2.py and
// partition_parameters.py).
// Megatron: one flat buffer; parameters begin at multiples of 64 elements, and
// its end is padded to a multiple of lcm(ranks, 128) (megatron-core 0.16,
// param_and_grad_buffer.py, without overlap of gradient reduction, which
// makes several buckets). It shards optimizer state and master weights alone.
// Buffers of both hold what is trained alone (requires_grad).
// On top of a spec, all of these act on the local shard.
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

// Unknown or missing axes, and what a style cannot do (SP010); false then.
bool check_state_options(const StateOptions& options, const Mesh& mesh,
                         Diagnostics& diags);

// A higher stage than the options have, over their axes or else those of the
// batch, with the flags that ask for it. None without either, without optimizer
// state, or beyond what a style can do.
struct ZeroStage {
  std::string flags;
  int stage = 0;
  AxisNames axes;
};
std::vector<ZeroStage> higher_zero_stages(const StateOptions& options,
                                          const AxisNames& batch_axes);

// ZeRO's axes along which devices hold copies of a leaf: those of its view that
// its spec leaves free and it is not dealt out over, larger than 1, in order.
AxisNames free_zero_axes(const StateLeaf& leaf, const Mesh& mesh,
                         const StateOptions& options);

// Sets layout, spec and ranks of a leaf as the style has it. Of a parameter
// that is frozen, `trained` is false: no flat buffer holds it, while stage 3
// shards it as any other.
void apply_zero(StateLeaf& leaf, const Mesh& mesh, OnIndivisible policy,
                const StateOptions& options, bool trained = true);

// Fills local_shape, bytes_per_device and replicas.
void measure_leaf(StateLeaf& leaf, const Mesh& mesh, OnIndivisible policy);

// Bytes of a leaf on a device whose shard, by the spec, has this shape. Not of
// a Buffer.
int64_t leaf_bytes(const StateLeaf& leaf, const Shape& local);

// Elements that a parameter takes in a flat buffer.
int64_t buffer_elements(int64_t elements, ZeroStyle style);
// Whether a weight that this axis shards is gathered over it for use, whatever
// ZeRO does.
bool is_gathered_for_use(const AxisName& axis, const StateOptions& options);

// Bytes per device of a buffer of that many elements, its end padded for
// `ranks` and shared among `shared_by` devices.
int64_t buffer_bytes(Int128 elements, DType dtype, ZeroStyle style,
                     int64_t ranks, int64_t shared_by);

// Gathered layers: under FSDP a layer's weights are gathered over the axes of
// the batch (model/units.h), and under ZeRO-3 over its axes, before
// they are used. Weights in host memory are fetched, which is a copy as well.
//
// The copy exists beside the shards; weights on the device that no such axis
// cuts are used where they are, and cost nothing more.

// Bytes of one parameter once it is gathered, in the compute dtype; 0 when
// nothing is gathered. `leaf` is the parameter's own (StateKind::Parameter).
// `stacked_dim`: the dimension along which a tensor stacks layers, of which one
// layer's part is gathered; -1: none.
int64_t gathered_bytes(const Placement& placement, const StateLeaf& leaf,
                       const Mesh& mesh, OnIndivisible policy,
                       const StateOptions& options, int stacked_dim);

// What the `live` largest of these take together: bytes of a unit, and how many
// such units there are.
struct GatheredGroup {
  int64_t bytes = 0;
  int64_t groups = 0;
};
Int128 largest_gathered(std::vector<GatheredGroup> groups, int64_t live);

// Whether parameters of a buffer are dealt out whole, as Megatron-core's
// optimizer for Muon does: the smallest first, to ranks one after the other and
// then back (LayerWiseDistributedOptimizer of
// core/optimizer/layer_wise_optimizer.py). So an embedding is on one rank.
bool is_dealt(const FlatBuffer& buffer, const StateOptions& options);
struct DealtKind {
  Int128 numbers = 0;
  Int128 count = 0;             // of parameters of so many numbers
  std::vector<size_t> buffers;  // that have a place for each number
};
// Adds the bytes of the rank that has most, by buffer, and of each buffer an
// even share at least. `all` is by kinds of the
// plan, each with at least one buffer.
void deal(const std::map<uint32_t, DealtKind>& all,
          std::span<const FlatBuffer> buffers, std::vector<Int128>& bytes);

}  // namespace shardplan
