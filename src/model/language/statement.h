// SPDX-License-Identifier: Apache-2.0
// Statement: what a forward pass computes, as an architecture file writes it
// (docs/formats/architecture.md, "What is computed"):
//
//     hidden = activate(gate_proj(x), activation) * up as intermediate
//     query = q_norm(query, epsilon = epsilon) if head_norms
//     choices, shares = choose_experts(router, chosen = experts_per_token)
//
// The right side is an expression with the operators of expression.h, in which
// calls may have any name, named arguments and lists. Which names are values of
// the pass and which are sizes of the model is not known here.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/language/expression.h"

namespace shardplan {

struct Statement {
  std::vector<std::string> targets;  // at least one
  std::vector<ExpressionNode> nodes;
  // Indices of nodes, -1 for none.
  int value = -1;
  int layout = -1;  // behind `as`: a name, or a list of names
  int when = -1;    // behind `if`
};

// Empty, and the reason in `why`, where the text is no statement.
std::optional<Statement> parse_statement(std::string_view text,
                                         std::string& why);

}  // namespace shardplan
