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
  return {any, megatron};
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
