// SPDX-License-Identifier: Apache-2.0
// Weights as an engine loads them: which dimension of which parameter is cut
// over its ranks, from the labels that the model's architecture gives to
// dimensions, not from rules.
//
// Heads, the width of MLPs and the vocabulary are cut over ranks; of KV heads
// no rank holds less than one; the vocabulary is padded first. Experts are
// dealt out whole, or cut like an MLP. All else is on every rank: norms,
// routers, latents. Joining q, k and v, or gate and up, changes no byte.
// Units: bytes and elements.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/fold.h"
#include "core/manifest.h"
#include "core/types.h"
#include "memory/stages.h"
#include "model/model.h"
#include "serve/engine.h"
#include "serve/kernels.h"
#include "serve/lora_slots.h"

namespace shardplan {

// What a dimension is to an engine.
enum class DimRole : uint8_t {
  Whole,
  Vocabulary,
  Heads,    // query heads, heads and channels of states
  KvHeads,  // at least one on each rank
  // Of a Mamba 2 mixer: where there is one, every rank has it.
  StateGroups,
  Dense,    // width of an MLP
  Width,    // width of an expert
  Experts,  // stacked experts
};
// By the label of a dimension (DimKind::axis); `expert`: of a module of
// experts.
DimRole role_of_label(std::string_view label, bool expert);

// A dimension, and what its elements are counted in.
struct ServedDim {
  DimRole role = DimRole::Whole;
  int64_t size = 0;     // elements, as stored
  int64_t count = 0;    // heads or experts in it; 0: any element may be cut off
  int64_t block = 1;    // as DimKind::block
  std::string label;    // "kv_heads", "mlp"
  bool padded = false;  // where it does not divide, engines pad it
  int64_t unit = 1;     // as DimKind::unit
};
// Those of a dimension that consists of several side by side, one each.
std::vector<ServedDim> served_dims(const DimKind& dim, int64_t size,
                                   bool expert);

// The same of every dimension of a parameter. Stacked experts in groups of 4
// bits (`grouped`) are cut by whole groups, and engines pad their width; where
// it has no label, the first dimension without one is taken to be it.
std::vector<std::vector<ServedDim>> served_parameter(const ParameterKind& kind,
                                                     const Shape& shape,
                                                     bool expert, bool grouped);

// Over how many devices of a layout (layout_of) it is cut.
int64_t degree_of(DimRole role, const Mesh& layout);
// Heads of a tower beside the language model (model/tensor_name.h), which are
// not divisible by the degree.
bool are_uneven_tower_heads(std::string_view folded, const ServedDim& dim,
                            int64_t degree);
// Elements on the fullest rank. REQUIRES: degree >= 1.
int64_t held_elements(const ServedDim& dim, int64_t degree,
                      int64_t vocab_multiple);

// A component of the name is "experts".
bool is_expert_name(std::string_view folded);
// "model.layers.*.mlp.experts.*.up_proj": one tensor per expert.
bool is_single_expert(std::string_view folded);

// Where bytes of a rank are.
enum class WeightPart : uint8_t {
  Vocabulary,
  Attention,  // and what keeps a state
  Dense,
  Experts,
  Whole,     // on every rank
  Scales,    // of quantised weights, and other buffers
  Absorbed,  // MLA: the up-projection of latents, kept a second time in 16 bits
  Kernels,   // what kernels' own forms take beyond the stored ones; may be < 0
  Slots,     // of adapters
};
inline constexpr size_t kWeightParts = 9;
std::string_view weight_part_name(WeightPart part);   // "vocabulary"
std::string_view weight_part_title(WeightPart part);  // "embedding and head"

struct RankWeights {
  std::array<int64_t, kWeightParts> bytes{};
  int64_t total = 0;
  int64_t draft = 0;  // of the total: another model's (serve/draft.h)
  // Of these: what padding the vocabulary adds, and KV heads that other ranks
  // hold as well.
  int64_t vocab_padding = 0;
  int64_t kv_copies = 0;
  // Layers that predict further tokens, which only a draft would load; not in
  // the total. Over all devices.
  int64_t not_loaded = 0;
  // Kernels whose forms differ from the stored ones, each with what it adds;
  // those that the engine does not have for the card are refused.
  struct KernelUse {
    const KernelRow* row = nullptr;
    Packing packing = Packing::Plain;
    bool experts = false;
    int64_t bytes = 0;
  };
  std::vector<KernelUse> kernels;
};

// A view of a model for engines, made once for all degrees: the labels of its
// parameters, and which layers are loaded. It points into the model.
struct ServedWeights {
  const Manifest* manifest = nullptr;
  const Folding* folding = nullptr;  // by type
  LayerGroups groups;
  std::vector<const ParameterKind*> kinds;  // per class
  std::vector<bool> loaded;                 // per group
  bool grouped_experts = false;             // stacked ones, in groups of 4 bits
  // Per class: matrices of linear layers, and biases of stacked experts.
  std::vector<std::optional<StoredMatrix>> matrices;
  bool has_head = false;  // beside the embedding
};
// Whether some card's kernels change what is stored of quantised weights
// (serve/kernels.h).
bool kernels_may_change(const ServedWeights& model, const Engine& engine);
// Empty where a parameter's dimensions have no labels.
std::optional<ServedWeights> served_weights(const Model& of);

struct WeightsInput {
  const Engine* engine = nullptr;  // null: neither kernels nor slots count
  CardGeneration card = CardGeneration::Unknown;
  LoraSlots slots = {};
  Mesh layout = Mesh({{"tp", 1}});
  int64_t vocab_multiple = 1;
  // The token embedding is whole on every rank (SGLang's dp attention).
  bool whole_embedding = false;
  std::optional<DType> dtype = std::nullopt;  // of floating weights
  // Heads of a vision tower that do not divide are whole on every rank.
  bool whole_tower_heads = false;
};
// Of the groups for which `held` is true. Empty beyond 63 bits.
std::optional<RankWeights> rank_weights(const ServedWeights& model,
                                        const std::vector<bool>& held,
                                        const WeightsInput& input);

}  // namespace shardplan
