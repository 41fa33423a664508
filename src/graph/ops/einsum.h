// SPDX-License-Identifier: Apache-2.0
// Equations of einsum: "bse,em->bsm".
//
// A letter names an index; those that are not in the result are summed. Two
// operands, an explicit result, no ellipsis; blanks mean nothing. Invariant: no
// letter stands twice in one tensor, and the result has only letters of the
// operands.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/diagnostic.h"

namespace shardplan {

struct Equation {
  std::array<std::string, 2> operands;  // letters, one per dimension
  std::string result;

  bool operator==(const Equation&) const = default;
};

// SP015 for what is no such equation.
std::optional<Equation> parse_equation(std::string_view text, Span where,
                                       Diagnostics& diags);
std::string equation_text(const Equation& equation);

// Every letter once: those of the result, then those that are summed.
std::string letters_of(const Equation& equation);

}  // namespace shardplan
