// SPDX-License-Identifier: Apache-2.0
// Python source as tokens, enough to find and read literals in it; nothing is
// executed.
//
// Comments, blanks and line ends are skipped. Adjacent string literals stay
// apart: joining them is the reader's business. Escapes are decoded as Python
// does; a string with \N{..} counts as a computed one. Source: the Python
// language reference, chapter 2.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/source.h"
#include "core/mesh.h"
#include "core/spec.h"

namespace shardplan {

enum class PythonTokenKind : uint8_t {
  Name,
  Number,
  String,     // `text` is its value
  Formatted,  // an f-string, bytes, or with \N{..}: no literal text
  Operator,   // one character, or `->`, `==`, `:=`, `**`, `//` and the like
  Bad,        // an unterminated string or an invalid escape
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

// "PartitionSpec" for "jax.sharding.PartitionSpec".
inline std::string_view last_word(std::string_view name) {
  return name.substr(name.rfind('.') + 1);  // npos + 1 is 0
}

// Whether a line begins as no line of YAML or JSON does: `class X`, `import x`.
bool is_python_module(std::span<const PythonToken> tokens);

// Writing Python: strings and PartitionSpecs as literals.
//
// What is written is read back by syntax/python.h, and by Python.

// A string literal in double quotes; raw where that saves backslashes. What
// does not print, or reorders what a reader sees, is escaped. REQUIRES: valid
// UTF-8.
std::string python_string(std::string_view text);
// The same, never raw.
std::string python_quoted(std::string_view text);

// `None`, `"tp"`, `("fsdp", "tp")`.
std::string python_axes(const AxisNames& axes);

// `PartitionSpec("tp", None)`.
std::string python_spec(const PartitionSpec& spec);

// Names as a tuple: `("a", "b")`, `("a",)`, `()`.
std::string python_names(const AxisNames& names);

// Literals of Python as a tree with places: strings, None, tuples, lists, and
// calls of plain names with literal arguments. `re.escape("..")` and
// `"..".join((.., ..))` of strings are strings. Anything else is refused at its
// place, with what to write instead.

enum class PythonKind : uint8_t {
  None,
  String,
  Number,
  Tuple,
  List,
  Call,
  Name,
  // `A if CONDITION else B`, `*A` within brackets, and `A + B`: only where
  // PythonParts::All is asked for.
  Choice,
  Starred,
  Sum
};

struct PythonValue {
  PythonKind kind = PythonKind::None;
  // String: its value. Call: the name called, `jax.sharding.PartitionSpec`.
  // Name: a dotted name that stands alone, `PartitionSpec.UNCONSTRAINED`.
  std::string text;
  std::vector<PythonValue> items;  // Tuple, List; Call: its arguments
  Span where;
  std::string keyword;  // of an argument by name; "**" before a map of them
  // Choice: A and B are the items, and these tokens the condition. Sum: they
  // begin with its first `+`.
  size_t condition_begin = 0;
  size_t condition_end = 0;
};

enum class PythonParts : uint8_t { Literals, All };

// Reads the value that begins at `tokens[at]` and moves `at` behind it; what
// follows there is not looked at. Reports SP002. Deeper than 64 levels is
// refused.
std::optional<PythonValue> parse_python_value(
    std::span<const PythonToken> tokens, size_t& at, Diagnostics& diags,
    PythonParts parts = PythonParts::Literals);

// Dictionaries in Python source whose keys are strings:
//
//   base_model_tp_plan = {"layers.*.mlp.up_proj": "colwise", ..}
//
// They are found by their looks, so a module may hold any Python around them.
// What a value is, is the reader's business.

struct PythonEntry {
  std::string key;
  Span where;        // the key
  size_t begin = 0;  // tokens of the value
  size_t end = 0;
};

struct PythonDict {
  std::string name;  // what it is assigned to, or empty
  Span where;        // its opening bracket
  std::vector<PythonEntry> entries;
  // An entry that has no literal key, and all behind it, are not read.
  Span problem = {};
};

// The outermost ones: braces around a string and a colon, or assigned empty
// ones. A bracket that is never closed ends with the tokens.
std::vector<PythonDict> python_dicts(std::span<const PythonToken> tokens);

}  // namespace shardplan
