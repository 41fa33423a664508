// SPDX-License-Identifier: Apache-2.0
// Room that an engine sets aside for adapters when it starts: for each linear
// layer [out, in] that requests may adapt, a number of slots [rank, in] and
// [out, rank], filled or not.
//
// vLLM 0.33.0 (lora/layers): what a layer's ranks share of its weight, they
// share of its slots; `--fully-sharded-loras` shares the other dimension as
// well. SGLang 0.5.23 (lora/mem_pool.py): the same without that flag, on every
// stage for all layers. Embedding and head are whole on every rank. Units:
// bytes on one rank, elements.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/checked.h"
#include "serve/engine.h"
#include "serve/kernels.h"

namespace shardplan {

struct LoraSlots {
  int64_t count = 0;  // adapters at once; 0: the engine runs none
  int64_t rank = 16;
  bool fully_sharded = false;
  // Names of modules, "q_proj"; none: those that the engine adapts by default.
  std::vector<std::string> targets = {};
};

// The smallest rank of slots that the engine has for adapters of `rank`, or the
// largest that it has.
int64_t slot_rank(const Engine& engine, int64_t rank);

// What an engine refuses of it; empty where it starts.
std::vector<std::string> slot_problems(const LoraSlots& slots,
                                       const Engine& engine,
                                       const EngineMesh& mesh,
                                       bool has_experts);

// What targets call a linear layer: "gate_proj" of
// "model.layers.*.mlp.gate_proj.weight".
std::string_view slot_module(std::string_view folded);

// Whether the linear layer has slots: "model.layers.*.mlp.gate_proj.weight".
// `cut`: ranks share it.
bool has_slots(const LoraSlots& slots, const Engine& engine,
               std::string_view folded, bool cut);
// Whether the embedding and the head have.
struct VocabularySlots {
  bool embedding = false;
  bool head = false;
};
VocabularySlots vocabulary_slots(const LoraSlots& slots, const Engine& engine,
                                 std::string_view model_type);

// Bytes of all slots of a layer of that size on the rank; `cut_over` ranks
// share its rows, or else its columns.
Int128 slot_bytes(const LoraSlots& slots, const MatrixSize& size,
                  int64_t cut_over, bool rows_are_cut, int64_t element_bytes);

}  // namespace shardplan
