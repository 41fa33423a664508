// SPDX-License-Identifier: Apache-2.0
#include "activations/framework.h"

#include <algorithm>
#include <vector>

#include "base/words.h"

namespace shardplan {
namespace {

constexpr std::array<std::string_view, 3> kUpdates = {"foreach", "fused",
                                                      "loop"};

constexpr int64_t kMiB = int64_t{1} << 20;

std::vector<FrameworkDef> make_frameworks() {
  FrameworkDef any;
  any.name = "any";
  any.summary = "framework unknown";
  // At least, the logits, whose gradient takes their place. By the estimate,
  // the logits with a copy that becomes the softmax, and the gradient. At most,
  // a copy, logarithms of probabilities and the gradients of both.
  any.loss = {{{1, 0}, {2, 1}, {2, 3}}};
  any.whole_gradients = {false, false, true};
  any.adds_whole_gradients = {false, false, true};
  any.gathers_outside = true;
  // This is what torchtitan does: FSDP2 (reshard_after_forward) with
  // torch.distributed.pipelining (backward_maybe_with_nosync).
  any.retains_stages = {false, false, true};
  // The upper end is what XLA holds, which is more of these than the others
  // hold.
  any.silu_steps = 2;
  any.copies_of_layer = {0, 0, 2};
  any.casts_once = {false, false, true};
  any.slices_saved = {false, false, true};
  any.gelu_steps = 4;
  any.repeats_heads = true;
  any.holes = {0, 0, 3};
  any.widens_on_cpu = true;
  any.score_copies = {0, 0, 3};
  any.moves_scores = {false, false, true};

  any.fetches_state = {false, false, true};

  FrameworkDef megatron;
  megatron.name = "megatron";
  megatron.summary = "Megatron-core with Transformer Engine";
  megatron.kernels = Kernels::Fused;
  megatron.loss = {{{1, 1}, {1, 1}, {2, 1}}};
  megatron.workspaces = {4 * kMiB + 2 * (8 * kMiB + kMiB / 8), 96 * kMiB,
                         96 * kMiB};
  megatron.workspaces_experts = {0, 4 * 32 * kMiB, 4 * 32 * kMiB};
  megatron.scores = {0, 0, 1};
  megatron.masks = {0, 1, 1};
  megatron.inputs = {0, 1, 2};
  megatron.ends_of_stage = {0, 0, 2};
  megatron.weights = {0, 0, 1};
  megatron.empty_gradients = {0, 1, 1};
  megatron.sums = {0, 1, 2};
  megatron.softmax_in_place = true;
  megatron.sums_inputs_aside = true;
  megatron.scatters_between_stages = true;
  megatron.weighs_in_experts = true;
  megatron.buffers_gradients = true;
  megatron.updates_in_place = true;
  megatron.whole_gradients = {true, true, true};
  megatron.allocator = Allocator::TorchCaching;

  FrameworkDef torch;
  torch.name = "torch";
  torch.summary = "PyTorch without compilation";
  torch.kernels = Kernels::Eager;
  torch.loss = {{{2, 0}, {0, 3}, {1, 3}}};
  torch.workspaces = {0, 64 * kMiB, 64 * kMiB};
  torch.native_kernels = true;
  torch.runs_classes = true;
  torch.runs_fsdp2 = true;
  torch.gathers_outside = true;
  torch.update = Update::Foreach;
  torch.retains_stages = {false, true, true};
  torch.allocator = Allocator::TorchCaching;

  FrameworkDef jax;
  jax.name = "jax";
  jax.summary = "JAX: jitted step, scanned layers, donated state";
  jax.kernels = Kernels::Eager;
  // MaxText moves all of it to the device before it updates
  // (optimizer_memory_host_offload); XLA may send it in parts.
  jax.fetches_state = {false, true, true};
  jax.loss = {{{1, 1}, {1, 1}, {2, 1}}};
  jax.adds_whole_gradients = {false, true, true};
  jax.stacks_gradients = true;
  jax.fuses_updates = true;
  jax.silu_steps = any.silu_steps;
  jax.copies_of_layer = any.copies_of_layer;
  jax.casts_once = {false, true, true};
  jax.casts_in_layers = true;
  jax.slices_saved = any.slices_saved;
  jax.gathers_ahead = 1;
  jax.gelu_steps = any.gelu_steps;
  jax.repeats_heads = any.repeats_heads;
  jax.holes = any.holes;
  jax.retains_stages = any.retains_stages;
  jax.widens_on_cpu = true;
  jax.score_copies = {0, 1, 3};
  jax.moves_scores = {false, true, true};
  jax.allocator = Allocator::XlaArena;
  return {any, megatron, torch, jax};
}

std::vector<Fp8Recipe> make_recipes() {
  constexpr int64_t kUnit = Fp8Recipe::kUnit;
  // On Hopper, products read both factors along the rows, so a weight is stored
  // as it is and transposed; newer devices need only the first.
  Fp8Recipe delayed{"delayed", "Transformer Engine, scales from earlier steps",
                    true};
  delayed.copies = {0, 2, 2};
  Fp8Recipe tensorwise = delayed;
  tensorwise.name = "tensorwise";
  tensorwise.summary = "Transformer Engine, one scale per tensor";
  // The scales have 4 bytes per 128 elements of an input, and per 128 x 128 of
  // a weight.
  Fp8Recipe blockwise = delayed;
  blockwise.name = "blockwise";
  blockwise.summary = "Transformer Engine, one scale per block";
  blockwise.input = kUnit + kUnit / 128 * 4;
  blockwise.weight = kUnit + 1;
  // The scales have one byte per 32 elements.
  Fp8Recipe mxfp8 = delayed;
  mxfp8.name = "mxfp8";
  mxfp8.summary = "Transformer Engine, one scale per 32 values";
  mxfp8.input = kUnit + kUnit / 32;
  mxfp8.weight = mxfp8.input;
  // It saves its input as given, and casts that in forward and again in
  // backward.
  Fp8Recipe torchao{"torchao", "torchao, as torchtitan uses it"};
  torchao.moments = {0, 1, 2};
  return {delayed, tensorwise, blockwise, mxfp8, torchao};
}

}  // namespace

std::array<SavingMode, kSavingModes> modes_of(Kernels kernels) {
  using K = SavingMode;
  if (kernels == Kernels::Fused) return {K::Fused, K::Fused, K::Fused};
  if (kernels == Kernels::Eager) return {K::Fused, K::Eager, K::Eager};
  return {K::Least, K::Fused, K::Eager};
}

std::span<const Fp8Recipe> fp8_recipes() {
  static const std::vector<Fp8Recipe> kAll = make_recipes();
  return kAll;
}

std::optional<Update> find_update(std::string_view name) {
  const auto* const found = std::ranges::find(kUpdates, name);
  if (found == kUpdates.end()) return std::nullopt;
  return static_cast<Update>(found - kUpdates.begin());
}
std::span<const std::string_view> update_names() { return kUpdates; }

const Fp8Recipe* find_fp8_recipe(std::string_view name) {
  return find_named(fp8_recipes(), name);
}

std::span<const FrameworkDef> frameworks() {
  static const std::vector<FrameworkDef> kAll = make_frameworks();
  return kAll;
}

const FrameworkDef* find_framework(std::string_view name) {
  return find_named(frameworks(), name);
}

}  // namespace shardplan
