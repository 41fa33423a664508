// SPDX-License-Identifier: Apache-2.0
// FrameworkDef: what a framework is known to hold in a training step beyond the
// activations that its kernels save, as a lower end, an estimate and an upper
// end.
//
// "any" stands for all frameworks, so its ends are far apart. For Megatron-core
// (0.16), each entry is something that its code does;
// docs/design/megatron-memory.md lists the places:
//
//   loss         VocabParallelCrossEntropy copies logits to float32, writes
//                their softmax and its gradient over that copy, and converts
//                the result; the logits may still be there
//   workspaces   Transformer Engine's: 32 MiB from compute capability 9 on, 4
//                MiB below, and four times as many for products of several
//                experts at once. PyTorch's for cuBLAS: 8.125 to 32 MiB per
//                handle, of which there are two, one of forward and one of
//                autograd's thread
//   scores       transformer-impl local computes attention scores into one
//                buffer that stays
//   softmax      its kernels compute the gradient in place
//   mask         a byte per pair of tokens, from the data loader, unless
//                --no-create-attention-mask-in-dataloader
//   inputs       every chunk of layers refers to its last input, which has its
//                gradient; one input is being sent and one received
//   weights      products add to gradients in float32 and give autograd an
//                empty gradient in the weight's dtype, which stays: one for
//                each shape of a weight. With
//                --no-gradient-accumulation-fusion, the gradient of one weight
//                is made, then added
//   experts      are weighted between their products
//   sums         autograd holds the gradients that several readers of a value
//                compute side by side while it adds them; older versions add
//                them into a third tensor
//   gradients    one buffer from the beginning, whatever is accumulated
//   optimizer    updates in place
//
// For PyTorch without compilation, with FSDP2 over axes of the batch
// (tests/data/torch_steps.jsonl):
//
//   loss         F.cross_entropy: log_softmax and one gradient, mostly with a
//                second one (of nll_loss) and in float32; at most also the
//                logits, which a loop may free before backward
//   kernels      softmax and layer_norm are one kernel each; RMSNorm, rotations
//                and gates are not
//   workspaces   cuBLAS's, as above
//   gradients    freed before a step (zero_grad(set_to_none=True)), so that
//                none exist when backward begins. With several micro-batches,
//                all but the first find all of them, and autograd adds to each
//                as soon as it has made another one
//   tables       a table that is both embedding and head has a gradient that
//                waits from one to the other, a second one and their sum
//   optimizer    foreach: a tree of temporaries; fused: none
//
// For JAX, the step is one program of XLA, parameters and state are donated,
// and layers are scanned (tests/data/xla_memory.jsonl, for GPUs and CPUs):
//
//   loss           for logits that are cast: the copy in float32, and its
//                  gradient in the dtype in which they were computed; at most
//                  also the logits
//   gradients      those of layers are stacks that the loop writes into, in the
//                  dtype of parameters; the head's stays as its product made it
//                  until it is updated; the embedding's comes last
//   layers         what backward of an operation reads is an output of the
//                  forward loop, so none of it can be fused away; what is
//                  recomputed is in the loop of its readers, and can be fused
//                  away
//   micro-batches  a loop over them holds the gradients of one besides the sums
//                  to which it adds them
//   optimizer      elementwise operations are fused into the update
//   silu           jax.nn.silu is x * sigmoid(x): the sigmoid and its
//                  derivative are saved besides x, if nothing is recomputed
//   norms          save a copy of their input in float32 (or of the input
//                  without its mean), and what they round before they multiply
//                  with their weight
//   softmax        jax.nn.softmax saves only its result, in float32, besides
//                  what the product reads
//   scores         one layer's gradient of them in float32; with grouped heads,
//                  XLA for GPUs may copy the whole stack into another layout
//   slices         a scan slices the stacks of weights and writes gradients
//                  into their stacks, which needs a copy of one layer each; in
//                  backward it also slices the stacks of what forward saved. If
//                  that is read element by element, the slice is fused into the
//                  reader; products and recomputed layers read a copy
//   casts          casts of weights are made in layers, which save them if they
//                  save everything; if the casts are in front of the loop,
//                  gradients are as narrow, so that both need as much
//   gelu           jax.nn.gelu saves its input and five steps of its polynomial
//                  and tanh
//   heads          jnp.repeat of grouped keys and values is saved, repeated
//   arena          values get addresses before anything runs, and what does not
//                  fit into the holes of others comes on top. That was at most
//                  1.2 % of activations, so 3 % are added
//   gathered       a loop may gather the next layer's weights while one runs;
//                  on a CPU, a copy of them in the layout of products comes in
//                  its place
//   cpu            XLA for CPUs computes bfloat16 and float16 in float32
//                  (FloatNormalization), and converts stacks in front of loops,
//                  so that what is saved, gathered, sliced and cast is in
//                  float32. It places gradients next to logits and fuses little
//
// Layers that are unrolled rather than scanned are another program: XLA fuses
// backward with what forward saved (--kernels fused).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "activations/bracket.h"
#include "base/checked.h"

