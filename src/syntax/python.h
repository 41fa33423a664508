// SPDX-License-Identifier: Apache-2.0
// Python source as tokens, and the literals in it. Nothing is executed.
//
// Comments, blanks and line ends are skipped. Adjacent string literals stay
// separate tokens; the reader joins them. Escapes are decoded as in Python; a
// string with \N{..} counts as a computed one. Source: the Python language
// reference, chapter 2.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/source.h"
#include "base/words.h"
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
  // Returns whether it is one of the blank-separated words or operators.
  bool is_one_of(std::string_view words) const {
    return kind != PythonTokenKind::String && has_word(words, text);
  }
};

// Returns the tokens, up to and including an End token or the first Bad one.
std::vector<PythonToken> python_tokens(const SourceFile& source);

// Returns "PartitionSpec" for "jax.sharding.PartitionSpec".
inline std::string_view last_word(std::string_view name) {
  return name.substr(name.rfind('.') + 1);  // npos + 1 is 0
}

// Returns whether a line begins as no line of YAML or JSON can: `class X`,
// `import x`.
bool is_python_module(std::span<const PythonToken> tokens);

// Writing Python: strings and PartitionSpecs as literals, which syntax/python.h
// and Python can read back.

// Returns a string literal in double quotes, raw if that saves backslashes.
// Characters that are unprintable or reorder the visible text are escaped.
// REQUIRES: valid UTF-8.
std::string python_string(std::string_view text);
// The same, but never raw.
std::string python_quoted(std::string_view text);

// Returns `None`, `"tp"` or `("fsdp", "tp")`.
std::string python_axes(const AxisNames& axes);

// Returns `PartitionSpec("tp", None)`.
std::string python_spec(const PartitionSpec& spec);

// Returns names as a tuple: `("a", "b")`, `("a",)`, `()`.
std::string python_names(const AxisNames& names);

// PythonValue: a Python literal as a tree with locations. Literals are strings,
// None, tuples, lists, and calls of plain names with literal arguments.
// `re.escape("..")` and `"..".join((.., ..))` of strings are strings. Anything
// else is an error at its location, with advice on what to write instead.

enum class PythonKind : uint8_t {
  None,
  String,
  Number,
  Tuple,
  List,
  Call,
  Name,
  // `A if CONDITION else B`, `*A` within brackets, and `A + B`; only with
  // PythonParts::All.
  Choice,
  Starred,
  Sum
};

struct PythonValue {
  PythonKind kind = PythonKind::None;
  // String: its value. Call: the name of the callee,
  // `jax.sharding.PartitionSpec`. Name: a dotted name on its own,
  // `PartitionSpec.UNCONSTRAINED`.
  std::string text = {};
  std::vector<PythonValue> items = {};  // Tuple, List; Call: its arguments
  Span where = {};
  std::string keyword = {};  // of a named argument; "**" before a map of them
  // Choice: A and B are the items, and these tokens are the condition. Sum:
  // these tokens begin with the first `+`.
  size_t condition_begin = 0;
  size_t condition_end = 0;
};

enum class PythonParts : uint8_t { Literals, All };

// Reads the value that begins at `tokens[at]` and sets `at` to the token after
// it, which is not checked. Reports SP002, also for more than 64 levels.
std::optional<PythonValue> parse_python_value(
    std::span<const PythonToken> tokens, size_t& at, Diagnostics& diags,
    PythonParts parts = PythonParts::Literals);

// PythonDict: a dictionary with string keys in Python source.
//
//   base_model_tp_plan = {"layers.*.mlp.up_proj": "colwise", ..}
//
// Dictionaries are recognised by their form alone, so a module may contain any
// Python around them. The values are left to the reader.

struct PythonEntry {
  std::string key;
  Span where;        // the key
  size_t begin = 0;  // tokens of the value
  size_t end = 0;
};

struct PythonDict {
  std::string name;  // the name that it is assigned to, or empty
  Span where;        // its opening bracket
  std::vector<PythonEntry> entries = {};
  // The first entry without a literal key. It and all entries after it are
  // skipped.
  Span problem = {};
};

// Returns the outermost dictionaries: braces around a string and a colon, or
// empty ones that are assigned. An unclosed bracket ends with the tokens.
std::vector<PythonDict> python_dicts(std::span<const PythonToken> tokens);

}  // namespace shardplan
