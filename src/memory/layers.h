// SPDX-License-Identifier: Apache-2.0
// Layers: which parameters belong together, told from their names.
//
// A unit is what is gathered at once and lives on one pipeline stage: a layer
// (the name up to and including its first number, `model/layers/7`), or a
// module outside of layers (`lm_head`). Models that are scanned over layers
// have one tensor for all of them instead, stacked along its first or second
// dimension; those of one stack (`decoder/layers`) form one unit.
// Names are read once: what costs as much as there are units or forms is left
// for every budget.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/manifest.h"

namespace shardplan {

// Units of equal form hold equal kinds of parameters, equally often.
struct UnitForm {
  struct Member {
    uint32_t kind = 0;
    int64_t count = 0;

    bool operator==(const Member&) const = default;
  };
  std::string label;     // "model/layers/*"
  int stacked_dim = -1;  // of its tensors, along which layers are stacked
  int64_t layers = 1;    // in such a stack
  std::vector<Member> members;  // by kind
  int64_t units = 0;

  bool is_stacked() const { return stacked_dim >= 0; }
};

// Where a unit outside of layers stands, by its name.
enum class UnitPlace : uint8_t { Unknown, Embedding, Norm, Head };

struct LayerUnit {
  std::string name;  // "model/layers/7"
  uint32_t form = 0;
  int64_t stack = -1;   // which run of numbered layers; -1: none
  int64_t number = -1;  // in its stack
  UnitPlace place = UnitPlace::Unknown;
  // The table of token embeddings, which a model without a head uses as one.
  bool is_token_embedding = false;
  size_t first = 0;  // its first parameter
};

struct LayerStack {
  std::string prefix;  // "model/layers/"
  int64_t layers = 0;  // distinct numbers
};

struct LayerUnits {
  std::vector<LayerUnit> units;  // in order of first appearance
  std::vector<UnitForm> forms;
  std::vector<LayerStack> stacks;
};

// `kind_of` gives each parameter's kind: what must be equal for two to cost
// the same, such as a plan's placement numbers. O(parameters).
LayerUnits layer_units(const Manifest& manifest,
                       std::span<const uint32_t> kind_of);

}  // namespace shardplan
