// SPDX-License-Identifier: Apache-2.0
// Sizes of a graph file: names for them, and expressions of names.
//
//   dims: {batch: 4, heads: 8, head_dim: 64, embed: heads*head_dim}
//
// A size is an integer, the name of a size, or an expression of these with
// `+`, `-`, `*`, `/` and parentheses; a division that leaves a rest is refused.
// Sizes are from 0 up to 2^53, so that every one is exact as a double. Where a
// number is meant, not a size, an expression may have fractions and square
// roots: `1/sqrt(head_dim)`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/diagnostic.h"
#include "core/graph_description.h"
#include "syntax/document.h"

namespace shardplan {

inline constexpr int64_t kMaxDimSize = int64_t{1} << 53U;

// What a text means: a number, and a size if it is one.
struct Amount {
  double real = 0;  // finite
  std::optional<int64_t> whole = {};
  std::string why = {};  // it is not a size
};

// Empty when the text is not an expression, with what is wrong in `why`.
std::optional<Amount> evaluate_amount(std::string_view text,
                                      const DimSizes& dims, std::string& why);

// What a text means as a size; empty when it is none, with what is wrong in
// `why`.
std::optional<int64_t> evaluate_size(std::string_view text,
                                     const DimSizes& dims, std::string& why);

// An integer or a text that is a size; the rest is SP015 with the nearest name,
// or SP002.
std::optional<int64_t> read_size(const Node& node, const DimSizes& dims,
                                 Diagnostics& diags);

// The map `dims`, if there is one, each size computed from those before it;
// what `chosen` says wins. False when something is wrong, such as a chosen name
// that the file does not have (SP015).
bool read_dims(const std::optional<Node>& node, const DimSizes& chosen,
               DimSizes& dims, Diagnostics& diags);

// Letters, digits and `_`, not a digit first.
bool is_dim_name(std::string_view text);

// A graph file's nodes as a GraphDescription.

// `outputs` is left empty where the file names none. Stops at twenty errors.
std::optional<GraphDescription> read_graph_node(const Node& root,
                                                const DimSizes& dims,
                                                Diagnostics& diags);

}  // namespace shardplan
