// SPDX-License-Identifier: Apache-2.0
#include "activations/framework.h"

#include <vector>

namespace shardplan {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

std::vector<FrameworkDef> make_frameworks() {
  FrameworkDef any;
  any.name = "any";
  any.summary = "nothing is known";
  // Logits as they are, their gradient in their place; with a copy that becomes
  // the softmax, and the gradient; a copy, logarithms of probabilities and the
  // gradients of both.
  any.loss = {{{1, 0}, {2, 1}, {2, 3}}};
  any.whole_gradients = {false, false, true};
  any.gathers_outside = true;

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
  megatron.softmax_in_place = true;
  megatron.buffers_gradients = true;
  megatron.updates_in_place = true;
  megatron.whole_gradients = {true, true, true};
  megatron.allocator = Allocator::TorchCaching;

  FrameworkDef torch;
  torch.name = "torch";
  torch.summary = "PyTorch without compilation";
  torch.kernels = Kernels::Eager;
  torch.loss = {{{2, 0}, {0, 3}, {1, 3}}};
  torch.workspaces = {2 * (8 * kMiB + kMiB / 8), 64 * kMiB, 64 * kMiB};
  torch.native_kernels = true;
  torch.runs_fsdp2 = true;
  torch.gathers_outside = true;
  torch.updates_at_once = true;
  torch.allocator = Allocator::TorchCaching;

  FrameworkDef jax;
  jax.name = "jax";
  jax.summary = "JAX, a step that XLA compiles, with donated state";
  jax.kernels = Kernels::Eager;
  // At most, the logits stay beside their copy.
  jax.loss = {{{1, 0}, {0, 2}, {1, 2}}};
  jax.whole_gradients = {false, true, true};
  jax.fuses_updates = true;
  jax.allocator = Allocator::XlaArena;
  return {any, megatron, torch, jax};
}

}  // namespace

std::span<const FrameworkDef> frameworks() {
  static const std::vector<FrameworkDef> kAll = make_frameworks();
  return kAll;
}

const FrameworkDef* find_framework(std::string_view name) {
  for (const FrameworkDef& each : frameworks()) {
    if (each.name == name) return &each;
  }
  return nullptr;
}

}  // namespace shardplan
