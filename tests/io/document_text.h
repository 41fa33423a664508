// SPDX-License-Identifier: Apache-2.0
// Documents and diagnostics as short texts, for tests to compare.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/diagnostic.h"
#include "syntax/document.h"

namespace shardplan::testing {

// "{a: [int 1, 'text'], b: null}"
inline std::string text_of(const Node& node) {
  const std::string text(node.text());
  std::string all;
  switch (node.kind()) {
    case NodeKind::Null:
      return "null";
    case NodeKind::Bool:
      return "bool " + text;
    case NodeKind::Integer:
      return "int " + text;
    case NodeKind::Real:
      return "real " + text;
    case NodeKind::String:
      return "'" + text + "'";
    case NodeKind::List:
    case NodeKind::Map:
      break;
  }
  for (size_t i = 0; i < node.size(); ++i) {
    if (i > 0) all += ", ";
    if (node.is_map()) all += std::string(node.key(i)) + ": ";
    all += text_of(node.item(i));
  }
  return node.is_map() ? "{" + all + "}" : "[" + all + "]";
}

inline std::string line_and_column(Span where) {
  if (!where) return "-";
  const Position at = where.file->position(where.begin);
  return std::to_string(at.line) + ":" + std::to_string(at.column);
}

// "SP002 1:7 message (label 1:2)" per diagnostic, a line each.
inline std::string text_of(const Diagnostics& diags) {
  std::string all;
  for (const Diagnostic& d : diags.all()) {
    all += code_id(d.code) + " " +
           line_and_column(d.labels.empty() ? Span() : d.labels[0].where) +
           " " + d.message;
    for (size_t i = 1; i < d.labels.size(); ++i) {
      all += " (" + d.labels[i].text + " " +
             line_and_column(d.labels[i].where) + ")";
    }
    all += "\n";
  }
  return all;
}

// The document, or what is wrong with it.
inline std::string document_text(std::string text) {
  Diagnostics diags;
  const auto document =
      parse_document(std::make_shared<SourceFile>("t", std::move(text)), diags);
  if (!document) return text_of(diags);
  return text_of(document->root()) + text_of(diags);
}

// What is wrong with a text that must not be read.
inline std::string problems_text(std::string text) {
  Diagnostics diags;
  const auto document =
      parse_document(std::make_shared<SourceFile>("t", std::move(text)), diags);
  return (document ? "read: " + text_of(document->root()) : "") +
         text_of(diags);
}

}  // namespace shardplan::testing
