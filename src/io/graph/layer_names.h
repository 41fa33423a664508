// SPDX-License-Identifier: Apache-2.0
// Names in the repeated layers of a graph file, which writes a layer only once.
//
//   - repeat: layers
//     name: model.layers.{i}
//     carry: [x]
//     ops:
//       - {op: relu, in: x, out: a}    # model.layers.0.a, model.layers.1.a
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

// The placeholder for the number of a layer.
inline constexpr std::string_view kLayerIndex = "{i}";
std::string with_index(std::string text, int64_t index);

using NameSet = std::set<std::string, std::less<>>;

// Returns the names that the operations of a list produce, in the text's order.
std::vector<std::pair<std::string, Span>> results_in(const Node& ops);
// Returns the names that a `repeat` produces and those of its parameters.
NameSet names_in_layer(const Node& repeat);
// Counts the nodes of the document from `node` down, itself included; stops at
// `most`.
int64_t nodes_in(const Node& node, int64_t most);

// Resolves the names of values. In repeated layers, a name means the value of
// the same layer, or else one from outside. A carried name means the value that
// was produced last.
class LayerNames {
 public:
  bool repeats() const { return repeats_; }
  int64_t layer() const { return layer_; }

  // Returns `layers.0.normed` for `normed` in `layers.0`.
  std::string in_layer(std::string_view name) const;
  bool is_known(std::string_view name) const {
    return known_.contains(name) || latest_.contains(name);
  }
  std::string read(const std::string& name) const;
  // Records that an operation produces a value, and returns its full name.
  std::string make(const std::string& name);

  // begin() and end() enclose repeated layers; enter() starts each one.
  // REQUIRES: carried names are known.
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
  std::map<std::string, std::string, std::less<>> latest_;  // full names of
                                                            // carried values
};

}  // namespace shardplan
