// SPDX-License-Identifier: Apache-2.0
// DocumentBuilder: events of a parser, JSON's or YAML's, become a Document.
//
// Internal to io/document*.cc. Values arrive in the order of the text; inside
// a map each is preceded by key(). Duplicate keys are reported here, since both
// syntaxes need it. REQUIRES of every call: the events form one tree.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/diagnostic.h"
#include "base/source.h"
#include "io/document.h"

namespace shardplan {

class DocumentBuilder {
 public:
  DocumentBuilder(SourcePtr source, Diagnostics& diags);

  // Texts are copied where the source does not spell them so.
  // Within a map: the key of the value that follows.
  void key(std::string_view text, Span where);
  // Each returns the node's number.
  uint32_t scalar(NodeKind kind, std::string_view text, Span where);
  uint32_t begin(NodeKind kind, uint64_t offset);
  uint32_t end(uint64_t offset);
  // Puts a complete node in a second place (a YAML alias).
  void repeat(uint32_t node) { attach(node); }
  // A scalar that has no place in the tree, for aliases of map keys.
  uint32_t detached(std::string_view text, Span where);

  size_t depth() const { return open_.size(); }
  bool wants_key() const;
  NodeKind kind(uint32_t node) const { return document_.entries_[node].kind; }
  std::string_view text(uint32_t node) const {
    return document_.entries_[node].text;
  }

  // Empty when a duplicate key was reported. A text without a value is Null.
  std::optional<Document> finish();

 private:
  uint32_t add(NodeKind kind, std::string_view text, Span where);
  // The same text for as long as the document lives.
  std::string_view kept(std::string_view text, Span where);
  Document::Children& children(uint32_t node) {
    return document_.children_[document_.entries_[node].children];
  }
  const Document::Children& children(uint32_t node) const {
    return document_.children_[document_.entries_[node].children];
  }
  void attach(uint32_t node);
  void check_keys(uint32_t map);
  void report_duplicate(std::string_view key, Span first, Span second);

  Diagnostics& diags_;
  Document document_;
  std::vector<uint32_t> open_;  // the lists and maps that we are in
  int64_t duplicates_ = 0;
};

// Why a text is not well-formed, and where.
struct SyntaxError {
  std::string message;
  Span where;
  std::string help;
};

// Reads YAML into the builder (io/document_yaml.cc).
std::optional<SyntaxError> read_yaml(const SourceFile& source,
                                     DocumentBuilder& builder);

}  // namespace shardplan
