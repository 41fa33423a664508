// SPDX-License-Identifier: Apache-2.0
// What frameworks hold beside state and activations while a step runs, on the
// fullest device, in the three answers of a bracket (activations/bracket.h):
// layers gathered ahead of use, gradients on their way to be reduced, what
// stages of a pipeline send and receive, and what an optimizer makes for a
// moment. Whoever does without one holds nothing of it, so most are 0 at least;
// the most is what one of the frameworks below holds, as they come.
//
//   FSDP2 (torch/distributed/fsdp/_fully_shard): the next layer is gathered,
//     flat, while one is used, and copied out; gradients of a layer are whole
//     until its backward is over and then copied into the input of a
//     reduce-scatter, which is let go of when the next layer reduces
//     (reduce_scatter_state in _fsdp_param_group.py). What no wrapped layer
//     has, embedding and head, is the root's, gathered as one and so kept from
//     forward to the end of backward (reshard_after_forward of the root).
//   DDP (torch/csrc/distributed/c10d/reducer.cpp): buckets hold a copy of all
//     gradients (bucket_cap_mb = 25 each), unless gradient_as_bucket_view.
//   DeepSpeed (runtime/zero/config.py, stage_1_and_2.py, stage3.py):
//     reduce_bucket_size of 5e8 elements, by default allocated whole whatever
//     the model is (transformers' `auto` is less), twice with overlap_comm; at
//     stage 3 up to stage3_max_live_parameters of 1e9 elements stay gathered,
//     and stage3_prefetch_bucket_size of 5e7 come ahead.
//   Megatron-LM (core/distributed/param_and_grad_buffer.py): gradients lie in
//     the buffers that are reduced, and weights in those that are gathered.
//     Stages let go of what they have sent (deallocate_pipeline_outputs).
//   torch.distributed.pipelining (stage.py): a stage has a buffer for what it
//     receives of every micro-batch, forward and backward, and keeps what it
//     sent until its backward.
//   torch.optim: foreach=True, the default of most, makes a tree of temporaries
//     as large as one moment (_multi_tensor_adam's square roots), or as the
//     gradients; one parameter after the other takes up to three of the
//     largest, of which one is the last parameter's, which Python still names;
//     fused none. SGD makes none but where it decays weights, which are then
//     added to a copy of the gradients. Adafactor runs a parameter at a time
//     by default: one product of rows and columns, in the
//     gradients' type. That of transformers (optimization.py) computes in
//     float32, with copies of a gradient and a weight that are not. Lion
//     (lion_pytorch) makes a copy of a moment and an update. Muon
//     orthogonalises one matrix after the other: its update, and in 16 bits X,
//     the next X and two products of X with itself; so does
//     optax.contrib.muon, in the gradients' type. Recorded in
//     tests/data/optimizers.jsonl.
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

// Of the largest layer.
struct LayerBuffers {
  Int128 gathered = 0;  // as gathered for use; 0: used where it is
  // Its gradients, whole, in the type in which they are computed, and in that
  // in which they are reduced; of what is trained alone.
  Int128 gradients = 0;
  Int128 reduced = 0;
};
struct ReductionInput {
  ZeroStyle style = ZeroStyle::Jax;
  int zero = 0;
  LayerBuffers layer;
  int64_t ahead = 2;        // layers that are gathered ahead, at most
  Int128 planned = 0;       // gathered at once (--live-layers)
  Int128 all_gathered = 0;  // every layer, as gathered for use
  // Outside of layers, but for what is among the planned, where it may be.
  Int128 outside = 0;
  Int128 trained = 0;          // numbers of the whole model
  int64_t compute_bytes = 2;   // of a gathered number
  int64_t gradient_bytes = 2;  // of a gradient's number
  // Gradients that every replica of the batch has whole.
  Int128 replicated = 0;
};

// What is gathered for use, in bytes: all of it, and one layer or another part.
struct GatheredSizes {
  Int128 layers = 0;
  Int128 others = 0;
  Int128 most_of_layer = 0;
  Int128 least_of_layer = 0;
  Int128 most_of_others = 0;
  Int128 most_sharded = 0;  // what a device stores of it
};
GatheredSizes gathered_sizes(const Budget& budget);

