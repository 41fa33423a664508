// SPDX-License-Identifier: Apache-2.0
// Reads the nodes of a graph file, and its sizes: names for them, and
// expressions of names.
//
//   dims: {batch: 4, heads: 8, head_dim: 64, embed: heads*head_dim}
//
// A size is an integer, the name of a size, or an expression of these with `+`,
// `-`, `*`, `/` and parentheses; a division with a remainder is refused. Sizes
// are from 0 to 2^53, so that each one is exact as a double. An expression for
// a number that is not a size may have fractions and square roots:
// `1/sqrt(head_dim)`.
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

// The meaning of a text: a number, and a size if the number is one.
struct Amount {
  double real = 0;  // finite
  std::optional<int64_t> whole = {};
  std::string why = {};  // why it is not a size
};

// Returns nullopt, with the error in `why`, if the text is not an expression.
std::optional<Amount> evaluate_amount(std::string_view text,
                                      const DimSizes& dims, std::string& why);

// Returns the text's value as a size; nullopt, with the error in `why`, if it
// is not a size.
std::optional<int64_t> evaluate_size(std::string_view text,
                                     const DimSizes& dims, std::string& why);

// Reads an integer or a string that is a size. Anything else is SP015, with the
// nearest name, or SP002.
std::optional<int64_t> read_size(const Node& node, const DimSizes& dims,
                                 Diagnostics& diags);

// Reads the map `dims`, if there is one; each size is computed from those
// before it, and `chosen` overrides the file. Returns false on any error, such
// as a chosen name that the file does not have (SP015).
bool read_dims(const std::optional<Node>& node, const DimSizes& chosen,
               DimSizes& dims, Diagnostics& diags);

// Returns whether the text has only letters, digits and `_`, and does not start
// with a digit.
bool is_dim_name(std::string_view text);

// Converts the nodes of a graph file to a GraphDescription.

// Leaves `outputs` empty if the file names none. Stops after twenty errors.
std::optional<GraphDescription> read_graph_node(const Node& root,
                                                const DimSizes& dims,
                                                Diagnostics& diags);

}  // namespace shardplan
