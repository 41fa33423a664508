// SPDX-License-Identifier: Apache-2.0
#include "io/document_builder.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
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

void DocumentBuilder::key(std::string_view text, Span where) {
  SHARDPLAN_CHECK(wants_key());
  children(open_.back())
      .keys.push_back({kept(text, where), static_cast<uint32_t>(where.begin),
                       static_cast<uint32_t>(where.end)});
}

bool DocumentBuilder::wants_key() const {
  if (open_.empty()) return false;
  const Document::Children& inside = children(open_.back());
  return kind(open_.back()) == NodeKind::Map &&
         inside.keys.size() == inside.items.size();
}

std::string_view DocumentBuilder::kept(std::string_view text, Span where) {
  if (text.empty()) return {};
  const std::string_view written = where.text();
  // As it is, or within quotes.
  for (const size_t skipped : {size_t{0}, size_t{1}}) {
    const std::string_view same =
        written.substr(std::min(skipped, written.size()), text.size());
    if (same == text) return same;
  }
  if (!document_.texts_) {
    document_.texts_ = std::make_shared<std::deque<std::string>>();
  }
  return document_.texts_->emplace_back(text);
}

uint32_t DocumentBuilder::add(NodeKind kind, std::string_view text,
                              Span where) {
  const auto node = static_cast<uint32_t>(document_.entries_.size());
  Document::Entry entry;
  entry.kind = kind;
  entry.text = kept(text, where);
  entry.begin = static_cast<uint32_t>(where.begin);
  entry.end = static_cast<uint32_t>(where.end);
  if (kind == NodeKind::List || kind == NodeKind::Map) {
    entry.children = static_cast<uint32_t>(document_.children_.size());
    document_.children_.emplace_back();
  }
  document_.entries_.push_back(entry);
  return node;
}

void DocumentBuilder::attach(uint32_t node) {
  if (open_.empty()) {
    document_.root_ = node;
  } else {
    children(open_.back()).items.push_back(node);
  }
}

uint32_t DocumentBuilder::scalar(NodeKind kind, std::string_view text,
                                 Span where) {
  const uint32_t node = add(kind, text, where);
  attach(node);
  return node;
}

uint32_t DocumentBuilder::detached(std::string_view text, Span where) {
  return add(NodeKind::String, text, where);
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
  entry.end = std::max(static_cast<uint32_t>(offset), entry.begin);
  Document::Children& inside = children(node);
  inside.items.shrink_to_fit();
  inside.keys.shrink_to_fit();
  check_keys(node);
  return node;
}

void DocumentBuilder::check_keys(uint32_t map) {
  const std::vector<Document::Key>& keys = children(map).keys;
  std::unordered_map<std::string_view, size_t> seen;
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto [first, is_new] = seen.emplace(keys[i].text, i);
    if (is_new) continue;
    const Document::Key& before = keys[first->second];
    report_duplicate(keys[i].text, document_.span(before.begin, before.end),
                     document_.span(keys[i].begin, keys[i].end));
  }
}

void DocumentBuilder::report_duplicate(std::string_view key, Span first,
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
