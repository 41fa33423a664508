// SPDX-License-Identifier: Apache-2.0
#include "syntax/mlir.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "base/words.h"

namespace shardplan {
namespace {

bool is_word(char c) {
  return is_letter(c) || is_digit(c) || c == '_' || c == '.' || c == '$';
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

MlirCursor::MlirCursor(const SourceFile& source, uint64_t begin, uint64_t end)
    : source_(&source), text_(source.text().substr(0, end)), at_(begin) {
  skip_blanks();
}

Span MlirCursor::span_from(uint64_t begin) const {
  uint64_t end = std::max(begin, std::min<uint64_t>(at_, text_.size()));
  while (end > begin + 1 && std::string_view(" \t\r\n").find(text_[end - 1]) !=
                                std::string_view::npos) {
    --end;
  }
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
    const char c = text_[at_];
    if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
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
  while (at_ < text_.size() && is_word(text_[at_])) ++at_;
  const std::string_view found = text_.substr(begin, at_ - begin);
  skip_blanks();
  return found;
}

std::optional<int64_t> MlirCursor::integer() {
  const uint64_t begin = at_;
  while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
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
    const int high = hex_digit(c);
    const int low = at_ + 1 < text_.size() ? hex_digit(text_[at_ + 1]) : -1;
    if (c == 'n' || c == 't') {
      value += c == 'n' ? '\n' : '\t';
    } else if (high >= 0 && low >= 0) {
      value += static_cast<char>(high * 16 + low);
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
  while (at_ < text_.size() && (is_word(text_[at_]) || text_[at_] == '-')) {
    ++at_;
  }
  std::string name(text_.substr(begin + 1, at_ - begin - 1));
  skip_blanks();
  return name;
}

bool MlirCursor::skip_string() {
  for (++at_; at_ < text_.size(); ++at_) {
    if (text_[at_] == '\\') {
      ++at_;
    } else if (text_[at_] == '"') {
      ++at_;
      skip_blanks();
      return true;
    }
  }
  at_ = text_.size();
  return false;
}

void MlirCursor::skip_one() {
  if (done()) return;
  if (peek() == '"') {
    skip_string();
    return;
  }
  ++at_;
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

namespace {

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

std::string_view mlir_type_name(DType dtype) {
  for (const MlirType& known : kMlirTypes) {
    if (known.dtype == dtype) return known.name;
  }
  return "";
}

std::optional<DType> find_mlir_type(std::string_view name) {
  for (const MlirType& known : kMlirTypes) {
    if (known.name == name) return known.dtype;
  }
  return std::nullopt;
}

}  // namespace shardplan
