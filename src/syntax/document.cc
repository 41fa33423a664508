// SPDX-License-Identifier: Apache-2.0
#include "syntax/document.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>
#include <unordered_map>

#include "base/checked.h"
#include "base/shipped.h"
#include "base/text.h"
#include "base/words.h"
#include "syntax/json.h"
#include "syntax/packed_document.h"

namespace shardplan {
namespace {

// REQUIRES: the text is well-formed.
void read_value(JsonScanner& scanner, DocumentBuilder& builder) {
  using Token = JsonScanner::Token;
  const Token first = scanner.token();
  const Span where = scanner.span();
  if (first == Token::BeginObject || first == Token::BeginArray) {
    builder.begin(first == Token::BeginObject ? NodeKind::Map : NodeKind::List,
                  where.begin);
    while (scanner.next() != Token::EndObject &&
           scanner.token() != Token::EndArray) {
      if (scanner.token() == Token::Key) {
        builder.key(scanner.text(), scanner.span());
        scanner.next();
      }
      read_value(scanner, builder);
    }
    builder.end(scanner.span().end);
  } else if (first == Token::String) {
    builder.scalar(NodeKind::String, scanner.text(), where);
  } else {
    const bool is_real =
        where.text().find_first_of(".eE") != std::string_view::npos;
    const NodeKind kind = first == Token::Null     ? NodeKind::Null
                          : first != Token::Number ? NodeKind::Bool
                          : is_real                ? NodeKind::Real
                                                   : NodeKind::Integer;
    builder.scalar(kind, where.text(), where);
  }
}

// Returns why the text is not JSON, or nothing if it is. Builds nothing, so
// that the text can still be read as YAML.
std::optional<SyntaxError> json_error(const SourceFile& source) {
  JsonScanner scanner(source);
  while (scanner.next() != JsonScanner::Token::End) {
    if (scanner.token() == JsonScanner::Token::Error) {
      return SyntaxError{scanner.error(), scanner.error_span(), ""};
    }
  }
  return std::nullopt;
}

// Returns the packed document of a shipped text; empty for all others.
std::string_view packed_of(std::string_view text) {
  const auto files = shipped_files();
  const auto packed = packed_shipped_files();
  for (size_t i = 0; i < packed.size(); ++i) {
    if (files[i].text.data() == text.data() &&
        files[i].text.size() == text.size()) {
      return packed[i];
    }
  }
  return {};
}

}  // namespace

NodeKind Node::kind() const { return document_->entries_[index_].kind; }

Span Node::span() const { return document_->span(document_->entries_[index_]); }

std::string_view Node::text() const { return document_->entries_[index_].text; }

std::optional<int64_t> Node::integer() const {
  if (kind() != NodeKind::Integer) return std::nullopt;
  std::string_view digits = text();
  const int base = digits.starts_with("0x")   ? 16
                   : digits.starts_with("0o") ? 8
                                              : 10;
  digits.remove_prefix(base != 10 ? 2 : digits.starts_with('+') ? 1 : 0);
  int64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, problem] = std::from_chars(digits.data(), end, value, base);
  if (stop != end || problem != std::errc()) return std::nullopt;
  return value;
}

std::optional<double> Node::number() const {
  if (const auto whole = integer()) return static_cast<double>(*whole);
  if (kind() != NodeKind::Integer && kind() != NodeKind::Real) {
    return std::nullopt;
  }
  std::string_view digits = text();
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.remove_prefix(1);
  // Accepts YAML's `.inf` and `.nan`; from_chars knows the words without the
  // dot.
  if (digits.find_first_of("nN") != std::string_view::npos) {
    digits.remove_prefix(1);
  }
  const auto value = parse_real(digits);
  if (!value) return std::nullopt;  // beyond the range of a double
  return negative ? -*value : *value;
}

std::optional<bool> Node::boolean() const {
  if (kind() != NodeKind::Bool) return std::nullopt;
  return text().front() == 't' || text().front() == 'T';
}

size_t Node::size() const { return document_->children(index_).items.size(); }

Node Node::item(size_t index) const {
  return {document_, nth(document_->children(index_).items, index)};
}

std::string_view Node::key(size_t index) const {
  return document_->children(index_).keys[index].text;
}

Span Node::key_span(size_t index) const {
  return document_->span(document_->children(index_).keys[index]);
}

std::optional<Node> Node::find(std::string_view key) const {
  const auto& [items, keys] = document_->children(index_);
  const auto found = std::ranges::find(keys, key, &Document::Key::text);
  if (found == keys.end()) return std::nullopt;
  return Node(document_, nth(items, found - keys.begin()));
}

