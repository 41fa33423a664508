// SPDX-License-Identifier: Apache-2.0
// Buffers: what frameworks hold besides state and activations while a step
// runs, on the fullest device, for the three figures of a bracket
// (activations/bracket.h). They are layers gathered ahead of use, gradients
// that wait to be reduced, what pipeline stages send and receive, and
// temporaries of an optimizer. An implementation may do without any of them, so
// most are 0 in the lower end. The upper end has what one of the frameworks
// below holds by default.
//
//   FSDP2 (torch/distributed/fsdp/_fully_shard): the next layer is gathered,
//     flat, while one is used, and is then copied out. Gradients of a layer are
//     unsharded until its backward ends and are then copied into the input of a
//     reduce-scatter, which is freed when the next layer reduces
//     (reduce_scatter_state in _fsdp_param_group.py). Parameters outside all
//     wrapped layers (embedding and head) belong to the root; they are gathered
//     as one, and so stay gathered from forward to the end of backward
//     (reshard_after_forward of the root).
//   DDP (torch/csrc/distributed/c10d/reducer.cpp): buckets hold a copy of all
//     gradients (bucket_cap_mb = 25 each), unless gradient_as_bucket_view is
//     set.
//   DeepSpeed (runtime/zero/config.py, stage_1_and_2.py, stage3.py):
//     reduce_bucket_size of 5e8 elements, by default allocated whole whatever
//     the model is (transformers' `auto` is less), and twice with overlap_comm.
//     At stage 3, up to stage3_max_live_parameters of 1e9 elements stay
//     gathered, and stage3_prefetch_bucket_size of 5e7 elements are gathered
//     ahead.
//   Megatron-LM (core/distributed/param_and_grad_buffer.py): gradients are
//     stored in the buffers that are reduced, and weights in those that are
//     gathered. Stages free what they have sent (deallocate_pipeline_outputs).
//   torch.distributed.pipelining (stage.py): a stage has a buffer for what it
//     receives for every micro-batch, forward and backward, and holds what it
//     sent until the backward of that micro-batch.
//   torch.optim: foreach=True, the default of most, makes a tree of temporaries
//     as large as one moment (_multi_tensor_adam's square roots), or as the
//     gradients. An update of one parameter at a time needs up to three copies
//     of the largest, one of which is the last parameter's, to which Python
//     still refers. fused makes none. SGD makes none unless it decays weights,
//     which are then added to a copy of the gradients. Adafactor updates one
//     parameter at a time by default: one product of rows and columns, in the
//     gradients' type. That of transformers (optimization.py) computes in
//     float32, with copies of a gradient and a weight that are in another type.
//     Lion (lion_pytorch) makes a copy of a moment and an update. Muon
//     orthogonalises one matrix at a time: its update, and in 16 bits X, the
//     next X and two products of X with itself; so does optax.contrib.muon, in
//     the gradients' type. Recorded in tests/data/optimizers.jsonl.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "activations/bracket.h"
#include "activations/framework.h"
#include "activations/options.h"
#include "base/checked.h"
#include "core/manifest.h"
#include "core/plan.h"
#include "graph/ids.h"
#include "memory/budget.h"
#include "memory/state.h"