namespace shardplan {

// Copies of logits that exist at the same time.
struct LossCopies {
  int64_t own = 0;  // in the dtype of activations
  int64_t floats = 0;

  bool operator==(const LossCopies&) const = default;
};

// The allocator of a framework's tensors (evaluate/reserved.h).
enum class Allocator : uint8_t { Unknown, TorchCaching, XlaArena };

// The kernels that run the step. If they are known, the bracket is narrower.
enum class Kernels : uint8_t {
  Any,
  Fused,  // kernels for norms, attention, gated activations (Megatron-LM with
          // Transformer Engine)
  Eager,  // operation by operation (PyTorch without compilation)
};
// Returns which SavingMode each of the three figures uses.
std::array<SavingMode, kSavingModes> modes_of(Kernels kernels);

// How PyTorch runs an optimizer: over lists of all parameters at once, in one
// kernel, or one parameter at a time.
enum class Update : uint8_t { Foreach, Fused, Loop };
std::optional<Update> find_update(std::string_view name);
std::span<const std::string_view> update_names();

// How products of layers with their weights are computed in 8 bits, and what is
// held for that. Weights, gradients and state keep their dtype (fp8 weights are
// a dtype of parameters). Embeddings, heads, routers and attention are not
// computed in 8 bits. Sources: Transformer Engine (quantizers of
// pytorch/tensor/float8_tensor.py, float8_blockwise_tensor.py, mxfp8_tensor.py;
// _Linear and get_weight_workspace of pytorch/module), torchao
// (float8/float8_linear.py: matmul_with_hp_or_float8_args).
struct Fp8Recipe {
  // The number of elements of which `input` and `weight` are the bytes.
  static constexpr int64_t kUnit = 4096;

  std::string_view name;
  std::string_view summary;
  // A product saves its input in 8 bits, as it is multiplied, rather than in
  // the dtype of activations.
  bool saves_inputs = false;
  int64_t input = kUnit;   // including scales
  int64_t weight = kUnit;  // including scales
  // Copies in 8 bits of weights of layers: `copies` of all weights, which stay
  // from step to step, as they are and transposed; `moments` of one weight,
  // while its layer runs.
  std::array<int64_t, kSavingModes> copies{};
  std::array<int64_t, kSavingModes> moments{};

  // Returns the bytes of so many elements of weights in 8 bits.
  Int128 weight_bytes(Int128 elements) const {
    return (elements * weight + kUnit - 1) / kUnit;
  }
};
std::span<const Fp8Recipe> fp8_recipes();
const Fp8Recipe* find_fp8_recipe(std::string_view name);  // null if unknown

struct FrameworkDef {
  template <typename T>
  using Ends = std::array<T, kSavingModes>;

