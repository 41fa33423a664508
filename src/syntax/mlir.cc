// SPDX-License-Identifier: Apache-2.0
#include "syntax/mlir.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "base/words.h"
#include "syntax/utf8.h"

namespace shardplan {
namespace {

bool is_word(char c) {
  return is_letter(c) || is_digit(c) || c == '_' || c == '.' || c == '$';
}

struct MlirType {
  std::string_view name;
  DType dtype;
};
constexpr std::array<MlirType, 26> kMlirTypes = {{
    {"f64", DType::F64},
    {"f32", DType::F32},
    {"f16", DType::F16},
    {"bf16", DType::BF16},
    {"i64", DType::I64},
    {"i32", DType::I32},
    {"i16", DType::I16},
    {"i8", DType::I8},
    {"i4", DType::I4},
    {"ui64", DType::U64},
    {"ui32", DType::U32},
    {"ui16", DType::U16},
    {"ui8", DType::U8},
    {"ui4", DType::U4},
    {"i1", DType::Bool},
    {"complex<f32>", DType::C64},
    {"complex<f64>", DType::C128},
    {"f8E4M3", DType::F8E4M3},
    {"f8E5M2", DType::F8E5M2},
    {"f8E4M3FN", DType::F8E4M3FN},
    {"f8E8M0FNU", DType::F8E8M0},
    {"f6E2M3FN", DType::F6E2M3},
    {"f6E3M2FN", DType::F6E3M2},
    {"f4E2M1FN", DType::F4E2M1},
    {"f8E4M3FNUZ", DType::F8E4M3FNUZ},
    {"f8E5M2FNUZ", DType::F8E5M2FNUZ},
}};

}  // namespace

MlirCursor::MlirCursor(const SourceFile& source, uint64_t begin)
    : source_(&source), text_(source.text()), at_(begin) {
  skip_blanks();
}

Span MlirCursor::span_from(uint64_t begin) const {
  uint64_t end = std::max(begin, std::min<uint64_t>(at_, text_.size()));
  while (end > begin + 1 && is_blank(text_[end - 1])) --end;
  return {source_, begin, end};
}

Span MlirCursor::here() const {
  uint64_t end = at_;
  while (end < text_.size() && is_word(text_[end])) ++end;
  const uint64_t most = std::min<uint64_t>(at_ + 1, text_.size());
  return {source_, std::min<uint64_t>(at_, text_.size()), std::max(end, most)};
}

void MlirCursor::skip_blanks() {
  while (at_ < text_.size()) {
    if (is_blank(text_[at_])) {
      ++at_;
    } else if (text_.substr(at_, 2) == "//") {
      at_ = std::min<uint64_t>(text_.find('\n', at_), text_.size());
    } else {
      return;
    }
  }
}

bool MlirCursor::accept(std::string_view text) {
  if (text_.substr(std::min<uint64_t>(at_, text_.size()), text.size()) !=
      text) {
    return false;
  }
  const uint64_t end = at_ + text.size();
  if (is_word(text.back()) && end < text_.size() && is_word(text_[end])) {
    return false;
  }
  at_ = end;
  skip_blanks();
  return true;
}

std::string_view MlirCursor::word() {
  const uint64_t begin = at_;
  while (is_word(peek())) ++at_;
  const std::string_view found = text_.substr(begin, at_ - begin);
  skip_blanks();
  return found;
}

std::optional<int64_t> MlirCursor::integer() {
  const uint64_t begin = at_;
  while (is_digit(peek())) ++at_;
  const auto value = parse_integer(text_.substr(begin, at_ - begin));
  if (!value) {
    at_ = begin;
    return std::nullopt;
  }
  skip_blanks();
  return value;
}

std::optional<std::string> MlirCursor::string() {
  if (peek() != '"') return std::nullopt;
  const uint64_t begin = at_;
  std::string value;
  for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
    if (text_[at_] == '\n') break;
    if (text_[at_] != '\\' || at_ + 1 >= text_.size()) {
      value += text_[at_];
      continue;
    }
    const char c = text_[++at_];
    if (c == 'n' || c == 't') {
      value += c == 'n' ? '\n' : '\t';
    } else if (const auto byte = leading_hex(text_.substr(at_), 2)) {
      value += static_cast<char>(*byte);
      ++at_;
    } else {
      value += c;
    }
  }
  if (peek() != '"') {
    at_ = begin;
    return std::nullopt;
  }
  ++at_;
  skip_blanks();
  return value;
}

std::optional<std::string> MlirCursor::symbol() {
  if (peek() != '@') return std::nullopt;
  const uint64_t begin = at_++;
  if (peek() == '"') {
    auto quoted = string();
    if (!quoted) at_ = begin;
    return quoted;
  }
  while (is_word(peek()) || peek() == '-') ++at_;
  std::string name(text_.substr(begin + 1, at_ - begin - 1));
  skip_blanks();
  return name;
}

void MlirCursor::skip_one() {
  if (peek() == '"') {
    for (++at_; !done() && peek() != '"'; ++at_) {
      if (peek() == '\\') ++at_;
    }
  }
  at_ = std::min<uint64_t>(at_ + 1, text_.size());
  skip_blanks();
}

bool MlirCursor::skip_to(std::string_view ends) {
  int64_t depth = 0;
  while (!done()) {
    const char c = peek();
    if (depth == 0 && contains(ends, c)) return true;
    if (text_.substr(at_, 2) == "->") {
      at_ += 2;
      skip_blanks();
      continue;
    }
    if (c == '(' || c == '[' || c == '{' || c == '<') ++depth;
    if (c == ')' || c == ']' || c == '}' || c == '>') --depth;
    if (depth < 0) return false;
    skip_one();
  }
  return false;
}

std::string_view mlir_type_name(DType dtype) {
  const auto* const known =
      std::ranges::find(kMlirTypes, dtype, &MlirType::dtype);
  return known == kMlirTypes.end() ? "" : known->name;
}

std::optional<DType> find_mlir_type(std::string_view name) {
  const MlirType* const known = find_named(kMlirTypes, name);
  return known == nullptr ? std::nullopt : std::optional(known->dtype);
}

}  // namespace shardplan
