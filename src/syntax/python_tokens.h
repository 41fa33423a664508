// SPDX-License-Identifier: Apache-2.0
// Python source as tokens, enough to find and read literals in it; nothing is
// executed.
//
// Comments, blanks and line ends are skipped. Adjacent string literals stay
// apart: joining them is the reader's business. Escapes are decoded as Python
// does, but for \N{..}. Source: the Python language reference, chapter 2.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/source.h"
#include "core/mesh.h"
#include "core/spec.h"

namespace shardplan {

enum class PythonTokenKind : uint8_t {
  Name,
  Number,
  String,     // `text` is its value
  Formatted,  // an f-string, or a string of bytes: no literal text
  Operator,   // one character, or `->`, `==`, `:=`, `**`, `//` and the like
  Bad,        // a string that does not end, or an escape that is none
  End,
};

struct PythonToken {
  PythonTokenKind kind = PythonTokenKind::End;
  std::string text;
  Span where;
  bool starts_line = false;  // the first token of its line

  bool is(std::string_view what) const {
    return kind != PythonTokenKind::String && text == what;
  }
};

// Ends with one End token, and at the first Bad one.
std::vector<PythonToken> python_tokens(const SourceFile& source);

// Writing Python: strings and PartitionSpecs as literals.
//
// What is written is read back by syntax/python_literal.h, and by Python.

// A string literal in double quotes; raw where that saves backslashes. What
// does not print, or reorders what a reader sees, is escaped. REQUIRES: valid
// UTF-8.
std::string python_string(std::string_view text);

// `None`, `"tp"`, `("fsdp", "tp")`.
std::string python_axes(const AxisNames& axes);

// `PartitionSpec("tp", None)`.
std::string python_spec(const PartitionSpec& spec);

// Names as a tuple: `("a", "b")`, `("a",)`, `()`.
std::string python_names(const AxisNames& names);

}  // namespace shardplan
