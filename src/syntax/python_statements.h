// SPDX-License-Identifier: Apache-2.0
// The statements of Python source, as a tree over its tokens.
//
// Only their extent is read: what a statement does is the reader's business.
// Source: the Python language reference, chapters 7 and 8.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "syntax/python.h"

namespace shardplan {

struct PythonStatement {
  size_t begin = 0;  // its tokens; of a compound statement those of its header
  size_t end = 0;    // without the colon
  bool is_compound = false;
  std::vector<PythonStatement> body = {};  // of a compound statement
  size_t body_end = 0;                     // behind its last token
};

// Statements that are nested deeper than Python allows, 100 levels, become
// simple ones.
std::vector<PythonStatement> python_statements(
    std::span<const PythonToken> tokens);

// For each opening bracket what stands behind the one that closes it, or the
// end of the tokens.
std::vector<size_t> past_python_brackets(std::span<const PythonToken> tokens);

bool opens_python_bracket(const PythonToken& token);
bool closes_python_bracket(const PythonToken& token);

}  // namespace shardplan
