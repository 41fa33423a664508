// SPDX-License-Identifier: Apache-2.0
// Layers: which parameters are of one numbered layer, by their names alone.
//
// What folding (core/fold.h) takes for alike, layers tell apart: a stack is
// what stands before the first number of a name, `model/layers/`, and that
// number is the layer's. Numbers of more than nine digits are no layer's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/manifest.h"

namespace shardplan {

struct LayerStack {
  std::string prefix;  // "model/layers/"
  int64_t layers = 0;  // distinct numbers
  int64_t last = -1;   // the largest of these
};

struct NumberedLayers {
  struct Place {
    int64_t stack = -1;  // -1: the name has no number
    int64_t number = -1;
    size_t end = 0;  // of the layer in the name
  };
  std::vector<LayerStack> stacks;  // in the order of their first names
  std::vector<Place> of;           // per parameter
};
NumberedLayers numbered_layers(const Manifest& manifest);

}  // namespace shardplan
