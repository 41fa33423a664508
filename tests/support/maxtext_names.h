// SPDX-License-Identifier: Apache-2.0
// Names and shapes of MaxText's parameters: as MaxText itself gave them
// (tests/data/maxtext_models.jsonl), and as it has them without scanned layers.
#pragma once

#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"
#include "tests/support/hf_config.h"

namespace shardplan::testing {

struct MaxTextArray {
  std::string name;
  Shape shape;
};

// Where layers are scanned, `decoder/layers/..` is all of them, and a dimension
// counts them: the second, or the first of variables that are no parameters.
inline bool is_scanned(std::string_view name) {
  return name.find("layers/") != name.npos;
}
inline size_t layers_dim(std::string_view name) {
  return name.starts_with("params/params/") ? 1 : 0;
}

// `decoder/layers_7/..` of a scanned array.
inline MaxTextArray unscanned(MaxTextArray array, int64_t layer) {
  const size_t dim = layers_dim(array.name);
  array.shape.erase(array.shape.begin() + static_cast<std::ptrdiff_t>(dim));
  array.name.replace(array.name.find("layers/"), 7,
                     "layers_" + std::to_string(layer) + "/");
  return array;
}

// Of a recorded model, each with its twin in layer 7. Records have `*` for
// numbers.
inline std::vector<MaxTextArray> recorded_maxtext(std::string_view model) {
  std::ifstream stream(data_path("maxtext_models.jsonl"));
  std::vector<MaxTextArray> arrays;
  for (std::string line; std::getline(stream, line);) {
    const Json row = Json::parse(line);
    if (row.at("model") != model) continue;
    for (const Json& tensor : row.at("tensors")) {
      for (const char* number : {"0", "1"}) {
        std::string name = tensor.at(0);
        const size_t last = name.find("wi_*");
        if (last == name.npos && *number == '1') continue;
        if (last != name.npos)
          name.replace(last, 4, "wi_" + std::string(number));
        for (size_t at = 0; (at = name.find('*', at)) != name.npos;) {
          name[at] = '0';
        }
        arrays.push_back({name, tensor.at(1).get<Shape>()});
        if (is_scanned(name)) arrays.push_back(unscanned(arrays.back(), 7));
      }
    }
  }
  if (arrays.empty()) throw std::runtime_error("no " + std::string(model));
  return arrays;
}

}  // namespace shardplan::testing