  std::string_view name;
  std::string_view summary;
  Kernels kernels = Kernels::Any;  // unless an option overrides it
  Ends<LossCopies> loss{};
  Ends<int64_t> workspaces{};          // bytes
  Ends<int64_t> workspaces_experts{};  // more bytes for a model with experts
  Ends<int64_t> scores{};  // buffers of scores, if attention holds them
  Ends<int64_t> masks{};   // bytes per pair of tokens of a sequence
  // Inputs of a chunk of layers, in a pipeline.
  Ends<int64_t> inputs{};
  Ends<int64_t> ends_of_stage{};  // the same, once per stage
  Ends<int64_t> weights{};        // gradients of the largest weight
  // Empty gradients of one weight per shape that is multiplied with. The larger
  // of this and `weights` counts.
  Ends<int64_t> empty_gradients{};
  Ends<int64_t> sums{};  // gradients of a layer's output, while one runs
  // A stage of a pipeline that gathers its weights retains them between
  // micro-batches, and its gradients unsharded until the last one.
  std::array<bool, kSavingModes> retains_stages{};
  // All state in host memory is fetched for the optimizer's step; otherwise the
  // host runs the step.
  Ends<bool> fetches_state{};
  // Gradients of everything that is trained exist from the beginning.
  Ends<bool> whole_gradients{};
  // Each of several micro-batches makes all gradients before they are added.
  Ends<bool> adds_whole_gradients{};
  // Gradients of all layers exist while one runs: a loop writes into stacks.
  bool stacks_gradients = false;
  // The operations that model classes of transformers run are known
  // (evaluate/torch_class.h).
  bool runs_classes = false;
  bool softmax_in_place = false;
  bool weighs_in_experts = false;
  // Softmax and layer_norm are one kernel each, even operation by operation.
  bool native_kernels = false;
  bool buffers_gradients = false;
  // Axes of the batch that shard weights are those of FSDP2
  // (activations/buffers.h).
  bool runs_fsdp2 = false;
  // Weights outside layers may be gathered as one, throughout a step.
  bool gathers_outside = false;
  // `updates_in_place`: the optimizer's step has no temporaries.
  // `fuses_updates`: elementwise updates have none.
  bool updates_in_place = false;
  bool fuses_updates = false;
  std::optional<Update> update;  // if PyTorch runs the optimizer
  // Tensors that SiLU saves for backward besides its input, operation by
  // operation.
  int64_t silu_steps = 0;
  // Tensors that a GELU computed with tanh saves besides its input and its
  // result.
  int64_t gelu_steps = 3;
  // Keys and values of grouped heads are repeated for all heads, and saved
  // repeated.
  bool repeats_heads = false;
  // Copies that a loop over stacked layers makes of one layer: the slice of its
  // weights, and their gradients before they are written into the stack.
  Ends<int64_t> copies_of_layer{};
  // Weights that are computed with in another dtype are cast once for the whole
  // step (`casts_once`) or layer by layer (`casts_in_layers`). A layer that
  // saves its activations also saves its casts.
  Ends<bool> casts_once{};
  bool casts_in_layers = false;
  // On a CPU, 16-bit values are computed, and so saved, in float32.
  bool widens_on_cpu = false;
  // The loop slices saved values of a layer out of stacks of all layers, for
  // products and for recomputation.
  Ends<bool> slices_saved{};
  // Float32 copies of held attention scores while their layer runs, and whether
  // those of all layers may be copied in front of the loop.
  Ends<int64_t> score_copies{};
  Ends<bool> moves_scores{};
  // How much larger than activations an arena is that is packed for the whole
  // step, in percent.
  Ends<int64_t> holes{};
  // Gradients of inputs are reduced over tensor parallelism while products
  // compute those of weights (Megatron's asynchronous all-reduce).
  bool sums_inputs_aside = false;
  // Devices that hold copies of a stage's output each send a part of it.
  bool scatters_between_stages = false;
  // The most layers whose weights are gathered ahead of use.
  int64_t gathers_ahead = 2;
  Allocator allocator = Allocator::Unknown;

  // Returns false for "any", which stands for all frameworks.
  bool is_known() const { return name != "any"; }
};

// Returns all frameworks; the first is "any".
std::span<const FrameworkDef> frameworks();
const FrameworkDef* find_framework(std::string_view name);  // null if unknown

}  // namespace shardplan