namespace shardplan {

// Bytes of the largest layer.
struct LayerBuffers {
  Int128 gathered = 0;  // weights as gathered for use; 0: they are not gathered
  // Unsharded gradients of its trained weights, in the type in which they are
  // computed and in that in which they are reduced.
  Int128 gradients = 0;
  Int128 reduced = 0;
};
struct ReductionInput {
  ZeroStyle style = ZeroStyle::Jax;
  int zero = 0;
  LayerBuffers layer;
  int64_t ahead = 2;        // the most layers that are gathered ahead
  Int128 planned = 0;       // bytes gathered at once (--live-layers)
  Int128 all_gathered = 0;  // all weights, as gathered for use
  // Weights outside layers that may be gathered as well, without the largest,
  // which is among the planned.
  Int128 outside = 0;
  Int128 trained = 0;          // elements of the whole model
  int64_t compute_bytes = 2;   // per gathered element
  int64_t gradient_bytes = 2;  // per element of a gradient
  // Gradients that every data-parallel replica holds unsharded.
  Int128 replicated = 0;
};

// Bytes of weights as gathered for use: the sums, and the extremes of one layer
// or another part.
struct GatheredSizes {
  Int128 layers = 0;
  Int128 others = 0;
  Int128 most_of_layer = 0;
  Int128 least_of_layer = 0;
  Int128 most_of_others = 0;
  Int128 most_sharded = 0;  // the most that a device stores of one part
};
GatheredSizes gathered_sizes(const Budget& budget);

// The bytes of weights that are trained, of the bytes of them all.
struct TrainedShare {
  Int128 part = 0;
  Int128 of = 1;
};
// Returns what a framework gathers and reduces, without `planned` and
// `replicated`, which depend on the device. `share` is that of LayerWeights.
ReductionInput reduction_input(const GatheredSizes& gathered,
                               const TrainedShare& share, const Budget& budget,
                               const StateOptions& state,
                               const FrameworkDef& framework,
                               int64_t element_bytes);

// Returns the bytes of layers that are gathered ahead, besides the one in use.
Int128 gathered_ahead(const ReductionInput& input, SavingMode figure);
// Returns the bytes of gradients that wait to be reduced, in a backward pass.
Int128 gradient_buckets(const ReductionInput& input, SavingMode figure);

// The largest trained weight that a segment outside layers reads, with the
// bytes of its gradient. Several segments may read the same weight. `step` is
// the index of the segment's use in its stage.
struct OutsideWeight {
  size_t step = 0;
  ValueId weight;
  Int128 bytes = 0;
};
// Gradients of these weights while the backward of a segment runs, as PyTorch's
// autograd makes them: a gradient to which several segments add waits for the
// others, and each sum of two is a third tensor.
struct OutsideGradients {
  Int128 done = 0;    // complete: no earlier segment adds to them
  Int128 moving = 0;  // all others
};
// Returns these gradients while the segment with index `step` runs. `freed`
// are bytes of the last segment that are freed before its weight's gradient is
// made.
OutsideGradients outside_gradients(std::span<const OutsideWeight> weights,
                                   size_t step, Int128 freed);
// Returns how many of `logits`, the bytes of a loss, are freed before the
// gradient of the head is made: all but the gradient of logits.
Int128 freed_before_head(const SegmentOptions& options, SavingMode figure,
                         Int128 logits);

// How many micro-batches a stage has in flight when its first backward pass
// begins: flying / chunks, if a stage has several chunks of layers.
struct Flights {
  int64_t flying = 1;  // forward passes of a chunk
  int64_t chunks = 1;
  int64_t group = 1;  // micro-batches that pass a chunk before the next begins
};
Flights in_flight(const StepOptions& options, int64_t stages, int64_t stage);
// Returns how many micro-batches of a chunk are in flight besides the one whose
// backward runs. The last chunk has few: when backward begins, it has run only
// one.
int64_t more_in_flight(const Flights& flights, int64_t chunk);

// A pipeline stage that is one of several.
struct PipelineInput {
  Int128 stream = 0;  // bytes that one micro-batch passes between stages
  bool first = false;
  bool last = false;
  // The micro-batches of one pass, and how many are in flight: flying / chunks.
  int64_t microbatches = 1;
  int64_t flying = 1;
  int64_t chunks = 1;
  bool saves_input = true;    // backward reads what is received
  bool counts_output = true;  // saved activations include what is sent
};
// Returns the bytes that a stage holds of what it receives and sends. Saved
// activations include the outputs of a stage's layers but not the input of its
// first layer. What is freed once it is sent is therefore subtracted, and the
// result may be negative.
Int128 pipeline_buffers(const PipelineInput& input, SavingMode figure);

struct OptimizerInput {
  Optimizer optimizer = Optimizer::None;
  Int128 state = 0;            // bytes on a device
  Int128 numbers = 0;          // trained elements on a device
  Int128 largest = 0;          // the most of these in one parameter
  int64_t moment_bytes = 4;    // per element of a moment
  int64_t gradient_bytes = 4;  // per element of a gradient
  int64_t parameters = 0;      // that are trained
  Int128 elements = 0;         // of these, unsharded
  // Rows and columns of the largest trained matrix, unsharded.
  Int128 rows = 0;
  Int128 columns = 0;
};
// Returns the state of the parameter that has the most: what is on a device at
// once if the rest is in pages elsewhere.
Int128 state_of_one(const std::vector<OptimizerInput>& groups);
// Returns what depends on the trained parameters of every group of parameters
// (memory/state.h): its optimizer, the number of parameters, their elements,
// the largest parameter and the largest matrix; the rest is not filled.
// `frozen` is per parameter; empty: none is.
std::vector<OptimizerInput> group_optimizers(const Manifest& manifest,
                                             const Plan& plan,
                                             const std::vector<bool>& frozen,
                                             const BudgetOptions& options);
// Returns the bytes of temporaries in the step of one optimizer.
Int128 optimizer_temporaries(const OptimizerInput& input, SavingMode figure);
// Returns the bytes of temporaries in the steps of all groups' optimizers, one
// after the other, on a device with `state` bytes of state and gradients of
// `numbers` elements of `gradient_bytes` each. The estimate gives a group its
// share of these by its part of the model; the upper end gives it all of them.
// `update` is the requested way to update.
Int128 update_temporaries(std::span<const OptimizerInput> groups,
                          const FrameworkDef& framework,
                          std::optional<Update> update, Int128 state,
                          Int128 numbers, int64_t gradient_bytes,
                          SavingMode figure);

// Returns, per parameter, whether tokens are multiplied with it. They are for a
// matrix and for stacked experts, but not for a router or for a table of which
// only rows are read.
std::vector<bool> find_multiplied(const Manifest& manifest, const Plan& plan);
Int128 local_numbers(const Plan& plan, size_t parameter);  // on a device

// The weights of one layer on a device.
struct LayerWeight {
  Int128 all = 0;       // bytes
  Int128 trained = 0;   // bytes
  Int128 matrices = 0;  // elements that its products multiply with
};
struct LayerWeights {
  std::map<int64_t, LayerWeight> layers;
  Int128 others = 0;          // trained bytes outside layers
  Int128 largest = 0;         // bytes of the largest trained weight
  Int128 largest_matrix = 0;  // elements of the largest matrix of a layer
  // The share of the layer with the largest trained part; if no layer is
  // trained, that of the weights outside layers.
  TrainedShare share;
};
// `layer_of` and `frozen` are per parameter; an empty `frozen` means that none
// is.
LayerWeights layer_weights(const Manifest& manifest, const Plan& plan,
                           const std::vector<int64_t>& layer_of,
                           const std::vector<bool>& frozen);

// Elements on a device of one weight per shape, among weights that are trained
// and multiplied with. Stacked experts count one expert each; the vocabulary
// counts the head, or the embedding if that is also the head.
struct WeightShapes {
  Int128 in_layers = 0;
  Int128 outside = 0;  // of shapes that no layer has
};
// `layer_of` and `frozen` are per parameter; an empty `frozen` means that none
// is.
WeightShapes weight_shapes(const Manifest& manifest, const Plan& plan,
                           const std::vector<int64_t>& layer_of,
                           const std::vector<bool>& frozen);

// Returns the bytes per element of most gradients, or `unit` if there are none.
int64_t gradient_bytes(const Budget& budget, int64_t unit);

// Bytes of casts of weights. `cast` has copies in the dtype of activations of
// weights that are stored in another one. `in_float32` has copies of weights
// that are not both stored and computed with in float32. of() returns the part
// of a device that holds `held` bytes of weights.
struct WeightCasts {
  Int128 stored = 0;  // of all weights
  Int128 cast = 0;
  Int128 in_float32 = 0;

