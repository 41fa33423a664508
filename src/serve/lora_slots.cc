// SPDX-License-Identifier: Apache-2.0
#include "serve/lora_slots.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "base/words.h"
#include "model/tensor_name.h"

namespace shardplan {
namespace {

constexpr std::string_view kAllLinear = "all-linear";

// The ranks that vLLM supports (config/lora.py).
constexpr std::array<int64_t, 9> kRanks = {1,   8,   16,  32, 64,
                                           128, 256, 320, 512};

// Models whose class in vLLM lists `embed_tokens` and `lm_head` in its
// `embedding_modules`: both have slots unless targets are given.
constexpr std::string_view kWithVocabulary =
    "apertus cwm ernie4_5 exaone4 exaone_moe falcon_h1 granite granitemoe "
    "granitemoehybrid granitemoeshared hyperclovax jamba lfm2 lfm2_moe llama "
    "llama4 llama4_text mixtral nemotron nemotron_h phi3 phimoe qwen3 qwen3_5 "
    "qwen3_5_moe qwen3_5_moe_text qwen3_5_text qwen3_moe solar_open";
constexpr std::string_view kWithEmbedding = "cohere cohere2";

// Layers that engines fuse, and adapt together.
constexpr std::array<std::string_view, 3> kJoined = {
    "q_proj k_proj v_proj qkv_proj", "gate_proj up_proj gate_up_proj", "w1 w3"};

bool is_target(const LoraSlots& slots, std::string_view module) {
  const auto is_joined = [&](std::string_view joined) {
    return has_word(joined, module) &&
           std::ranges::any_of(slots.targets, [&](const std::string& target) {
             return has_word(joined, target);
           });
  };
  return contains(slots.targets, module) ||
         std::ranges::any_of(kJoined, is_joined);
}

bool is_router(std::string_view module) {
  return module.ends_with("gate") || module.ends_with("router");
}

}  // namespace

std::string_view slot_module(std::string_view folded) {
  const size_t cut = folded.find_last_of("./");
  std::string_view leaf = folded.substr(cut + 1);
  // A name of stacked experts: "experts.gate_up_proj_blocks".
  if (leaf.ends_with("_blocks")) return leaf.substr(0, leaf.size() - 7);
  if (leaf.ends_with("_proj") || cut == std::string_view::npos) return leaf;
  folded = folded.substr(0, cut);
  return folded.substr(folded.find_last_of("./") + 1);
}

int64_t slot_rank(const Engine& engine, int64_t rank) {
  if (!engine.shares_loras) return rank;
  const auto* const found = std::ranges::lower_bound(kRanks, rank);
  return found == kRanks.end() ? kRanks.back() : *found;
}

std::vector<std::string> slot_problems(const LoraSlots& slots,
                                       const Engine& engine,
                                       const EngineMesh& mesh,
                                       bool has_experts) {
  if (slots.count == 0 || !engine.shares_loras || !slots.fully_sharded) {
    return {};
  }
  std::vector<std::string> problems;
  if (slots.rank % mesh.tp != 0) {
    problems.push_back("`--fully-sharded-loras` shards a rank of " +
                       count_text(slots.rank) + ", which is not divisible by " +
                       count_text(mesh.tp));
  }
  if (has_experts && mesh.expert_parallel) {
    problems.emplace_back(
        "`--fully-sharded-loras` does not work with expert parallelism");
  }
  return problems;
}

bool has_slots(const LoraSlots& slots, const Engine& engine,
               std::string_view folded, bool cut) {
  if (in_other_tower(folded)) return false;
  const std::string_view module = slot_module(folded);
  if (!slots.targets.empty() && !contains(slots.targets, kAllLinear)) {
    return is_target(slots, module);
  }
  if (is_router(module)) return engine.shares_loras;
  return cut || contains(module, "proj");
}

VocabularySlots vocabulary_slots(const LoraSlots& slots, const Engine& engine,
                                 std::string_view model_type) {
  if (!slots.targets.empty()) {
    return {contains(slots.targets, std::string_view("embed_tokens")),
            contains(slots.targets, std::string_view("lm_head"))};
  }
  if (!engine.shares_loras) return {};
  const bool both = has_word(kWithVocabulary, model_type);
  return {both || has_word(kWithEmbedding, model_type), both};
}

Int128 slot_bytes(const LoraSlots& slots, const MatrixSize& size,
                  int64_t cut_over, bool rows_are_cut, int64_t element_bytes) {
  int64_t rows = size.rows;
  int64_t columns = size.columns;
  if (slots.fully_sharded && cut_over > 1) {
    int64_t& other = rows_are_cut ? columns : rows;
    other = ceil_div(other, cut_over);
  }
  return Int128{slots.count} * slots.rank * element_bytes *
         (Int128{rows} + columns) * size.matrices;
}

}  // namespace shardplan
