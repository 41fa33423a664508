// SPDX-License-Identifier: Apache-2.0
// Composites: operations of a graph file that expand to several operations of
// graph/op.h.
//
// Each expansion turns a reduction over a sharded dimension into a partial sum:
// rms_norm over a sharded feature dimension needs an all-reduce of one number
// per row, not a gather of the rows. The name of an intermediate value is that
// of the result, a colon and a word: `h:mean`.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "graph/graph.h"
#include "graph/tensor.h"

namespace shardplan {

// One use of a composite in a graph file.
struct CompositeUse {
  std::vector<ValueId> operands;
  Attributes attributes;
  std::vector<std::string> results;
  std::vector<Span> results_where;
  std::string label;
  Span where;
};

// The operations that one use becomes (graph/composites.cc).
class Expansion;

struct CompositeDef {
  std::string_view name;
  std::string_view summary;
  int min_operands = 1;
  int max_operands = min_operands;
  bool many_results = false;
  // Whether it may have a shard_map. If so, intermediate values have the
  // dimensions of the result, and operand 0 of every step is the previous step.
  bool mappable = false;
  // An attribute that may be a number or a text is listed twice.
  std::vector<AttributeDef> attributes = {};
  // Returns the results.
  std::vector<ValueId> (*expand)(Expansion& out) = nullptr;
  Region::Kind region = Region::Kind::Linear;
};

// Appends the operations, which form one region of the graph, and returns the
// results' values. Reports SP015 if they do not fit.
std::optional<std::vector<ValueId>> expand(const CompositeDef& composite,
                                           const CompositeUse& use,
                                           Graph& graph, Diagnostics& diags);

// Returns all composites: linear, matmul, rms_norm, layer_norm, softmax, split.
std::span<const CompositeDef> composites();
const CompositeDef* find_composite(std::string_view name);

// Indices stored as numbers of the run's element type.

// Returns the index that a number represents, or -1 if the number is not an
// integer in [0, count).
template <typename T>
int64_t index_of(T number, int64_t count) {
  if (!(number >= 0 && number < static_cast<T>(count))) return -1;
  const auto index = static_cast<int64_t>(number);
  return static_cast<T>(index) == number ? index : -1;
}

// The slot of an expert that each choice of each token gets.
//
// Every sequence (one index of the dimensions before the last two of `choices`)
// has `capacity` slots per expert. Choices fill them in order of the token,
// then of the choice, as in Switch Transformer (Fedus et al., 2021); a choice
// that finds no free slot is dropped. A number that is not an expert fills no
// slot, just as jax.nn.one_hot gives zeros for it.

struct ExpertPlace {
  int64_t expert = -1;  // -1: the choice is not an expert
  int64_t slot = -1;    // among the sequence's slots; -1: none was free
};

// Reshapes row-major tokens [.., length, n] to [.., groups, length / groups,
// n], so that each group counts as a sequence.
Tensor in_groups_of_tokens(const Tensor& tokens, int64_t groups);

// Returns the place of every choice, in row-major order. REQUIRES: `choices`
// has the shape [.., length, k].
std::vector<ExpertPlace> places_of(const Tensor& choices, int64_t experts,
                                   int64_t capacity);

// Returns the number of choices that have no slot, for whatever reason.
int64_t count_dropped(const Tensor& choices, int64_t experts, int64_t capacity);

}  // namespace shardplan
