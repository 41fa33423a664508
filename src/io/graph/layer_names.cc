// SPDX-License-Identifier: Apache-2.0
#include "io/graph/layer_names.h"

#include <algorithm>

#include "base/words.h"

namespace shardplan {

std::string with_index(std::string text, int64_t index) {
  for (size_t at = text.find(kLayerIndex); at != std::string::npos;
       at = text.find(kLayerIndex, at)) {
    text.replace(at, kLayerIndex.size(), std::to_string(index));
  }
  return text;
}

std::vector<std::pair<std::string, Span>> results_in(const Node& ops) {
  std::vector<std::pair<std::string, Span>> names;
  for (size_t n = 0; n < ops.size(); ++n) {
    if (!ops.item(n).is_map()) continue;
    const auto out = ops.item(n).find("out");
    if (!out) continue;
    if (out->is_string()) names.emplace_back(out->text(), out->span());
    for (size_t i = 0; i < out->size(); ++i) {
      const Node item = out->item(i);
      if (item.is_string()) names.emplace_back(item.text(), item.span());
    }
  }
  return names;
}

NameSet names_in_layer(const Node& repeat) {
  NameSet names;
  if (const auto ops = repeat.find("ops")) {
    for (const auto& [name, where] : results_in(*ops)) names.insert(name);
  }
  const auto parameters = repeat.find("parameters");
  if (!parameters || !parameters->is_map()) return names;
  for (size_t i = 0; i < parameters->size(); ++i) {
    names.emplace(parameters->key(i));
  }
  return names;
}

int64_t nodes_in(const Node& node, int64_t most) {
  int64_t count = 1;
  for (size_t i = 0; i < node.size() && count < most; ++i) {
    count += nodes_in(node.item(i), most - count);
  }
  return count;
}

std::string LayerNames::in_layer(std::string_view name) const {
  const bool slashes = contains(prefix_, '/');
  return prefix_ + (slashes ? '/' : '.') + std::string(name);
}

std::string LayerNames::read(const std::string& name) const {
  const auto latest = latest_.find(name);
  if (latest != latest_.end()) return latest->second;
  return local_.contains(name) ? in_layer(name) : name;
}

std::string LayerNames::make(const std::string& name) {
  std::string own = repeats_ ? in_layer(name) : name;
  known_.insert(own);
  const bool is_carried = contains(carried_, name);
  if (is_carried) latest_[name] = own;
  return own;
}

void LayerNames::begin(NameSet local, std::vector<std::string> carried) {
  repeats_ = true;
  local_ = std::move(local);
  carried_ = std::move(carried);
  for (const std::string& name : carried_) latest_.emplace(name, name);
}

void LayerNames::enter(int64_t layer, std::string prefix) {
  layer_ = layer;
  prefix_ = std::move(prefix);
}

void LayerNames::end() {
  repeats_ = false;
  layer_ = 0;
  local_.clear();
  carried_.clear();
}

}  // namespace shardplan
