// SPDX-License-Identifier: Apache-2.0
// Manifests consist mostly of strings, so strings determine the speed: eight
// bytes at a time are tested for anything but plain ASCII, and a string without
// escapes is a view into the source.
#include "syntax/json.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/text.h"
#include "base/words.h"
#include "syntax/utf8.h"

namespace shardplan {
namespace {

static_assert(std::endian::native == std::endian::little,
              "first_special counts bytes from the low end");

constexpr uint64_t kOnes = 0x0101010101010101;
constexpr uint64_t kHighs = 0x8080808080808080;

// Returns whether a byte ends a run of plain text within a string: a quote, an
// escape, a control character or the start of a multi-byte code point.
constexpr bool is_special(char c) {
  return c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20 ||
         static_cast<unsigned char>(c) >= 0x80;
}

// Sets the high bit of each special byte. Borrows may also set the high bits of
// bytes above the lowest special one, but never below it.
uint64_t special_bytes(uint64_t word) {
  const uint64_t quote = word ^ (kOnes * '"');
  const uint64_t escape = word ^ (kOnes * '\\');
  const uint64_t below_space = word - kOnes * 0x20;
  return (((quote - kOnes) | (escape - kOnes) | below_space) | word) & kHighs;
}

// Returns the first special byte at or after `at`, or the text's size.
uint64_t first_special(std::string_view text, uint64_t at) {
  while (at + sizeof(uint64_t) <= text.size()) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + at, sizeof word);
    const uint64_t special = special_bytes(word);
    if (special != 0) {
      return at + static_cast<uint64_t>(std::countr_zero(special)) / 8;
    }
    at += sizeof word;
  }
  while (at < text.size() && !is_special(text[at])) ++at;
  return at;
}

// Returns how a message refers to an unexpected character.
std::string shown(std::string_view text, uint64_t at) {
  const size_t length = utf8_length(text, at);
  const auto byte = static_cast<unsigned char>(text[at]);
  if (length == 0) return "a byte that is not UTF-8";
  if (byte < 0x20 || byte == 0x7F) return "a control character";
  return in_backticks(text.substr(at, length));
}

std::string_view token_kind(JsonScanner::Token token) {
  using Token = JsonScanner::Token;
  switch (token) {
    case Token::BeginObject:
      return "a map";
    case Token::BeginArray:
      return "a list";
    case Token::String:
      return "a string";
    case Token::Number:
      return "a number";
    case Token::True:
    case Token::False:
      return "true or false";
    default:
      return "null";
  }
}

}  // namespace

JsonScanner::JsonScanner(const SourceFile& source, uint64_t begin, uint64_t end)
    : source_(&source), all_(source.text().substr(0, end)), at_(begin) {
  if (at_ > all_.size()) at_ = all_.size();
  if (all_.substr(at_, 3) == "\xEF\xBB\xBF") {
    fail("the text starts with a byte order mark, which JSON does not allow",
         at_, at_ + 3);
  }
}

JsonScanner::Token JsonScanner::next() {
  if (token_ == Token::Error) return token_;
  skip_blanks();
  begin_ = at_;
  switch (expect_) {
    case Expect::CommaOrEnd:
      return token_ = scan_after_value();
    case Expect::Nothing:
      return token_ = scan_after_document();
    case Expect::Key:
      return token_ = scan_key();
    case Expect::KeyOrEnd:
      return token_ = peek() == '}' ? close(Token::EndObject) : scan_key();
    case Expect::ItemOrEnd:
      return token_ = peek() == ']' ? close(Token::EndArray) : scan_value();
    case Expect::Value:
      break;
  }
  return token_ = scan_value();
}

std::optional<int64_t> JsonScanner::integer() const {
  if (token_ != Token::Number) return std::nullopt;
  constexpr size_t kAlwaysFits = 18;  // digits
  int64_t value = 0;
  if (text_.size() <= kAlwaysFits && text_.front() != '-') {
    for (const char c : text_) {
      if (!is_digit(c)) return std::nullopt;
      value = value * 10 + (c - '0');
    }
    return value;
  }
  return parse_integer(text_);
}

std::string_view JsonScanner::ahead() {
  if (token_ == Token::Error || expect_ != Expect::Value) return {};
  skip_blanks();
  return all_.substr(at_);
}

void JsonScanner::skip_known(size_t bytes) {
  begin_ = at_;
  at_ += bytes;
  token_ = finish_value(Token::EndObject);
}

bool JsonScanner::skip_value() {
  if (token_ == Token::BeginObject || token_ == Token::BeginArray) {
    const size_t outside = depth_ - 1;
    while (token_ != Token::Error && depth_ > outside) next();
  }
  return token_ != Token::Error;
}

