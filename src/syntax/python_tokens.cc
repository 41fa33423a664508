// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "syntax/python.h"
#include "syntax/utf8.h"

namespace shardplan {
namespace {

// Longer operators come first.
constexpr std::array<std::string_view, 22> kOperators = {
    "**=", "//=", ">>=", "<<=", "...", "->", ":=", "==", "!=", "<=", ">=",
    "+=",  "-=",  "*=",  "/=",  "%=",  "|=", "&=", "**", "//", "<<", ">>"};

bool is_name_start(char c) {
  return is_letter(c) || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}
bool is_name_part(char c) { return is_name_start(c) || is_digit(c); }

class Tokenizer {
 public:
  explicit Tokenizer(const SourceFile& source)
      : source_(source), text_(source.text()) {}

  std::vector<PythonToken> run() {
    for (;;) {
      skip_blanks();
      if (at_ >= text_.size()) break;
      begin_ = at_;
      next();
      starts_line_ = false;
      if (tokens_.back().kind == PythonTokenKind::Bad) break;
    }
    begin_ = at_ = text_.size();
    add(PythonTokenKind::End, "");
    return std::move(tokens_);
  }

 private:
  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  void add(PythonTokenKind kind, std::string text) {
    tokens_.push_back(
        {kind, std::move(text), {&source_, begin_, at_}, starts_line_});
  }

  void add_spelled(PythonTokenKind kind) {
    add(kind, std::string(text_.substr(begin_, at_ - begin_)));
  }

  void skip_blanks() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        starts_line_ = true;
        ++at_;
      } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f') {
        ++at_;
      } else if (c == '\\' && peek(1) == '\n') {
        at_ += 2;
      } else if (c == '\\' && peek(1) == '\r' && peek(2) == '\n') {
        at_ += 3;
      } else if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else {
        return;
      }
    }
  }

  void next() {
    const char c = peek();
    if (c == '"' || c == '\'') {
      string("");
    } else if (is_name_start(c)) {
      name();
    } else if (is_digit(c) || (c == '.' && is_digit(peek(1)))) {
      while (is_name_part(peek()) || peek() == '.') ++at_;
      add_spelled(PythonTokenKind::Number);
    } else {
      const std::string_view rest = text_.substr(at_);
      const auto* const found = std::ranges::find_if(
          kOperators,
          [&](std::string_view op) { return rest.starts_with(op); });
      at_ += found == kOperators.end() ? 1 : found->size();
      add_spelled(PythonTokenKind::Operator);
    }
  }

  // Reads a name, or the prefix of a string.
  void name() {
    while (is_name_part(peek())) ++at_;
    const std::string_view word = text_.substr(begin_, at_ - begin_);
    const bool quoted = peek() == '"' || peek() == '\'';
    const bool prefix =
        word.size() <= 2 &&
        word.find_first_not_of("rRbBuUfF") == std::string_view::npos;
    if (quoted && prefix) {
      string(word);
    } else {
      add_spelled(PythonTokenKind::Name);
    }
  }

  void string(std::string_view prefix) {
    const auto has = [&](std::string_view letters) {
      return prefix.find_first_of(letters) != std::string_view::npos;
    };
    const char quote = peek();
    const bool triple = peek(1) == quote && peek(2) == quote;
    const size_t marks = triple ? 3 : 1;
    at_ += marks;
    std::string value;
    names_character_ = false;
    for (;;) {
      if (at_ >= text_.size() || (!triple && peek() == '\n')) {
        add(PythonTokenKind::Bad, "an unterminated string");
        return;
      }
      if (peek() == quote &&
          (!triple || (peek(1) == quote && peek(2) == quote))) {
        at_ += marks;
        break;
      }
      if (peek() == '\r' && peek(1) == '\n') {
        ++at_;  // a line end becomes "\n", as in Python
      } else if (peek() != '\\') {
        value += text_[at_++];
      } else if (has("rR")) {
        value += text_[at_++];
        if (at_ < text_.size()) value += text_[at_++];
      } else if (!escape(value)) {
        add(PythonTokenKind::Bad, "an invalid escape sequence");
        return;
      }
    }
    add(has("bBfF") || names_character_ ? PythonTokenKind::Formatted
                                        : PythonTokenKind::String,
        std::move(value));
  }

  // Reads a code point of exactly `count` hexadecimal digits.
  bool code_point(std::string& value, size_t count) {
    const std::string_view digits = text_.substr(at_, count);
    at_ += std::min(digits.find_first_not_of("0123456789abcdefABCDEF"),
                    digits.size());
    const auto code = leading_hex(digits, count);
    if (!code || *code > 0x10FFFF || (*code >= 0xD800 && *code < 0xE000)) {
      return false;
    }
    append_utf8(value, *code);
    return true;
  }

  // Reads an escape. As in Python, an unknown escape keeps its backslash.
  bool escape(std::string& value) {
    const char c = peek(1);
    at_ = std::min(at_ + 2, text_.size());
    constexpr std::string_view kLetters = "abfnrtv\\'\"";
    constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\'\"";
    const size_t simple = kLetters.find(c);
    if (c == '\n') return true;
    if (c == '\r' && peek() == '\n') {
      ++at_;
      return true;
    }
    if (c != '\0' && simple != std::string_view::npos) {
      value += kMeanings[simple];
      return true;
    }
    if (c == 'x') return code_point(value, 2);
    if (c == 'u') return code_point(value, 4);
    if (c == 'U') return code_point(value, 8);
    if (c == 'N') {
      const size_t end = text_.find('}', at_);
      if (peek() != '{' || end == std::string_view::npos) return false;
      at_ = end + 1;
      names_character_ = true;
      return true;
    }
    if (c >= '0' && c <= '7') {
      uint32_t code = static_cast<uint32_t>(c - '0');
      for (int i = 0; i < 2 && peek() >= '0' && peek() <= '7'; ++i) {
        code = code * 8 + static_cast<uint32_t>(text_[at_++] - '0');
      }
      append_utf8(value, code);
      return true;
    }
    value += '\\';
    if (c != '\0') value += c;
    return true;
  }

  const SourceFile& source_;
  std::string_view text_;
  size_t at_ = 0;
  size_t begin_ = 0;
  bool starts_line_ = true;
  bool names_character_ = false;
  std::vector<PythonToken> tokens_;
};

}  // namespace

std::vector<PythonToken> python_tokens(const SourceFile& source) {
  return Tokenizer(source).run();
}

bool is_python_module(std::span<const PythonToken> tokens) {
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    const bool is_word =
        tokens[i].starts_line && tokens[i].is_one_of("class def import from");
    if (is_word && tokens[i + 1].kind == PythonTokenKind::Name &&
        !tokens[i + 1].starts_line) {
      return true;
    }
  }
  return false;
}

}  // namespace shardplan