// Layers that are gathered ahead, beside the one that is used.
Int128 gathered_ahead(const ReductionInput& input, Keeping answer);
// Gradients on their way, in a backward pass.
Int128 gradient_buckets(const ReductionInput& input, Keeping answer);

// The largest trained weight that a step outside of layers reads, and its
// gradient; several steps may read one.
struct OutsideWeight {
  size_t step = 0;
  ValueId weight;
  Int128 bytes = 0;
};
// Gradients of these while the backward of a step runs, as PyTorch's autograd
// makes them: one that several steps add to waits for the others, and each sum
// of two is a third.
struct OutsideGradients {
  Int128 done = 0;    // that no earlier step adds to
  Int128 moving = 0;  // all others
};
// `let_go` are bytes of the last step that its weight's gradient finds no more.
OutsideGradients outside_gradients(std::span<const OutsideWeight> weights,
                                   size_t step, Int128 let_go);
// Returns how many of `logits`, the bytes of a loss, are let go of before the
// gradient of the head is made: all but the gradient of logits.
Int128 let_go_before_head(const SegmentOptions& options, size_t answer,
                          Int128 logits);

// How many micro-batches a stage has in flight when the first of its backward
// passes begins: flying / chunks, where a stage has several chunks of layers.
struct Flights {
  int64_t flying = 1;  // forward passes of a chunk
  int64_t chunks = 1;
  int64_t group = 1;  // that go through a chunk before the next one begins
};
Flights in_flight(const StepOptions& options, int64_t stages, int64_t stage);
// Of a chunk, those beside the micro-batch whose backward runs. The last chunk
// has few: where backward begins, it has given one.
int64_t more_in_flight(const Flights& flights, int64_t chunk);

// A stage that is one of several.
struct PipelineInput {
  Int128 stream = 0;  // that one micro-batch hands from stage to stage
  bool first = false;
  bool last = false;
  // Micro-batches of one pass, and how many are in flight: flying / chunks.
  int64_t microbatches = 1;
  int64_t flying = 1;
  int64_t chunks = 1;
  bool keeps_input = true;    // backward reads what is received
  bool counts_output = true;  // what is sent is among what is saved
};
// What a stage holds of what it receives and sends. Activations that are saved
// count the outputs of a stage's layers and not the first one's input, so that
// what is let go of once it is sent is taken off: it may be negative.
Int128 pipeline_buffers(const PipelineInput& input, Keeping answer);

struct OptimizerInput {
  Optimizer optimizer = Optimizer::None;
  Int128 state = 0;            // bytes of a device
  Int128 numbers = 0;          // that are trained, on a device
  Int128 largest = 0;          // of these, of one parameter
  int64_t moment_bytes = 4;    // of a number of its state
  int64_t gradient_bytes = 4;  // of a number of a gradient
  int64_t parameters = 0;      // that are trained
  Int128 elements = 0;         // of these, whole
  // Of the largest matrix that is trained, whole: rows and columns.
  Int128 rows = 0;
  Int128 columns = 0;
};
// State of the parameter that has most: what lies on a device at once where the
// rest is in pages elsewhere.
Int128 state_of_one(const std::vector<OptimizerInput>& groups);
// Whether it updates one number after the other.
bool is_elementwise(Optimizer optimizer);
// The largest parameter and the largest matrix that are trained; the rest is
// not filled. `frozen` is per parameter; empty: none is.
OptimizerInput largest_trained(const Manifest& manifest, const Plan& plan,
                               const std::vector<bool>& frozen);
// The same of every group of parameters (memory/state.h), with its optimizer.
std::vector<OptimizerInput> group_optimizers(const Manifest& manifest,
                                             const Plan& plan,
                                             const std::vector<bool>& frozen,
                                             const BudgetOptions& options);
