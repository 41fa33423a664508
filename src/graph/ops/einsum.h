// SPDX-License-Identifier: Apache-2.0
// Einsum: its equations, such as "bse,em->bsm".
//
// Each letter names an index; letters that are not in the result are summed. An
// equation has two operands, an explicit result and no ellipsis; blanks are
// ignored. Invariant: no letter occurs twice in one tensor, and the result has
// only letters of the operands.
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

// Returns the equation, or reports SP015 if the text is not one.
std::optional<Equation> parse_equation(std::string_view text, Span where,
                                       Diagnostics& diags);
std::string equation_text(const Equation& equation);

// Returns every letter once: those of the result, then those that are summed.
std::string letters_of(const Equation& equation);

}  // namespace shardplan
