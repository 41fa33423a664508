// SPDX-License-Identifier: Apache-2.0
// PythonStatement: the extent of a statement of Python source, in a tree over
// the tokens.
//
// The effect of a statement is left to the reader. Source: the Python language
// reference, chapters 7 and 8.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "syntax/python.h"

namespace shardplan {

struct PythonStatement {
  size_t begin = 0;  // its tokens; for a compound statement, of the header
  size_t end = 0;    // excluding the colon
  bool is_compound = false;
  std::vector<PythonStatement> body = {};  // of a compound statement
  size_t body_end = 0;                     // after its last token
};

// Returns the statements. Those nested deeper than Python allows, 100 levels,
// become simple statements.
std::vector<PythonStatement> python_statements(
    std::span<const PythonToken> tokens);

// Returns, for each opening bracket, the token after its closing bracket, or
// the end of the tokens.
std::vector<size_t> past_python_brackets(std::span<const PythonToken> tokens);

bool opens_python_bracket(const PythonToken& token);
bool closes_python_bracket(const PythonToken& token);
// Returns 1 for an opening bracket, -1 for a closing one, else 0.
int python_nesting(const PythonToken& token);

}  // namespace shardplan
