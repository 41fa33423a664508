// SPDX-License-Identifier: Apache-2.0
// LoraSlots: the memory that an engine reserves for adapters at start. Each
// linear layer [out, in] that requests may adapt has a number of slots [rank,
// in] and [out, rank], filled or not.
//
// vLLM 0.33.0 (lora/layers): ranks that shard a layer's weight shard its slots
// along the same dimension; `--fully-sharded-loras` also shards the other
// dimension. SGLang 0.5.23 (lora/mem_pool.py): the same without that flag, and
// every stage has slots for all layers. Slots of the embedding and the head are
// replicated on every rank, except that SGLang shards the head's rows. Units:
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
  int64_t count = 0;  // concurrent adapters; 0: the engine serves none
  int64_t rank = 16;
  bool fully_sharded = false;
  // Module names, "q_proj"; none: those that the engine adapts by default.
  std::vector<std::string> targets = {};
};

// Returns the engine's smallest slot rank that holds adapters of `rank`, or its
// largest one.
int64_t slot_rank(const Engine& engine, int64_t rank);

// Returns why the engine does not start with these slots; empty if it does.
std::vector<std::string> slot_problems(const LoraSlots& slots,
                                       const Engine& engine,
                                       const EngineMesh& mesh,
                                       bool has_experts);

// Returns the name of a linear layer in targets: "gate_proj" for
// "model.layers.*.mlp.gate_proj.weight".
std::string_view slot_module(std::string_view folded);

// Returns whether the linear layer "model.layers.*.mlp.gate_proj.weight" has
// slots. `cut`: ranks shard it.
bool has_slots(const LoraSlots& slots, const Engine& engine,
               std::string_view folded, bool cut);
// Whether the embedding and the head have slots.
struct VocabularySlots {
  bool embedding = false;
  bool head = false;
};
VocabularySlots vocabulary_slots(const LoraSlots& slots, const Engine& engine,
                                 std::string_view model_type);

// Returns the bytes of all slots of a layer whose size on the rank is `size`.
// `cut_over` ranks shard its rows, or else its columns.
Int128 slot_bytes(const LoraSlots& slots, const MatrixSize& size,
                  int64_t cut_over, bool rows_are_cut, int64_t element_bytes);

}  // namespace shardplan
