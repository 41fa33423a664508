// SPDX-License-Identifier: Apache-2.0
// TensorEntry: what one object of a native manifest states about a tensor.
//
//   {"shape": [1024, 256], "dtype": "bf16", "axes": ["vocab", null],
//    "buffer": true}
//
// `shape` may be anywhere in an object, so only the end of the object shows
// whether it is a tensor; until then an entry collects what it has read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/checked.h"
#include "base/diagnostic.h"
#include "core/manifest.h"
#include "core/types.h"
#include "syntax/tokens.h"

namespace shardplan {

enum class Attribute : uint8_t { Sizes, Type, Axes, Buffer, Name, None };

Attribute attribute_of(std::string_view key);
const std::string& attribute_name(Attribute attribute);

// A member of an object that is not an attribute of a parameter. What the
// object turns out to be decides whether that is an error.
struct Member {
  std::string key;
  std::string name;  // for messages
  size_t depth = 0;  // number of parts of its path
  Span key_where;
  Span where;
  JsonScanner::Token token = JsonScanner::Token::Null;
};

struct TensorEntry {
  std::array<Span, 5> where;  // key of each attribute, or null
  std::optional<DType> dtype;
  AxisLabels axes;
  bool buffer = false;
  std::string name;  // in a list
  Span name_where;
  bool broken = false;          // an error was reported
  size_t first_stray = 0;       // index on the reader's stack of members
  std::optional<Member> child;  // first object, list or null

  Span at(Attribute attribute) const { return nth(where, attribute); }
  bool has(Attribute attribute) const { return at(attribute).file != nullptr; }
  bool has_any() const;
};

// Reads attributes, one object at a time.
class AttributeReader {
 public:
  AttributeReader(TokenSource& tokens, ErrorLimit& errors)
      : tokens_(tokens), errors_(errors) {}

  // Reads the attribute whose key is at `key` and whose value is the current
  // token. Returns false, with nothing read, if the value has the wrong kind.
  bool read(Attribute attribute, Span key, TensorEntry& entry);
  // Reports a member of a tensor that is not an attribute.
  void report(const Member& member);
  void report_kind(std::string_view what, std::string_view expected, Span where,
                   JsonScanner::Token token);
  // Returns whether `axes` has an entry per dimension; reports it if not.
  bool axes_fit(const TensorEntry& entry, const std::string& name);

  // The shape that was read last.
  const Shape& shape() const { return shape_; }
  // Returns whether any object so far had an attribute.
  bool seen_any() const { return seen_any_; }
  // Moves to the next item of a list; returns false at its end or an error.
  bool next_item();

 private:
  void read_value(Attribute attribute, TensorEntry& entry);
  void read_shape(TensorEntry& entry);
  void read_dtype(TensorEntry& entry);
  void read_axes(TensorEntry& entry);

  TokenSource& tokens_;
  ErrorLimit& errors_;
  Shape shape_;  // reused: a million tensors need no allocation
  bool seen_any_ = false;
  std::string last_dtype_text_;
  std::optional<DType> last_dtype_;
};

// The order of a nested tree: keys sorted per level, lists by position.
//
// JAX walks a tree in this order, which differs from the order of the joined
// names: `a/z` comes before `a-b`, since `a` comes before `a-b`. A path is
// stored as one string whose bytes sort that way: each part ends with a zero
// byte, and zero bytes within a part are escaped.

void append_key(std::string& path, std::string_view key);
void append_index(std::string& path, size_t index);
std::string path_name(std::string_view path);  // parts joined with `/`

struct TreeEntry {
  // A group is any node that is not a tensor, even an empty one.
  enum class Kind : uint8_t { Parameter, Buffer, Group };

  std::string path;
  Kind kind = Kind::Group;
  uint32_t index = 0;  // index of the parameter or buffer
  Span where;
};

// Sorts by path. Returns false if two entries have the same path (SP003).
bool sort_entries(std::vector<TreeEntry>& entries, Diagnostics& diags);

// Returns the tensors of `manifest` in the order of the entries.
Manifest reordered(const Manifest& manifest,
                   const std::vector<TreeEntry>& entries);

}  // namespace shardplan
