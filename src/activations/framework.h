// SPDX-License-Identifier: Apache-2.0
// FrameworkDef: what a framework is known to hold in a training step beyond
// what its kernels keep of layers: at least, by the estimate, at most.
//
// "any" stands for all, and its ends are wide. Of Megatron-core (0.16) each
// entry is something that its code does, docs/design/megatron-memory.md has the
// places:
//
//   loss         VocabParallelCrossEntropy copies logits to float32, makes
//                their softmax and its gradient in place of the copy, and
//                converts that; logits may be there still
//   workspaces   32 MiB of Transformer Engine from compute capability 9 on, 4
//                below; PyTorch's for cuBLAS, 8.125 to 32 MiB per handle, of
//                which there are two: of forward and of autograd's thread
//                and four times as many for products of several experts at once
//   scores       transformer-impl local computes scores of attention into one
//                buffer that stays
//   softmax      its kernels make the gradient in place
//   mask         a byte per pair of tokens, from the loader of data, unless
//                --no-create-attention-mask-in-dataloader
//   inputs       every chunk of layers refers to its last input, which has its
//                gradient; one is being sent and one received
//   weights      products add to gradients in float32 and give autograd an
//                empty one in the weight's dtype, which stays: one of each
//                shape of a weight; with --no-gradient-accumulation-fusion the
//                gradient of one weight is made, then added
//   experts      are weighed between their products
//   sums         autograd adds up the gradients that readers of a value give
//                beside one another, and older versions into a third place
//   gradients    one buffer from the beginning, whatever is accumulated
//   optimizer    updates in place
//
// Of PyTorch as it runs without compilation, with FSDP2 over axes of the batch
// (tests/data/torch_steps.jsonl):
//
//   loss         F.cross_entropy: log_softmax and one gradient, mostly with a
//                second one (of nll_loss) and in float32; at most with logits
//                as they are, which a loop may let go of before backward
//   kernels      softmax and layer_norm are one; RMSNorm, rotations and gates
//                are not
//   workspaces   of cuBLAS, as above
//   gradients    let go of before a step (zero_grad(set_to_none=True)), so that
//                none are there when backward begins; of several micro-batches
//                all but the first find all of them, and autograd adds to each
//                as soon as it has made another one
//   tables       one that is embedding and head has a gradient that waits from
//                one to the other, a second one and their sum
//   optimizer    foreach: a tree of temporaries; fused: none
//
// Of JAX, whose step is one program of XLA, parameters and state donated,
// layers scanned (tests/data/xla_memory.jsonl, for GPUs and CPUs):
//
//   loss         of logits that are cast: the copy in float32, and its gradient
//                as they were computed; at most with the logits
//   gradients    of layers are stacks that the loop writes into, in the dtype
//                of parameters; the head's is as its product made it until it
//                is updated; the embedding's comes last
//   layers       what backward of an operation reads is an output of the
//                forward loop, so none of it can be fused away; what is
//                computed again stands in the loop of its readers, and can
//   micro-batches  a loop over them adds their gradients up beside whole ones
//   optimizer    what is element by element is fused into the update
//   silu         jax.nn.silu is x * sigmoid(x): the sigmoid and its derivative
//                are kept beside x, where nothing is computed again
//   norms        a copy of their input in float32 (or that without its mean),
//                and what they round before they multiply with their weight
//   softmax      jax.nn.softmax keeps its result alone, in float32, beside what
//                the product reads
//   scores       one layer's gradient of them in float32; of grouped heads
//                XLA for GPUs may copy the whole stack into another layout
//   slices       a scan slices the stacks of weights, and writes gradients into
//                those of the stacks, a copy of one layer each; in backward it
//                slices the stacks of what forward kept, too. Where that is
//                read element by element, the slice is fused into the reader;
//                products and layers that are computed again read a copy
//   casts        of weights are made in layers, which keep them where they
//                keep all; where they stand in front of the loop, gradients
//                are as narrow, so that both take as much
//   gelu         jax.nn.gelu keeps its input and five steps of its polynomial
//                and tanh
//   heads        jnp.repeat of grouped keys and values is kept, repeated
//   arena        values are given places before anything runs, and what does
//                not fit into the holes of others comes on top. That was at
//                most 1.2 % of activations, so 3 % are added
//   gathered     a loop may gather the next layer's weights while one runs; on
//                a CPU the layouts of products take a copy of them in its place
//   cpu          XLA for CPUs computes bfloat16 and float16 in float32
//                (FloatNormalization), and converts stacks in front of loops:
//                what is kept, gathered, sliced and cast is in float32. It
//                places gradients beside logits, and fuses little
//
// Layers that stand one after another, without a loop, are another program: XLA
// fuses backward with what forward kept (--kernels fused).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "activations/bracket.h"

namespace shardplan {

// Copies of logits that are there together.
struct LossCopies {
  int64_t own = 0;  // in the dtype of activations
  int64_t floats = 0;

