// SPDX-License-Identifier: Apache-2.0
// Operations of a graph file that stand for several of graph/op.h.
//
// Each is put together so that a reduction over a sharded dimension becomes a
// partial sum: rms_norm over a sharded feature dimension takes an all-reduce of
// one number per row, not a gather of the rows. What is computed on the way has
// the name of the result, a colon and a word: `h:mean`.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "graph/graph.h"

namespace shardplan {

// One use of a composite in a graph file.
struct CompositeUse {
  std::vector<int> operands;  // values
  Attributes attributes;
  std::vector<std::string> results;
  std::vector<Span> results_where;
  std::string label;
  Span where;
};

struct CompositeDef {
  std::string_view name;
  std::string_view summary;
  int min_operands = 1;
  int max_operands = 1;
  bool many_results = false;
  // May stand under shard_map: what is computed on the way has the dimensions
  // of the result, and operand 0 of every step is the one before it.
  bool mappable = false;
  // An attribute that may be a number or a text is there twice.
  std::vector<AttributeDef> attributes;
  // Appends the operations; the results' values. SP015 when they do not fit.
  std::optional<std::vector<int>> (*expand)(const CompositeUse& use,
                                            Graph& graph,
                                            Diagnostics& diags) = nullptr;
};

// linear, matmul, rms_norm, layer_norm, softmax, split.
std::span<const CompositeDef> composites();
const CompositeDef* find_composite(std::string_view name);

}  // namespace shardplan
