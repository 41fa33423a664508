// SPDX-License-Identifier: Apache-2.0
#include "core/layers.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>

#include "core/fold.h"

namespace shardplan {

NumberedLayers numbered_layers(const Manifest& manifest) {
  NumberedLayers layers;
  layers.of.reserve(manifest.size());
  std::unordered_map<std::string_view, size_t> stacks;
  std::vector<std::set<int64_t>> numbers;  // per stack
  for (size_t i = 0; i < manifest.size(); ++i) {
    const std::string_view name = manifest.name(i);
    const NumberIn at = first_number(name);
    NumberedLayers::Place& place = layers.of.emplace_back();
    if (at.number < 0) continue;
    const std::string_view prefix = name.substr(0, at.begin);
    // Most names are of the same layer as the one before.
    if (i > 0 && layers.of[i - 1].number == at.number &&
        layers.stacks[static_cast<size_t>(layers.of[i - 1].stack)].prefix ==
            prefix) {
      place = {layers.of[i - 1].stack, at.number, at.end};
      continue;
    }
    const auto [entry, is_new] = stacks.try_emplace(prefix, stacks.size());
    if (is_new) {
      layers.stacks.push_back({std::string(prefix), 0, -1});
      numbers.emplace_back();
    }
    place = {static_cast<int64_t>(entry->second), at.number, at.end};
    numbers[entry->second].insert(at.number);
  }
  for (size_t s = 0; s < numbers.size(); ++s) {
    layers.stacks[s].layers = static_cast<int64_t>(numbers[s].size());
    layers.stacks[s].last = *numbers[s].rbegin();
  }
  return layers;
}

}  // namespace shardplan