Diagnostics::Builder JsonScanner::report(Diagnostics& diags) const {
  return diags.error(Code::MalformedDocument, error_span(), error_);
}

void JsonScanner::skip_blanks() {
  while (is_blank(peek())) ++at_;
}

JsonScanner::Token JsonScanner::scan_value() {
  if (at_ == all_.size()) return fail_unexpected("a value");
  switch (all_[at_]) {
    case '"':
      return scan_string() ? finish_value(Token::String) : Token::Error;
    case '{':
      return open(Token::BeginObject, Expect::KeyOrEnd);
    case '[':
      return open(Token::BeginArray, Expect::ItemOrEnd);
    case 't':
      return scan_literal("true", Token::True);
    case 'f':
      return scan_literal("false", Token::False);
    case 'n':
      return scan_literal("null", Token::Null);
    default:
      return scan_number();
  }
}

JsonScanner::Token JsonScanner::scan_key() {
  if (peek() != '"') return fail_unexpected("a key in double quotes");
  if (!scan_string()) return Token::Error;
  skip_blanks();
  if (peek() != ':') return fail_unexpected("`:` after the key");
  ++at_;
  expect_ = Expect::Value;
  return Token::Key;
}

JsonScanner::Token JsonScanner::scan_after_value() {
  const bool in_object = in_object_[depth_ - 1];
  const char c = peek();
  if (c == ',') {
    ++at_;
    skip_blanks();
    begin_ = at_;
    return in_object ? scan_key() : scan_value();
  }
  if (c == '}' && in_object) return close(Token::EndObject);
  if (c == ']' && !in_object) return close(Token::EndArray);
  return fail_unexpected(in_object ? "`,` or `}`" : "`,` or `]`");
}

JsonScanner::Token JsonScanner::scan_after_document() {
  if (at_ == all_.size()) {
    end_ = at_;
    return Token::End;
  }
  return fail("the document ends before " + shown(all_, at_), at_);
}

JsonScanner::Token JsonScanner::open(Token token, Expect expect) {
  if (depth_ == kMaxDepth) {
    return fail("values are nested deeper than " + std::to_string(kMaxDepth) +
                    " levels",
                at_);
  }
  in_object_[depth_++] = token == Token::BeginObject;
  expect_ = expect;
  end_ = ++at_;
  return token;
}

JsonScanner::Token JsonScanner::close(Token token) {
  --depth_;
  ++at_;
  return finish_value(token);
}

JsonScanner::Token JsonScanner::finish_value(Token token) {
  end_ = at_;
  expect_ = depth_ == 0 ? Expect::Nothing : Expect::CommaOrEnd;
  return token;
}

JsonScanner::Token JsonScanner::scan_literal(std::string_view word,
                                             Token token) {
  if (all_.substr(at_, word.size()) != word) return fail_unexpected("a value");
  at_ += word.size();
  return finish_value(token);
}

JsonScanner::Token JsonScanner::scan_number() {
  if (peek() == '-') {
    ++at_;
  } else if (!is_digit(peek())) {
    return fail_unexpected("a value");
  }
  const uint64_t first = at_;
  if (!scan_digits("in the number")) return Token::Error;
  if (all_[first] == '0' && at_ - first > 1) {
    return fail("a number has a leading zero", begin_, at_);
  }
  if (peek() == '.') {
    ++at_;
    if (!scan_digits("after the decimal point")) return Token::Error;
  }
  if (peek() == 'e' || peek() == 'E') {
    ++at_;
    if (peek() == '+' || peek() == '-') ++at_;
    if (!scan_digits("in the exponent")) return Token::Error;
  }
  text_ = all_.substr(begin_, at_ - begin_);
  return finish_value(Token::Number);
}

bool JsonScanner::scan_digits(std::string_view where) {
  const uint64_t first = at_;
  while (is_digit(peek())) ++at_;
  if (at_ > first) return true;
  fail_unexpected("a digit " + std::string(where));
  return false;
}

bool JsonScanner::scan_string() {
  uint64_t plain_from = ++at_;
  bool has_escapes = false;
  while (true) {
    at_ = first_special(all_, at_);
    if (at_ == all_.size()) return fail_in_string();
    const char c = all_[at_];
    if (c == '"') break;
    if (c == '\\') {
      if (!has_escapes) scratch_.clear();
      has_escapes = true;
      scratch_ += all_.substr(plain_from, at_ - plain_from);
      if (!scan_escape()) return false;
      plain_from = at_;
      continue;
    }
    const size_t length = utf8_length(all_, at_);
    if (length < 2) return fail_in_string();
    at_ += length;
  }
  text_ = all_.substr(plain_from, at_ - plain_from);
  if (has_escapes) {
    scratch_ += text_;
    text_ = scratch_;
  }
  end_ = ++at_;
  return true;
}

