// SPDX-License-Identifier: Apache-2.0
// Names in repeated layers of a graph file, which are written once.
//
//   - repeat: layers
//     name: model.layers.{i}
//     carry: [x]
//     ops:
//       - {op: relu, in: x, out: a}     # model.layers.0.a, model.layers.1.a,
//       ..
//       - {op: add, in: [x, a], out: x}
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/source.h"
#include "syntax/document.h"

namespace shardplan {

// Stands for the number of a layer.
inline constexpr std::string_view kLayerIndex = "{i}";
std::string with_index(std::string text, int64_t index);

using NameSet = std::set<std::string, std::less<>>;

// Names that the operations of a list make, in the order of the text.
std::vector<std::pair<std::string, Span>> results_in(const Node& ops);
// Those of a `repeat`, and of its parameters.
NameSet names_in_layer(const Node& repeat);
// Nodes of the document below one, and itself; no more than `most` are counted.
int64_t nodes_in(const Node& node, int64_t most);

// Which value a name means: among repeated layers that of the same layer, else
// one from outside; of what layers hand on, the one made last.
class LayerNames {
 public:
  bool repeats() const { return repeats_; }
  int64_t layer() const { return layer_; }

  // `normed` of `layers.0` is `layers.0.normed`.
  std::string in_layer(std::string_view name) const;
  bool is_known(std::string_view name) const {
    return known_.contains(name) || latest_.contains(name);
  }
  std::string read(const std::string& name) const;
  // The name of a value that is made, which others read from here on.
  std::string make(const std::string& name);

  // Between the two: layer after layer. REQUIRES: what is carried is known.
  void begin(NameSet local, std::vector<std::string> carried);
  void enter(int64_t layer, std::string prefix);
  void end();

 private:
  bool repeats_ = false;
  int64_t layer_ = 0;
  std::string prefix_;
  NameSet known_;
  NameSet local_;
  std::vector<std::string> carried_;
  std::map<std::string, std::string, std::less<>> latest_;  // what is carried
};

}  // namespace shardplan
