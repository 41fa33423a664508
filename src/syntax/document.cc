// SPDX-License-Identifier: Apache-2.0
#include "syntax/document.h"

#include <algorithm>
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

template <typename T>
std::optional<T> whole_number(std::string_view digits, int base) {
  T value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, problem] = std::from_chars(digits.data(), end, value, base);
  if (digits.empty() || stop != end || problem != std::errc()) {
    return std::nullopt;
  }
  return value;
}

uint32_t read_value(JsonScanner& scanner, DocumentBuilder& builder);

// Reads the items of the list or map that the scanner has just entered.
uint32_t read_items(JsonScanner& scanner, DocumentBuilder& builder,
                    NodeKind kind) {
  using Token = JsonScanner::Token;
  builder.begin(kind, scanner.span().begin);
  while (true) {
    const Token token = scanner.next();
    if (token == Token::EndObject || token == Token::EndArray) {
      return builder.end(scanner.span().end);
    }
    if (token == Token::Key) {
      builder.key(scanner.text(), scanner.span());
      scanner.next();
    }
    read_value(scanner, builder);
  }
}

// REQUIRES: the text is well-formed.
uint32_t read_value(JsonScanner& scanner, DocumentBuilder& builder) {
  using Token = JsonScanner::Token;
  const Span where = scanner.span();
  const auto scalar = [&](NodeKind kind) {
    return builder.scalar(kind, where.text(), where);
  };
  switch (scanner.token()) {
    case Token::BeginObject:
      return read_items(scanner, builder, NodeKind::Map);
    case Token::BeginArray:
      return read_items(scanner, builder, NodeKind::List);
    case Token::String:
      return builder.scalar(NodeKind::String, scanner.text(), where);
    case Token::Number:
      return scalar(where.text().find_first_of(".eE") == std::string_view::npos
                        ? NodeKind::Integer
                        : NodeKind::Real);
    case Token::True:
    case Token::False:
      return scalar(NodeKind::Bool);
    default:
      SHARDPLAN_CHECK(scanner.token() == Token::Null);
      return scalar(NodeKind::Null);
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

std::nullopt_t report(const SyntaxError& error, Diagnostics& diags) {
  auto problem =
      diags.error(Code::MalformedDocument, error.where, error.message);
  if (!error.help.empty()) problem.help(error.help);
  return std::nullopt;
}

}  // namespace

NodeKind Node::kind() const { return document_->entries_[index_].kind; }

Span Node::span() const {
  const auto& entry = document_->entries_[index_];
  return document_->span(entry.begin, entry.end);
}

std::string_view Node::text() const { return document_->entries_[index_].text; }

std::optional<int64_t> Node::integer() const {
  if (kind() != NodeKind::Integer) return std::nullopt;
  std::string_view digits = text();
  if (digits.substr(0, 2) == "0x") {
    return whole_number<int64_t>(digits.substr(2), 16);
  }
  if (digits.substr(0, 2) == "0o") {
    return whole_number<int64_t>(digits.substr(2), 8);
  }
  if (digits.substr(0, 1) == "+") digits.remove_prefix(1);
  return whole_number<int64_t>(digits, 10);
}

std::optional<double> Node::number() const {
  if (const auto whole = integer()) return static_cast<double>(*whole);
  if (kind() != NodeKind::Integer && kind() != NodeKind::Real) {
    return std::nullopt;
  }
  std::string_view digits = text();
  const bool negative = digits.substr(0, 1) == "-";
  if (negative || digits.substr(0, 1) == "+") digits.remove_prefix(1);
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

size_t Node::size() const {
  return document_->children_[document_->entries_[index_].children]
      .items.size();
}

Node Node::item(size_t index) const {
  const auto& items =
      document_->children_[document_->entries_[index_].children].items;
  SHARDPLAN_CHECK(index < items.size());
  return {document_, items[index]};
}

std::string_view Node::key(size_t index) const {
  return document_->children_[document_->entries_[index_].children]
      .keys[index]
      .text;
}

Span Node::key_span(size_t index) const {
  const auto& key =
      document_->children_[document_->entries_[index_].children].keys[index];
  return document_->span(key.begin, key.end);
}

std::optional<Node> Node::find(std::string_view key) const {
  const auto& keys =
      document_->children_[document_->entries_[index_].children].keys;
  const auto found = std::ranges::find_if(
      keys, [&](const auto& each) { return each.text == key; });
  if (found == keys.end()) return std::nullopt;
  return item(static_cast<size_t>(found - keys.begin()));
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
    return report(json_is_nearer ? *not_json : *not_yaml, diags);
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
  std::string all;
  for (const std::string& name : known) {
    all += (all.empty() ? "`" : ", `") + name + "`";
  }
  auto problem =
      diags.error(Code::UnknownKey, where, "unknown key " + in_backticks(key));
  problem.fact("known keys: " + all);
  if (const auto near = nearest(key, known)) {
    problem.help("did you mean `" + *near + "`?");
  }
}

std::string_view kind_name(NodeKind kind) {
  switch (kind) {
    case NodeKind::Null:
      return "null";
    case NodeKind::Bool:
      return "true or false";
    case NodeKind::Integer:
      return "an integer";
    case NodeKind::Real:
      return "a number";
    case NodeKind::String:
      return "a string";
    case NodeKind::List:
      return "a list";
    case NodeKind::Map:
      break;
  }
  return "a map";
}

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
      .keys.push_back({stored_text(text, where),
                       static_cast<uint32_t>(where.begin),
                       static_cast<uint32_t>(where.end)});
}

bool DocumentBuilder::wants_key() const {
  if (open_.empty()) return false;
  const Document::Children& inside = children(open_.back());
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

uint32_t DocumentBuilder::add(NodeKind kind, std::string_view text,
                              Span where) {
  const auto node = static_cast<uint32_t>(document_.entries_.size());
  Document::Entry entry;
  entry.kind = kind;
  entry.text = stored_text(text, where);
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
             "key " + in_backticks(key) + " is given twice")
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
