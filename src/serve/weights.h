// SPDX-License-Identifier: Apache-2.0
// RankWeights: the weights that an engine loads on each rank. The labels that
// the model's architecture gives to dimensions decide which dimension of which
// parameter is sharded, not rules.
//
// Heads, MLP widths and the vocabulary are sharded over ranks. Each rank has at
// least one KV head, and the vocabulary is padded first. Experts are placed
// whole, or sharded like an MLP. Everything else is replicated on every rank:
// norms, routers, latents. Fusing q, k and v, or gate and up, does not change
// the bytes.
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

// The role of a dimension for an engine.
enum class DimRole : uint8_t {
  Whole,
  Vocabulary,
  Heads,    // query heads, heads and channels of states
  KvHeads,  // at least one per rank
  // Groups of a Mamba 2 mixer; a single group is replicated on every rank.
  StateGroups,
  Dense,    // width of an MLP
  Width,    // width of an expert
  Experts,  // stacked experts
};
// Returns the role for the label of a dimension (DimKind::axis). `expert`: the
// dimension belongs to an expert module.
DimRole role_of_label(std::string_view label, bool expert);

// A dimension, and the units in which it is sharded.
struct ServedDim {
  DimRole role = DimRole::Whole;
  int64_t size = 0;     // elements, as stored
  int64_t count = 0;    // heads or experts in it; 0: it is sharded by elements
  int64_t block = 1;    // see DimKind::block
  std::string label;    // "kv_heads", "mlp"
  bool padded = false;  // the engine pads it if it does not divide evenly
  int64_t unit = 1;     // see DimKind::unit
};
// Returns the dimension, or each part of a dimension that concatenates several.
std::vector<ServedDim> served_dims(const DimKind& dim, int64_t size,
                                   bool expert);

// Returns served_dims() of every dimension of a parameter. Stacked experts in
// groups of 4-bit elements (`grouped`) are sharded by whole groups, and engines
// pad their width. If no label marks the width, the first dimension without a
// label is taken as the width.
std::vector<std::vector<ServedDim>> served_parameter(const ParameterKind& kind,
                                                     const Shape& shape,
                                                     bool expert, bool grouped);

// Returns the number of devices of a layout (layout_of) that shard it.
int64_t degree_of(DimRole role, const Mesh& layout);
// Returns whether these are heads of a tower beside the language model
// (model/tensor_name.h) that are not divisible by the degree.
bool are_uneven_tower_heads(std::string_view folded, const ServedDim& dim,
                            int64_t degree);
// Returns the elements on the fullest rank. REQUIRES: degree >= 1.
int64_t held_elements(const ServedDim& dim, int64_t degree,
                      int64_t vocab_multiple);

// Returns whether a component of the name is "experts".
bool is_expert_name(std::string_view folded);
// Returns whether the name has one tensor per expert:
// "model.layers.*.mlp.experts.*.up_proj".
bool is_single_expert(std::string_view folded);

// The parts of a model that a rank's bytes belong to.
enum class WeightPart : uint8_t {
  Vocabulary,
  Attention,  // and recurrent states' weights
  Dense,
  Experts,
  Whole,     // replicated on every rank
  Scales,    // of quantised weights, and other buffers
  Absorbed,  // MLA: a second copy of the latents' up-projection in 16 bits
  Kernels,   // bytes that kernel forms add; may be < 0
  Slots,     // for adapters
};
inline constexpr size_t kWeightParts = 9;
std::string_view weight_part_name(WeightPart part);   // "vocabulary"
std::string_view weight_part_title(WeightPart part);  // "embedding and head"

struct RankWeights {
  std::array<int64_t, kWeightParts> bytes{};
  int64_t total = 0;
  int64_t draft = 0;  // of the total: another model's (serve/draft.h)
  // Included in `bytes`: what padding of the vocabulary adds, and KV heads that
  // other ranks also hold.
  int64_t vocab_padding = 0;
  int64_t kv_copies = 0;
  // Layers that predict further tokens, which only a draft would load. Excluded
  // from the total; over all devices.
  int64_t not_loaded = 0;
  // Kernels whose forms differ from the stored ones, each with the bytes it
  // adds. Includes rows for which the engine has no kernel for the card
  // (is_refused).
  struct KernelUse {
    const KernelRow* row = nullptr;
    Packing packing = Packing::Plain;
    bool experts = false;
    int64_t bytes = 0;
  };
  std::vector<KernelUse> kernels;
};

// A model as engines see it, built once for all degrees: the labels of its
// parameters, and the layers that are loaded. It points into the model.
struct ServedWeights {
  const Manifest* manifest = nullptr;
  const Folding* folding = nullptr;  // by type
  LayerGroups groups;
  std::vector<const ParameterKind*> kinds;  // per class
  std::vector<bool> loaded;                 // per group
  bool grouped_experts = false;             // stacked, in groups of 4-bit
                                            // elements
  // Per class: matrices of linear layers, and biases of stacked experts.
  std::vector<std::optional<StoredMatrix>> matrices;
  bool has_head = false;  // separate from the embedding
};
// Returns whether the kernels of any card change quantised weights of the model
// (serve/kernels.h).
bool kernels_may_change(const ServedWeights& model, const Engine& engine);
// Returns the model's view; empty if a parameter's dimensions have no labels.
std::optional<ServedWeights> served_weights(const Model& of);

struct WeightsInput {
  const Engine* engine = nullptr;  // null: ignores kernels and slots
  CardGeneration card = CardGeneration::Unknown;
  LoraSlots slots = {};
  Mesh layout = Mesh({{"tp", 1}});
  int64_t vocab_multiple = 1;
  // The token embedding is replicated on every rank (SGLang's dp attention).
  bool whole_embedding = false;
  std::optional<DType> dtype = std::nullopt;  // of floating-point weights
  // Heads of a vision tower that do not divide evenly are replicated on every
  // rank.
  bool whole_tower_heads = false;
};
// Returns the weights of the groups for which `held` is true. Empty beyond 63
// bits.
std::optional<RankWeights> rank_weights(const ServedWeights& model,
                                        const std::vector<bool>& held,
                                        const WeightsInput& input);

}  // namespace shardplan