// In the step of one optimizer.
Int128 optimizer_temporaries(const OptimizerInput& input, Keeping answer);
// In the steps of all groups' optimizers, one after the other, of a device that
// holds this state and gradients of so many numbers of so many bytes. What of
// these belongs to a group is estimated by its part of the model; the most
// takes all. `update` is what was asked for.
Int128 update_temporaries(std::span<const OptimizerInput> groups,
                          const FrameworkDef& framework,
                          std::optional<Update> update, Int128 state,
                          Int128 numbers, int64_t gradient_bytes,
                          Keeping answer);

// Per parameter, whether tokens are multiplied with it: a matrix, or experts'
// that are stacked; no table of which rows are read alone, and no router.
std::vector<bool> find_multiplied(const Manifest& manifest, const Plan& plan);
Int128 local_numbers(const Plan& plan, size_t parameter);  // on a device

// What the weights of one layer take on a device.
struct LayerWeight {
  Int128 all = 0;       // bytes
  Int128 trained = 0;   // bytes
  Int128 matrices = 0;  // numbers that its products multiply with
};
struct LayerWeights {
  std::map<int64_t, LayerWeight> layers;
  Int128 others = 0;          // bytes that are trained outside of layers
  Int128 largest = 0;         // bytes of one weight that is trained
  Int128 largest_matrix = 0;  // numbers of one of a layer
  // The trained part of the layer that trains most; in a model without layers,
  // of the whole model.
  struct Share {
    Int128 part = 0;
    Int128 of = 1;
  };
  Share share;
};
// `layer_of` and `frozen` are per parameter, the latter empty where none is.
LayerWeights layer_weights(const Manifest& manifest, const Plan& plan,
                           const std::vector<int64_t>& layer_of,
                           const std::vector<bool>& frozen);

// Whether XLA pads and cuts heads, which axes do not divide and are whole here.
bool pads_heads(const Manifest& manifest, const Plan& plan,
                const StateOptions& state);

// Numbers of one weight of each shape, on a device, of those that are trained
// and multiplied with: of experts that are stacked one each, of the vocabulary
// the head's, or the embedding's that is one.
struct WeightShapes {
  Int128 in_layers = 0;
  Int128 outside = 0;  // of shapes that no layer has
};
// `layer_of` and `frozen` are per parameter, the latter empty where none is.
WeightShapes weight_shapes(const Manifest& manifest, const Plan& plan,
                           const std::vector<int64_t>& layer_of,
                           const std::vector<bool>& frozen);

// Bytes of a number of most gradients; `unit` where there are none.
int64_t gradient_bytes(const Budget& budget, int64_t unit);

// Copies of weights in the dtype of activations, of those that are stored in
// another one; in float32, of all that are not both stored and computed with
// in it: bytes of a device that holds a part of all weights.
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

// Gradients of a step whose layers XLA scans, which the backward loop writes
// into stacks of all layers: of a device, in bytes.
struct LoopGradients {
  Int128 all = 0;
  Int128 layers = 0;     // of these, those of layers
  Int128 head = 0;       // numbers of the head's
  int64_t stored = 4;    // bytes of a gradient's number
  int64_t computed = 2;  // the same, as products make it
  bool sends = false;    // devices send to one another
};
// While a layer runs: all of the loop's, and the head's, which stays as its
// product made it until it is updated, and may be updated first.
Int128 gradients_in_loop(const LoopGradients& of, Keeping answer);
// While the head and the loss run: the stacks may be there before the loop
// begins. Where collectives are scheduled they are, maybe with copies.
Int128 gradients_at_loss(const LoopGradients& of, Keeping answer);
// Once the embedding's is there.
Int128 gradients_at_end(const LoopGradients& of, Keeping answer);

// What XLA for GPUs copies of scores that are held, in float32, `scores` of one
// layer. Of grouped heads maybe `stacked` layers', in place of gradients, which
// come after that.
Int128 scores_copied(const FrameworkDef& framework, const Facts& facts,
                     Int128 scores, int64_t stacked, Int128 gradients,
                     Keeping answer);

// XLA pads and cuts heads that the axes do not divide which cut them, where our
// partition has them whole.
bool pads_heads(const Mesh& mesh, const Facts& facts,
                const StateOptions& state);

}  // namespace shardplan