  Int128 of(Int128 held, bool wide) const {
    return stored == 0 ? Int128{0} : (wide ? in_float32 : cast) * held / stored;
  }
};
WeightCasts weight_casts(const Manifest& manifest, const Plan& plan,
                         const StateOptions& state,
                         const std::vector<bool>& frozen,
                         int64_t element_bytes);

// Gradients on a device, in bytes, of a step whose layers XLA scans: the
// backward loop writes them into stacks of all layers.
struct LoopGradients {
  Int128 all = 0;
  Int128 layers = 0;     // the part of `all` that is of layers
  Int128 head = 0;       // elements of the head's
  int64_t stored = 4;    // bytes per element of a gradient
  int64_t computed = 2;  // the same, as products make it
  bool sends = false;    // devices communicate
};
// Returns the bytes while a layer runs: the stacks of the loop, and the head's
// gradient. The latter stays as its product made it until it is updated, and
// may be updated first.
Int128 gradients_in_loop(const LoopGradients& of, SavingMode figure);
// Returns the bytes while the head and the loss run. The stacks may exist
// before the loop begins; if collectives are scheduled, they do, possibly
// with copies.
Int128 gradients_at_loss(const LoopGradients& of, SavingMode figure);
// Returns the bytes once the embedding's gradient exists.
Int128 gradients_at_end(const LoopGradients& of, SavingMode figure);

// Returns the bytes of copies that XLA for GPUs makes of held attention scores.
// `scores` are those of one layer in float32. With grouped heads, it may copy
// those of `stacked` layers, in place of gradients, which are made after that.
Int128 scores_copied(const FrameworkDef& framework, const Facts& facts,
                     Int128 scores, int64_t stacked, Int128 gradients,
                     SavingMode figure);

// Returns whether XLA pads and shards heads that the axes do not divide, which
// our partition replicates.
bool pads_heads(const Mesh& mesh, const Facts& facts,
                const StateOptions& state);

}  // namespace shardplan