bool JsonScanner::scan_escape() {
  const uint64_t backslash = at_++;
  static constexpr std::string_view kLetters = "\"\\/bfnrt";
  static constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  if (peek() == 'u') {
    ++at_;
    return scan_unicode_escape();
  }
  const size_t which =
      at_ < all_.size() ? kLetters.find(all_[at_]) : std::string_view::npos;
  if (which == std::string_view::npos) {
    fail("`\\` does not start a valid JSON escape", backslash);
    return false;
  }
  scratch_ += kMeanings[which];
  ++at_;
  return true;
}

bool JsonScanner::scan_unicode_escape() {
  const uint64_t backslash = at_ - 2;
  const std::optional<uint32_t> unit = scan_hex4();
  if (!unit) return false;
  if (*unit < 0xD800 || *unit > 0xDFFF) {
    append_utf8(scratch_, *unit);
    return true;
  }
  if (*unit <= 0xDBFF && all_.substr(at_, 2) == "\\u") {
    at_ += 2;
    const std::optional<uint32_t> low = scan_hex4();
    if (!low) return false;
    if (*low >= 0xDC00 && *low <= 0xDFFF) {
      append_utf8(scratch_,
                  0x10000 + ((*unit - 0xD800) << 10U) + (*low - 0xDC00));
      return true;
    }
  }
  fail("an unpaired surrogate is not a character", backslash, backslash + 6);
  return false;
}

std::optional<uint32_t> JsonScanner::scan_hex4() {
  const std::optional<uint32_t> value = leading_hex(all_.substr(at_), 4);
  if (value) {
    at_ += 4;
  } else {
    fail("`\\u` needs four hexadecimal digits", at_ - 2, at_);
  }
  return value;
}

bool JsonScanner::fail_in_string() {
  if (at_ == all_.size()) {
    fail("a string is not closed", begin_);
  } else if (static_cast<unsigned char>(all_[at_]) < 0x20) {
    fail(all_[at_] == '\n' ? "a string is not closed on its line"
                           : "a control character in a string",
         all_[at_] == '\n' ? begin_ : at_);
  } else {
    fail("a string contains bytes that are not UTF-8", at_);
  }
  return false;
}

JsonScanner::Token JsonScanner::fail_unexpected(std::string_view expected) {
  return fail("expected " + std::string(expected) +
                  (at_ == all_.size() ? ", but the text ends"
                                      : ", not " + shown(all_, at_)),
              at_);
}

JsonScanner::Token JsonScanner::fail(std::string message, uint64_t begin,
                                     uint64_t end) {
  if (end == 0) {
    const bool inside = begin < all_.size();
    end = begin + (inside ? std::max<size_t>(1, utf8_length(all_, begin)) : 0);
  }
  error_ = std::move(message);
  error_begin_ = begin;
  error_end_ = end;
  text_ = {};
  return token_ = Token::Error;
}

bool JsonReader::advance() {
  return scanner_.next() != Token::Error ||
         malformed(scanner_.error_span(), scanner_.error());
}

bool JsonReader::malformed(Span where, std::string message) {
  diags_.error(Code::MalformedDocument, where, std::move(message));
  return false;
}

bool JsonReader::expect(Token token, std::string_view what,
                        std::string_view kind) {
  if (scanner_.token() == token) return true;
  return malformed(span(), std::string(what) + " must be " + std::string(kind) +
                               ", not " +
                               std::string(token_kind(scanner_.token())));
}

bool JsonReader::string(std::string_view what, std::string& value) {
  if (!expect(Token::String, what, "a string")) return false;
  value = text();
  return true;
}

bool JsonReader::integer(std::string_view what, int64_t& value) {
  if (!expect(Token::Number, what, "an integer")) return false;
  const std::optional<int64_t> read = scanner_.integer();
  if (!read) {
    constexpr size_t kMost = 30;  // a number may be as long as the file
    return malformed(span(), std::string(what) +
                                 " must be an integer below 2^63, not `" +
                                 std::string(text().substr(0, kMost)) +
                                 (text().size() > kMost ? "...`" : "`"));
  }
  value = *read;
  return true;
}

bool JsonReader::size(std::string_view what, int64_t& value) {
  if (!integer(what, value)) return false;
  if (value >= 0) return true;
  return malformed(span(), std::string(what) +
                               " must not be negative, but is " +
                               std::to_string(value));
}

bool JsonReader::boolean(std::string_view what, bool& value) {
  value = token() == Token::True;
  return value || expect(Token::False, what, "true or false");
}

bool JsonReader::skip() {
  return scanner_.skip_value() ||
         malformed(scanner_.error_span(), scanner_.error());
}

bool JsonReader::skip(Span& where) {
  where = span();
  if (!skip()) return false;
  where.end = span().end;
  return true;
}

}  // namespace shardplan
