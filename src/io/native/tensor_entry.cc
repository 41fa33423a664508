// SPDX-License-Identifier: Apache-2.0
#include "io/native/tensor_entry.h"

#include <algorithm>
#include <tuple>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"

namespace shardplan {
namespace {

using Token = JsonScanner::Token;

// Within a part, 0 is written as 1 1 and 1 as 1 2, so that the 0 at the end of
// a part sorts before anything that may follow.
constexpr char kEnd = '\0';
constexpr char kEscape = '\1';
constexpr char kKey = 'k';
constexpr char kIndex = 'i';
constexpr size_t kIndexDigits = 10;

// `name` comes last, because only list entries have it.
const std::array<std::string, 5>& attribute_names() {
  static const std::array<std::string, 5> kNames = {"shape", "dtype", "axes",
                                                    "buffer", "name"};
  return kNames;
}

bool suits(Attribute attribute, Token token) {
  switch (attribute) {
    case Attribute::Sizes:
      return token == Token::BeginArray;
    case Attribute::Axes:
      return token == Token::BeginArray || token == Token::Null;
    case Attribute::Buffer:
      return token == Token::True || token == Token::False;
    default:
      return token == Token::String;
  }
}

// Names the kind of a value from its first token: "a map", "a string", ..
std::string_view token_kind(Token token) {
  switch (token) {
    case Token::BeginObject:
      return kind_name(NodeKind::Map);
    case Token::BeginArray:
      return kind_name(NodeKind::List);
    case Token::String:
      return kind_name(NodeKind::String);
    case Token::Number:
      return kind_name(NodeKind::Real);
    case Token::True:
    case Token::False:
      return kind_name(NodeKind::Bool);
    default:
      return kind_name(NodeKind::Null);
  }
}

std::string bad_dimension(Token token, std::string_view text) {
  if (token != Token::Number) {
    return "a dimension must be an integer, not " +
           std::string(token_kind(token));
  }
  if (text.front() == '-') return "a dimension is negative";
  return text.find_first_not_of("0123456789") == std::string_view::npos
             ? "a dimension does not fit in 63 bits"
             : "a dimension is not a whole number";
}

}  // namespace

Attribute attribute_of(std::string_view key) {
  const auto& names = attribute_names();
  const auto found = std::ranges::find(names, key);
  return static_cast<Attribute>(found - names.begin());
}

const std::string& attribute_name(Attribute attribute) {
  return nth(attribute_names(), attribute);
}

bool TensorEntry::has_any() const {
  return std::ranges::any_of(
      where, [](const Span& span) { return span.file != nullptr; });
}

bool AttributeReader::next_item() {
  if (errors_.stopped()) return false;
  const Token token = tokens_.next();
  return token != Token::EndArray && token != Token::Error;
}

bool AttributeReader::read(Attribute attribute, Span key, TensorEntry& entry) {
  if (!suits(attribute, tokens_.token())) return false;
  if (entry.has(attribute)) {
    entry.broken = true;
    errors_
        .error(Code::DuplicateKey, key,
               "key `" + attribute_name(attribute) + "` is given twice")
        .label(entry.at(attribute), "first given here");
    tokens_.skip_value();
    return true;
  }
  seen_any_ = true;
  nth(entry.where, attribute) = key;
  if (attribute == Attribute::Sizes) read_shape(entry);
  if (attribute == Attribute::Type) read_dtype(entry);
  if (attribute == Attribute::Axes) read_axes(entry);
  if (attribute == Attribute::Buffer) {
    entry.buffer = tokens_.token() == Token::True;
  }
  if (attribute == Attribute::Name) {
    entry.name = tokens_.text();
    entry.name_where = tokens_.span();
  }
  return true;
}

void AttributeReader::read_shape(TensorEntry& entry) {
  shape_.clear();
  while (next_item()) {
    const std::optional<int64_t> size = tokens_.integer();
    if (size && *size >= 0) {
      shape_.push_back(*size);
      continue;
    }
    entry.broken = true;
    errors_.malformed(tokens_.span(),
                      bad_dimension(tokens_.token(), tokens_.text()));
    tokens_.skip_value();
  }
}

void AttributeReader::read_dtype(TensorEntry& entry) {
  if (tokens_.text() != last_dtype_text_) {
    last_dtype_text_ = tokens_.text();
    last_dtype_ = find_dtype(last_dtype_text_);
  }
  entry.dtype = last_dtype_;
  if (last_dtype_) return;
  entry.broken = true;
  auto problem =
      errors_.error(Code::UnknownDtype, tokens_.span(),
                    in_backticks(last_dtype_text_) + " is not a dtype");
  const std::string near = nearest_dtype(last_dtype_text_);
  if (!near.empty()) problem.help("did you mean `" + near + "`?");
}

void AttributeReader::read_axes(TensorEntry& entry) {
  if (tokens_.token() == Token::Null) {
    nth(entry.where, Attribute::Axes) = {};
    return;
  }
  while (next_item()) {
    if (tokens_.token() == Token::String) {
      entry.axes.emplace_back(std::string(tokens_.text()));
    } else if (tokens_.token() == Token::Null) {
      entry.axes.emplace_back(std::nullopt);
    } else {
      entry.broken = true;
      errors_.malformed(tokens_.span(),
                        "an entry of `axes` must be a name or null, not " +
                            std::string(token_kind(tokens_.token())));
      tokens_.skip_value();
    }
  }
}

void AttributeReader::report(const Member& member) {
  static constexpr std::array<std::string_view, 4> kKinds = {
      "a list", "a string", "a list", "true or false"};
  const Attribute attribute = attribute_of(member.key);
  if (attribute < Attribute::Name) {
    report_kind(member.key, nth(kKinds, attribute), member.where, member.token);
  } else {
    errors_.unknown_key(member.key, member.key_where,
                        std::span(attribute_names()).first(kKinds.size()));
  }
}

void AttributeReader::report_kind(std::string_view what,
                                  std::string_view expected, Span where,
                                  Token token) {
  errors_.malformed(where, in_backticks(what) + " must be " +
                               std::string(expected) + ", not " +
                               std::string(token_kind(token)));
}

bool AttributeReader::axes_fit(const TensorEntry& entry,
                               const std::string& name) {
  if (!entry.has(Attribute::Axes) || entry.axes.size() == shape_.size()) {
    return true;
  }
  errors_.malformed(entry.at(Attribute::Axes),
                    "`axes` of " + in_backticks(name) + " names " +
                        plural(std::ssize(entry.axes), "dimension") +
                        ", but the shape has " + std::to_string(shape_.size()));
  return false;
}

void append_key(std::string& path, std::string_view key) {
  path += kKey;
  if (!contains(key, kEnd) && !contains(key, kEscape)) {
    path += key;
    path += kEnd;
    return;
  }
  for (const char c : key) {
    if (c == kEnd || c == kEscape) path += kEscape;
    path += c == kEnd ? '\1' : c == kEscape ? '\2' : c;
  }
  path += kEnd;
}

void append_index(std::string& path, size_t index) {
  const std::string digits = std::to_string(index);
  SHARDPLAN_CHECK(digits.size() <= kIndexDigits);
  path += kIndex;
  path.append(kIndexDigits - digits.size(), '0');
  path += digits;
  path += kEnd;
}

std::string path_name(std::string_view path) {
  std::string name;
  while (!path.empty()) {
    const size_t end = path.find(kEnd);
    std::string_view part = path.substr(1, end - 1);
    if (path.front() == kIndex) {
      part.remove_prefix(
          std::min(part.find_first_not_of('0'), part.size() - 1));
    }
    for (size_t i = 0; i < part.size(); ++i) {
      if (part[i] == kEscape) {
        name += part[++i] == '\1' ? kEnd : kEscape;
      } else {
        name += part[i];
      }
    }
    path.remove_prefix(end + 1);
    if (!path.empty()) name += '/';
  }
  return name;
}

bool sort_entries(std::vector<TreeEntry>& entries, Diagnostics& diags) {
  std::ranges::sort(entries, [](const TreeEntry& a, const TreeEntry& b) {
    return std::tie(a.path, a.where.begin) < std::tie(b.path, b.where.begin);
  });
  int duplicates = 0;
  for (size_t i = 1; i < entries.size() && duplicates < kMaxErrors; ++i) {
    const TreeEntry& first = entries[i - 1];
    const TreeEntry& second = entries[i];
    if (first.path != second.path) continue;
    ++duplicates;
    diags
        .error(Code::DuplicateKey, second.where,
               in_backticks(path_name(second.path)) + " is given twice")
        .label(first.where, "first given here");
  }
  return duplicates == 0;
}

Manifest reordered(const Manifest& manifest,
                   const std::vector<TreeEntry>& entries) {
  Manifest result;
  for (const TreeEntry& entry : entries) {
    bool fits = true;
    if (entry.kind == TreeEntry::Kind::Parameter) {
      if (const AxisLabels* axes = manifest.axes(entry.index)) {
        result.set_axes(result.size(), *axes);
      }
      fits = result.add(manifest.name(entry.index), manifest.type(entry.index),
                        manifest.where(entry.index));
    } else if (entry.kind == TreeEntry::Kind::Buffer) {
      const Manifest::Buffer& buffer = manifest.buffers()[entry.index];
      fits = result.add(buffer.name, buffer.type, buffer.where, true);
    }
    SHARDPLAN_CHECK(fits);
  }
  return result;
}

}  // namespace shardplan
