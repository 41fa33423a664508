// SPDX-License-Identifier: Apache-2.0
// TensorEntry: what one object of a native manifest says of a tensor.
//
//   {"shape": [1024, 256], "dtype": "bf16", "axes": ["vocab", null],
//    "buffer": true}
//
// Whether an object is a tensor is known only at its end, since `shape` may
// stand anywhere in it; an entry collects what is there until then.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "core/manifest.h"
#include "core/types.h"
#include "syntax/tokens.h"

namespace shardplan {

enum class Attribute : uint8_t { Sizes, Type, Axes, Buffer, Name, None };

Attribute attribute_of(std::string_view key);
const std::string& attribute_name(Attribute attribute);
// "a map", "a string", .. of a value's first token.
std::string_view token_kind(JsonScanner::Token token);

// A member of an object that is not an attribute of a parameter. Whether that
// is an error depends on what the object turns out to be.
struct Member {
  std::string key;
  std::string name;  // what to call it in a message
  size_t depth = 0;  // parts of its path
  Span key_where;
  Span where;
  JsonScanner::Token token = JsonScanner::Token::Null;
};

struct TensorEntry {
  std::array<Span, 5> where;  // of each attribute's key; null: absent
  std::optional<DType> dtype;
  AxisLabels axes;
  bool buffer = false;
  std::string name;  // in a list
  Span name_where;
  bool broken = false;          // and that has been reported
  size_t first_stray = 0;       // of its members, on the reader's stack
  std::optional<Member> child;  // the first object, list or null

  Span at(Attribute attribute) const {
    return where[static_cast<size_t>(attribute)];
  }
  bool has(Attribute attribute) const {
    return static_cast<bool>(at(attribute));
  }
  bool has_any() const;
};

// Reads attributes, one object at a time.
class AttributeReader {
 public:
  AttributeReader(TokenSource& tokens, ErrorLimit& errors)
      : tokens_(tokens), errors_(errors) {}

  // The current token is the value of the attribute whose key is at `key`.
  // False, with nothing read, when it is not of the attribute's kind.
  bool read(Attribute attribute, Span key, TensorEntry& entry);
  // A member that is not an attribute of a tensor, of an object that is one.
  void report(const Member& member);
  void report_kind(std::string_view what, std::string_view expected, Span where,
                   JsonScanner::Token token);
  // Whether `axes` has an entry per dimension; reported when not.
  bool axes_fit(const TensorEntry& entry, const std::string& name);

  // The shape read last.
  const Shape& shape() const { return shape_; }
  // True once any object had an attribute.
  bool seen_any() const { return seen_any_; }
  // Items of a list, up to its end or an error.
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
// This is how JAX walks a tree, and it is not the order of the joined names:
// `a/z` comes before `a-b`, since `a` comes before `a-b`. A path is kept as one
// string whose bytes sort that way: each part ends with a zero byte, which is
// escaped within parts.

void append_key(std::string& path, std::string_view key);
void append_index(std::string& path, size_t index);
std::string path_name(std::string_view path);  // parts joined with `/`

struct TreeEntry {
  // A group is any node that is not a tensor, an empty one too.
  enum class Kind : uint8_t { Parameter, Buffer, Group };

  std::string path;
  Kind kind = Kind::Group;
  uint32_t index = 0;  // of the parameter or buffer
  Span where;
};

// Sorts by path. False when two entries have the same path (SP003).
bool sort_entries(std::vector<TreeEntry>& entries, Diagnostics& diags);

// The tensors of `manifest` in the order of the entries.
Manifest reordered(const Manifest& manifest,
                   const std::vector<TreeEntry>& entries);

}  // namespace shardplan