std::optional<Document> parse_document(SourcePtr source, Diagnostics& diags,
                                       Includes includes) {
  diags.add_source(source);
  const SourceFile& file = *source;
  const std::string_view text = file.text();
  if (const std::string_view packed = packed_of(text); !packed.empty()) {
    return unpack_document(packed, std::move(source));
  }
  if (text.size() > kMaxDocumentBytes) {
    return diags
        .error(Code::MalformedDocument, {&file, 0, 0},
               "the document is larger than 64 MiB, the limit for all but JSON "
               "manifests")
        .fact("size: " + count_text(std::ssize(text)) + " bytes");
  }
  DocumentBuilder builder(std::move(source), diags);
  const size_t first = text.find_first_not_of(" \t\r\n");
  const bool like_json = first != std::string_view::npos &&
                         (text[first] == '{' || text[first] == '[');
  std::optional<SyntaxError> not_json;
  if (like_json) not_json = json_error(file);
  if (like_json && !not_json) {
    JsonScanner scanner(file);
    scanner.next();
    read_value(scanner, builder);
    return builder.finish();
  }
  if (const auto not_yaml = read_yaml(file, builder, includes)) {
    // Reports the error of the reader that got further: the text was meant for
    // it.
    const bool json_is_nearer =
        not_json && not_json->where.begin >= not_yaml->where.begin;
    const SyntaxError& error = json_is_nearer ? *not_json : *not_yaml;
    auto problem =
        diags.error(Code::MalformedDocument, error.where, error.message);
    if (!error.help.empty()) problem.help(error.help);
    return problem;
  }
  return builder.finish();
}

std::optional<Node> require(const Node& node, NodeKind kind,
                            std::string_view what, Diagnostics& diags) {
  const bool number =
      kind == NodeKind::Real && node.kind() == NodeKind::Integer;
  if (node.kind() == kind || number) return node;
  return diags.error(Code::MalformedDocument, node.span(),
                     in_backticks(what) + " must be " +
                         std::string(kind_name(kind)) + ", not " +
                         std::string(kind_name(node.kind())));
}

bool reject_unknown_keys(const Node& map, std::span<const std::string> known,
                         Diagnostics& diags) {
  bool all_known = true;
  int reported = 0;
  for (size_t i = 0; i < map.size() && reported < kMaxErrors; ++i) {
    const std::string_view key = map.key(i);
    if (contains(known, key)) continue;
    all_known = false;
    ++reported;
    report_unknown_key(key, map.key_span(i), known, diags);
  }
  return all_known;
}

void report_unknown_key(std::string_view key, Span where,
                        std::span<const std::string> known,
                        Diagnostics& diags) {
  suggest(
      diags.error(Code::UnknownKey, where, "unknown key " + in_backticks(key))
          .fact("known keys: " + quoted_names(known, ", ")),
      key, known);
}

std::string_view kind_name(NodeKind kind) {
  static constexpr std::array<std::string_view, 7> kNames = {
      "null",     "true or false", "an integer", "a number",
      "a string", "a list",        "a map"};
  return nth(kNames, kind);
}

DocumentBuilder::DocumentBuilder(SourcePtr source, Diagnostics& diags)
    : diags_(diags) {
  document_.source_ = std::move(source);
}

void DocumentBuilder::key(std::string_view text, Span where) {
  SHARDPLAN_CHECK(wants_key());
  children(open_.back())
      .keys.push_back({stored_text(text, where),
                       static_cast<uint32_t>(where.begin),
                       static_cast<uint32_t>(where.end)});
}

bool DocumentBuilder::wants_key() const {
  if (open_.empty()) return false;
  const Document::Children& inside = document_.children(open_.back());
  return kind(open_.back()) == NodeKind::Map &&
         inside.keys.size() == inside.items.size();
}

std::string_view DocumentBuilder::stored_text(std::string_view text,
                                              Span where) {
  if (text.empty()) return {};
  const std::string_view written = where.text();
  // The text literally, or within quotes.
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

uint32_t DocumentBuilder::detached(NodeKind kind, std::string_view text,
                                   Span where) {
  const bool has_children = kind == NodeKind::List || kind == NodeKind::Map;
  const size_t place = has_children ? document_.children_.size() : 0;
  if (has_children) document_.children_.emplace_back();
  document_.entries_.push_back(
      {stored_text(text, where), static_cast<uint32_t>(where.begin),
       static_cast<uint32_t>(where.end), static_cast<uint32_t>(place), kind});
  return static_cast<uint32_t>(document_.entries_.size() - 1);
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
  const uint32_t node = detached(kind, text, where);
  attach(node);
  return node;
}

uint32_t DocumentBuilder::begin(NodeKind kind, uint64_t offset) {
  open_.push_back(scalar(kind, "", {document_.source_.get(), offset, offset}));
  return open_.back();
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
    if (is_new || ++duplicates_ > kMaxErrors) continue;
    diags_
        .error(Code::DuplicateKey, document_.span(keys[i]),
               "key " + in_backticks(keys[i].text) + " is given twice")
        .label(document_.span(keys[first->second]), "first given here");
  }
}

std::optional<Document> DocumentBuilder::finish() {
  if (document_.entries_.empty()) {
    scalar(NodeKind::Null, "", {document_.source_.get(), 0, 0});
  }
  if (duplicates_ > kMaxErrors) {
    diags_.report(
        Code::DuplicateKey, Severity::Note, {},
        count_text(duplicates_ - kMaxErrors) + " more keys are given twice");
  }
  if (duplicates_ > 0) return std::nullopt;
  return std::move(document_);
}

}  // namespace shardplan
