// SPDX-License-Identifier: Apache-2.0
// Growing a graph by one operation at a time.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "graph/graph.h"

namespace shardplan {

// Adds an input or a parameter; its number.
int append_value(Graph& graph, Value value);

// What is to be computed. `name` becomes the result's; it is not checked.
struct NewNode {
  std::string_view op;  // one of ops()
  std::vector<int> operands;
  Attributes attributes;
  std::string name;
  std::string label;
  Span where;       // of the operation
  Span name_where;  // of the result's name
};

// Adds the operation and its result, whose number it gives. SP015 when the
// operands do not fit or the result exceeds 2^63 elements. A dimension of the
// result that is one factor has the label of the first operand's dimension that
// is the same factor and has a label.
// REQUIRES: there is such an operation, and it takes so many operands and these
// attributes.
std::optional<int> append_node(Graph& graph, NewNode node, Diagnostics& diags);

}  // namespace shardplan
