// SPDX-License-Identifier: Apache-2.0
// Document: JSON or YAML as a tree of nodes with source locations.
//
// Rules, configs and hand-written manifests are small and are read as trees.
// Both syntaxes produce the same nodes, so every reader gets file:line:column,
// duplicate-key and unknown-key errors from here. A text whose first character
// is `{` or `[` is tried as JSON first; anything else is YAML 1.2 core:
// unquoted `null`, `~` and nothing at all are Null, `true` and `false` are
// Bool, integers and decimals are numbers. These are rejected, with one
// diagnostic: duplicate keys (SP003), several documents in a file, aliases that
// contain themselves or expand beyond a million nodes, nesting deeper than 256,
// keys that are not text, merge keys, and tags other than YAML's own (SP002).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/diagnostic.h"
#include "base/source.h"

namespace shardplan {

class Document;

enum class NodeKind : uint8_t { Null, Bool, Integer, Real, String, List, Map };

// A view of one node, as cheap to copy as a pointer. Valid as long as its
// Document.
class Node {
 public:
  Node(const Document* document, uint32_t index)
      : document_(document), index_(index) {}

  NodeKind kind() const;
  Span span() const;
  bool is_null() const { return kind() == NodeKind::Null; }
  bool is_string() const { return kind() == NodeKind::String; }
  bool is_list() const { return kind() == NodeKind::List; }
  bool is_map() const { return kind() == NodeKind::Map; }

  // A string's text; for numbers and booleans their spelling.
  std::string_view text() const;
  // The value of an integer that fits 63 bits and a sign; YAML also allows 0x1F
  // and 0o17.
  std::optional<int64_t> integer() const;
  std::optional<double> number() const;  // for Integer or Real
  std::optional<bool> boolean() const;

  // The items of a list or the values of a map. Null and scalars have none.
  size_t size() const;
  Node item(size_t index) const;
  // The key of a map's entry `index`, and its location.
  std::string_view key(size_t index) const;
  Span key_span(size_t index) const;
  std::optional<Node> find(std::string_view key) const;

 private:
  const Document* document_;
  uint32_t index_;
};

class Document {
 public:
  Node root() const { return Node(this, root_); }
  const SourceFile& source() const { return *source_; }
  SourcePtr shared_source() const { return source_; }

 private:
  friend class Node;
  friend class DocumentBuilder;
  // Twelve megabytes of text can be six million nodes, so nodes are small:
  // locations are offsets, and texts are views of the source if it contains
  // them literally.
  struct Key {
    std::string_view text;
    uint32_t begin = 0;
    uint32_t end = 0;
  };
  struct Children {
    std::vector<uint32_t> items;
    std::vector<Key> keys;  // for a map, one per item
  };
  struct Entry {
    std::string_view text;
    uint32_t begin = 0;
    uint32_t end = 0;
    uint32_t children = 0;  // index, for a list or map; else 0, which is empty
    NodeKind kind = NodeKind::Null;
  };
  // The location of an Entry or Key.
  template <typename Part>
  Span span(const Part& part) const {
    return {source_.get(), part.begin, part.end};
  }
  const Children& children(uint32_t node) const {
    return children_[entries_[node].children];
  }

  SourcePtr source_;
  // A deque allocates in pieces, so its memory is never doubled as it grows.
  std::deque<Entry> entries_;
  std::vector<Children> children_ = std::vector<Children>(1);
  // Texts that the source spells differently. Shared, so that views stay valid.
  std::shared_ptr<std::deque<std::string>> texts_;
  uint32_t root_ = 0;
};

// Longer texts are rejected (SP002), since trees are for hand-written files.
// Offsets thus fit 32 bits.
inline constexpr size_t kMaxDocumentBytes = size_t{64} << 20U;

// How to treat YAML's `!include FILE`, which several programs support: as an
// error, or as the text "!include FILE".
enum class Includes : uint8_t { Refuse, AsText };

std::optional<Document> parse_document(SourcePtr source, Diagnostics& diags,
                                       Includes includes = Includes::Refuse);

// Helpers for readers. Each reports what is wrong and returns nothing.
//
// Requires a kind of node: "`mesh` must be a map, not a list" (SP002). An
// integer also counts as a Real.
std::optional<Node> require(const Node& node, NodeKind kind,
                            std::string_view what, Diagnostics& diags);
// Reports SP004 for every key that is not in `known`, with the nearest known
// key. Returns false if there was one.
bool reject_unknown_keys(const Node& map, std::span<const std::string> known,
                         Diagnostics& diags);
void report_unknown_key(std::string_view key, Span where,
                        std::span<const std::string> known, Diagnostics& diags);
// Returns "a map", "a list", "a string", "an integer", "a number", "true or
// false" or "null".
std::string_view kind_name(NodeKind kind);

// DocumentBuilder: builds a Document from the events of a JSON or YAML parser.
//
// Internal to syntax/. Values arrive in the order of the text; inside a map
// each one is preceded by key(). Duplicate keys are reported here, since both
// syntaxes need it. REQUIRES for every call: the events form one tree.

class DocumentBuilder {
 public:
  DocumentBuilder(SourcePtr source, Diagnostics& diags);

  // Sets the key of the value that follows, within a map. Texts are copied only
  // if the source does not contain them literally.
  void key(std::string_view text, Span where);
  // Return the node's number.
  uint32_t scalar(NodeKind kind, std::string_view text, Span where);
  uint32_t begin(NodeKind kind, uint64_t offset);
  uint32_t end(uint64_t offset);
  // Attaches a complete node, possibly in a second place (a YAML alias).
  void attach(uint32_t node);
  // Adds a node that is not in the tree, for aliases of map keys.
  uint32_t detached(NodeKind kind, std::string_view text, Span where);

  bool wants_key() const;
  NodeKind kind(uint32_t node) const { return document_.entries_[node].kind; }
  std::string_view text(uint32_t node) const {
    return document_.entries_[node].text;
  }

  // Returns nothing if a duplicate key was reported. A text without a value is
  // Null.
  std::optional<Document> finish();

 private:
  // Returns the same text, valid as long as the document.
  std::string_view stored_text(std::string_view text, Span where);
  Document::Children& children(uint32_t node) {
    return document_.children_[document_.entries_[node].children];
  }
  void check_keys(uint32_t map);

  Diagnostics& diags_;
  Document document_;
  std::vector<uint32_t> open_;  // the enclosing lists and maps
  int64_t duplicates_ = 0;      // keys
};

// Why a text is not well-formed, and where.
struct SyntaxError {
  std::string message;
  Span where;
  std::string help;
};

// Reads YAML into the builder (syntax/yaml.cc).
std::optional<SyntaxError> read_yaml(const SourceFile& source,
                                     DocumentBuilder& builder,
                                     Includes includes);

}  // namespace shardplan