  bool operator==(const LossCopies&) const = default;
};

// What allocates a framework's tensors (evaluate/reserved.h).
enum class Allocator : uint8_t { Unknown, TorchCaching, XlaArena };

// What runs the step, where that is known: the bracket is narrower then.
enum class Kernels : uint8_t {
  Any,
  Fused,  // kernels for norms, attention, gated activations (Megatron-LM with
          // Transformer Engine)
  Eager,  // operation by operation (PyTorch without compilation)
};
// How activations are kept in each of the three answers.
std::array<Keeping, kKeepings> ways_of(Kernels kernels);

// How PyTorch runs an optimizer: over lists of all parameters at once, in one
// kernel, or a parameter at a time.
enum class Update : uint8_t { Foreach, Fused, Loop };
std::optional<Update> find_update(std::string_view name);
std::span<const std::string_view> update_names();

// How products of layers with their weights are computed in 8 bits, and what is
// held for that. Weights, gradients and state stay as they are (fp8 weights are
// a dtype of parameters). Embeddings, heads, routers and attention are not
// computed so. Sources: Transformer Engine (quantizers of
// pytorch/tensor/float8_tensor.py, float8_blockwise_tensor.py,
// mxfp8_tensor.py; _Linear and get_weight_workspace of pytorch/module), torchao
// (float8/float8_linear.py: matmul_with_hp_or_float8_args).
struct Fp8Recipe {
  // Numbers of which `input` and `weight` are the bytes.
  static constexpr int64_t kUnit = 4096;

  std::string_view name;
  std::string_view summary;
  // A product keeps its input as it is multiplied, rather than in the dtype of
  // activations.
  bool keeps_inputs = false;
  int64_t input = kUnit;   // with its scales
  int64_t weight = kUnit;  // the same
  // Copies of all weights of layers that stay from step to step, as they are
  // and transposed; of one weight, while a layer runs.
  std::array<int64_t, kKeepings> copies{};
  std::array<int64_t, kKeepings> moments{};
};
std::span<const Fp8Recipe> fp8_recipes();
const Fp8Recipe* find_fp8_recipe(std::string_view name);  // null: none

struct FrameworkDef {
  template <typename T>
  using Ends = std::array<T, kKeepings>;

  std::string_view name;
  std::string_view summary;
  Kernels kernels = Kernels::Any;  // unless told otherwise
  Ends<LossCopies> loss{};
  Ends<int64_t> workspaces{};          // bytes
  Ends<int64_t> workspaces_experts{};  // the same, of a model with experts
  Ends<int64_t> scores{};  // buffers, where scores of attention are held
  Ends<int64_t> masks{};   // bytes per pair of tokens of a sequence
  // Inputs of a chunk of layers, where there are stages.
  Ends<int64_t> inputs{};
  Ends<int64_t> ends_of_stage{};  // the same, once per stage
  Ends<int64_t> weights{};        // gradients of the largest weight
  // Or these, of every shape of a weight that is multiplied with.
  Ends<int64_t> empty_gradients{};
  Ends<int64_t> sums{};  // of what a layer hands on, while one runs
  // A stage of a pipeline that gathers its weights keeps them between
  // micro-batches, and its gradients whole until the last one.
  std::array<bool, kKeepings> keeps_stages{};
  // State in host memory is fetched for the optimizer's step, all of it; else
  // the host makes the step.
  Ends<bool> fetches_state{};
  // Gradients of all that is trained are there from the beginning.
  Ends<bool> whole_gradients{};
  // Each of several micro-batches makes all gradients before they are added.
  Ends<bool> adds_whole_gradients{};
  // Those of all layers are, while one runs: stacks that a loop writes into.
  bool stacks_gradients = false;
  // Classes of transformers are known by what they run
  // (evaluate/torch_class.h).
  bool runs_classes = false;
  bool softmax_in_place = false;
  bool weighs_in_experts = false;
  // Softmax and layer_norm are one kernel, even operation by operation.
  bool native_kernels = false;
  bool buffers_gradients = false;
  // Axes of the batch that cut weights are FSDP2's (activations/buffers.h).
  bool runs_fsdp2 = false;
  // What stands outside of layers may be gathered as one, throughout a step.
  bool gathers_outside = false;
  // The optimizer's step has no temporaries; of updates element by element
  // none.
  bool updates_in_place = false;
  bool fuses_updates = false;
  std::optional<Update> update;  // where it is PyTorch's
  // Tensors that SiLU keeps for backward beside its input, operation by
  // operation.
  int64_t silu_steps = 0;
  // The same of a GELU that is computed with a tanh, beside its result too.
  int64_t gelu_steps = 3;
  // Keys and values of grouped heads are repeated for all heads, and kept so.
  bool repeats_heads = false;
  // What a loop over stacked layers copies of the weights of one: its slice,
  // and their gradients before they are written into the stack's.
  Ends<int64_t> copies_of_layer{};
  // Weights that are computed with in another dtype are cast once for the whole
  // step, or layer by layer; a layer that keeps its activations keeps its
  // casts.
  Ends<bool> casts_once{};
  bool casts_in_layers = false;
  // On a CPU, numbers of 16 bits are computed, and so kept, in float32.
  bool widens_on_cpu = false;
  // The loop slices what is kept of a layer out of stacks of all layers, for
  // products and for what is computed again.
  Ends<bool> slices_kept{};
  // Copies in float32 of scores of attention that are held, while their layer
  // runs; and whether all layers' may be copied in front of the loop.
  Ends<int64_t> scores_beside{};
  Ends<bool> moves_scores{};
  // Percent of activations that an arena is larger, packed for the whole step.
  Ends<int64_t> holes{};
  // Gradients of inputs are summed over tensor parallelism while products give
  // those of weights (Megatron's asynchronous all-reduce).
  bool sums_inputs_aside = false;
  // Devices that have copies of what a stage hands on send a part each.
  bool scatters_between_stages = false;
  // Layers whose weights are gathered ahead of use, at most.
  int64_t gathers_ahead = 2;
  Allocator allocator = Allocator::Unknown;

  // "any" stands for all of them.
  bool is_known() const { return name != "any"; }
};

// The first is "any".
std::span<const FrameworkDef> frameworks();
const FrameworkDef* find_framework(std::string_view name);  // null: none

}  // namespace shardplan
