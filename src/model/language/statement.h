// SPDX-License-Identifier: Apache-2.0
// Statement: one assignment of a forward pass in an architecture file
// (docs/formats/architecture.md, "What is computed"):
//
//     hidden = activate(gate_proj(x), activation) * up as intermediate
//     query = q_norm(query, epsilon = epsilon) if head_norms
//     choices, shares = choose_experts(router, chosen = experts_per_token)
//
// The right side is an expression with the operators of expression.h. In
// addition, calls may have any name, named arguments and lists. The parser does
// not know which names are values of the pass and which are sizes of the model.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/language/expression.h"

namespace shardplan {

struct Statement {
  std::vector<std::string> targets;  // the names of the results, at least one
  std::vector<ExpressionNode> nodes;
  // Indices into `nodes`, -1 for none.
  int value = -1;
  int layout = -1;  // after `as`: a name, or a list of names
  int when = -1;    // after `if`
};

// Returns whether expressions have a function of this name. A call of it in a
// statement is a number unless its first argument is a value: `max(x, [-1])`.
bool is_number_function(std::string_view name);

// Parses a statement. Returns nothing, and the reason in `why`, if the text is
// not one.
std::optional<Statement> parse_statement(std::string_view text,
                                         std::string& why);

}  // namespace shardplan
