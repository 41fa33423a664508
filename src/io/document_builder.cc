// SPDX-License-Identifier: Apache-2.0
#include "io/document_builder.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "base/check.h"
#include "base/text.h"

namespace shardplan {
namespace {

constexpr int64_t kMaxReported = 20;

}  // namespace

DocumentBuilder::DocumentBuilder(SourcePtr source, Diagnostics& diags)
    : diags_(diags) {
  document_.source_ = std::move(source);
}

void DocumentBuilder::key(std::string text, Span where) {
  SHARDPLAN_CHECK(wants_key());
  Document::Entry& map = document_.entries_[open_.back()];
  map.keys.push_back(std::move(text));
  map.key_spans.push_back(where);
}

bool DocumentBuilder::wants_key() const {
  if (open_.empty()) return false;
  const Document::Entry& entry = document_.entries_[open_.back()];
  return entry.kind == NodeKind::Map && entry.keys.size() == entry.items.size();
}

uint32_t DocumentBuilder::add(NodeKind kind, std::string text, Span where) {
  const auto node = static_cast<uint32_t>(document_.entries_.size());
  Document::Entry entry;
  entry.kind = kind;
  entry.text = std::move(text);
  entry.span = where;
  document_.entries_.push_back(std::move(entry));
  return node;
}

void DocumentBuilder::attach(uint32_t node) {
  if (open_.empty()) {
    document_.root_ = node;
  } else {
    document_.entries_[open_.back()].items.push_back(node);
  }
}

uint32_t DocumentBuilder::scalar(NodeKind kind, std::string text, Span where) {
  const uint32_t node = add(kind, std::move(text), where);
  attach(node);
  return node;
}

uint32_t DocumentBuilder::detached(std::string text, Span where) {
  return add(NodeKind::String, std::move(text), where);
}

uint32_t DocumentBuilder::begin(NodeKind kind, uint64_t offset) {
  const Span where{document_.source_.get(), offset, offset};
  const uint32_t node = scalar(kind, "", where);
  open_.push_back(node);
  return node;
}

uint32_t DocumentBuilder::end(uint64_t offset) {
  const uint32_t node = open_.back();
  open_.pop_back();
  Document::Entry& entry = document_.entries_[node];
  entry.span.end = std::max(offset, entry.span.begin);
  check_keys(entry);
  return node;
}

void DocumentBuilder::check_keys(const Document::Entry& map) {
  std::unordered_map<std::string_view, size_t> seen;
  for (size_t i = 0; i < map.keys.size(); ++i) {
    const auto [first, is_new] = seen.emplace(map.keys[i], i);
    if (!is_new) {
      report_duplicate(map.keys[i], map.key_spans[first->second],
                       map.key_spans[i]);
    }
  }
}

void DocumentBuilder::report_duplicate(const std::string& key, Span first,
                                       Span second) {
  if (++duplicates_ > kMaxReported) return;
  diags_
      .error(Code::DuplicateKey, second,
             "key `" + printable(key) + "` is given twice")
      .label(first, "first given here");
}

std::optional<Document> DocumentBuilder::finish() {
  if (document_.entries_.empty()) {
    scalar(NodeKind::Null, "", {document_.source_.get(), 0, 0});
  }
  if (duplicates_ > kMaxReported) {
    diags_.report(
        Code::DuplicateKey, Severity::Note, {},
        count_text(duplicates_ - kMaxReported) + " more keys are given twice");
  }
  if (duplicates_ > 0) return std::nullopt;
  return std::move(document_);
}

}  // namespace shardplan
