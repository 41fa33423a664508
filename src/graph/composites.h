// SPDX-License-Identifier: Apache-2.0
// Operations of a graph file that stand for several of graph/op.h.
//
// Each is put together so that a reduction over a sharded dimension becomes a
// partial sum: rms_norm over a sharded feature dimension takes an all-reduce of
// one number per row, not a gather of the rows. What is computed on the way has
// the name of the result, a colon and a word: `h:mean`.
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
  std::optional<std::vector<ValueId>> (*expand)(const CompositeUse& use,
                                                Graph& graph,
                                                Diagnostics& diags) = nullptr;
  Region::Kind region = Region::Kind::Linear;
};

// Appends the operations, which are one region of the graph; the results'
// values. SP015 when they do not fit.
std::optional<std::vector<ValueId>> expand(const CompositeDef& composite,
                                           const CompositeUse& use,
                                           Graph& graph, Diagnostics& diags);

// linear, matmul, rms_norm, layer_norm, softmax, split.
std::span<const CompositeDef> composites();
const CompositeDef* find_composite(std::string_view name);

// Indices held as numbers of the run's element type.

// The index that a number is; -1 where it is not an integer in [0, count).
template <typename T>
int64_t index_of(T number, int64_t count) {
  if (!(number >= 0 && number < static_cast<T>(count))) return -1;
  const auto index = static_cast<int64_t>(number);
  return static_cast<T>(index) == number ? index : -1;
}

// Which place of which expert every choice of every token takes.
//
// Every sequence (one index of the dimensions before the last two of `choices`)
// has `capacity` places per expert. Choices take them in order of the token,
// then of the choice, as in Switch Transformer (Fedus et al., 2021); one that
// finds no place is dropped. A number that is not an expert takes no place, as
// jax.nn.one_hot gives zeros for it.

struct ExpertPlace {
  int64_t expert = -1;  // -1: the choice is not an expert
  int64_t slot = -1;    // of the sequence's places; -1: none was left
};

// Tokens [.., length, n], row-major, as [.., groups, length / groups, n]: then
// each group counts as a sequence.
Tensor in_groups_of_tokens(const Tensor& tokens, int64_t groups);

// Of every choice, in row-major order. REQUIRES: choices [.., length, k].
std::vector<ExpertPlace> places_of(const Tensor& choices, int64_t experts,
                                   int64_t capacity);

// Choices that have no place, for whatever reason.
int64_t count_dropped(const Tensor& choices, int64_t experts, int64_t capacity);

}  // namespace shardplan
