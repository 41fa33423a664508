// SPDX-License-Identifier: Apache-2.0

#include "syntax/python.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "syntax/tokens.h"

namespace shardplan {
namespace {

// Longest first.
constexpr std::array<std::string_view, 22> kOperators = {
    "**=", "//=", ">>=", "<<=", "...", "->", ":=", "==", "!=", "<=", ">=",
    "+=",  "-=",  "*=",  "/=",  "%=",  "|=", "&=", "**", "//", "<<", ">>"};

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
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
      add(PythonTokenKind::Number,
          std::string(text_.substr(begin_, at_ - begin_)));
    } else {
      const std::string_view rest = text_.substr(at_);
      const auto* const found = std::find_if(
          kOperators.begin(), kOperators.end(),
          [&](std::string_view op) { return rest.starts_with(op); });
      at_ += found == kOperators.end() ? 1 : found->size();
      add(PythonTokenKind::Operator,
          std::string(text_.substr(begin_, at_ - begin_)));
    }
  }

  // A name, or the prefix of a string.
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
      add(PythonTokenKind::Name, std::string(word));
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
    for (;;) {
      if (at_ >= text_.size() || (!triple && peek() == '\n')) {
        add(PythonTokenKind::Bad, "a string that does not end");
        return;
      }
      if (peek() == quote &&
          (!triple || (peek(1) == quote && peek(2) == quote))) {
        at_ += marks;
        break;
      }
      if (peek() == '\r' && peek(1) == '\n') {
        ++at_;  // a line end is "\n", as Python reads files
      } else if (peek() != '\\') {
        value += text_[at_++];
      } else if (has("rR")) {
        value += text_[at_++];
        if (at_ < text_.size()) value += text_[at_++];
      } else if (!escape(value)) {
        add(PythonTokenKind::Bad, "an escape that is none");
        return;
      }
    }
    add(has("bBfF") ? PythonTokenKind::Formatted : PythonTokenKind::String,
        std::move(value));
  }

  // Digits of a base, exactly `count` of them.
  std::optional<uint32_t> digits(size_t count) {
    uint32_t value = 0;
    for (size_t i = 0; i < count; ++i) {
      const char c = peek();
      uint32_t digit = 16;
      if (is_digit(c)) digit = static_cast<uint32_t>(c - '0');
      if (c >= 'a' && c <= 'f') digit = static_cast<uint32_t>(c - 'a') + 10;
      if (c >= 'A' && c <= 'F') digit = static_cast<uint32_t>(c - 'A') + 10;
      if (digit > 15) return std::nullopt;
      value = value * 16 + digit;
      ++at_;
    }
    return value;
  }

  bool code_point(std::string& value, size_t count) {
    const auto code = digits(count);
    if (!code || *code > 0x10FFFF || (*code >= 0xD800 && *code < 0xE000)) {
      return false;
    }
    append_utf8(value, *code);
    return true;
  }

  // At a backslash; unknown escapes keep it, as in Python.
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
    if (c == 'N') return false;
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
  std::vector<PythonToken> tokens_;
};

}  // namespace

std::vector<PythonToken> python_tokens(const SourceFile& source) {
  return Tokenizer(source).run();
}

namespace {

bool is_plain_text(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    if (!is_printable(decode_utf8(text, at))) return false;
  }
  return true;
}

// A raw string keeps its backslashes, so it cannot hold its own quote, nor end
// with an odd number of backslashes.
bool fits_raw(std::string_view text) {
  const size_t last = text.find_last_not_of('\\');
  const size_t trailing =
      text.size() - (last == std::string_view::npos ? 0 : last + 1);
  return text.find('"') == std::string_view::npos && trailing % 2 == 0 &&
         is_plain_text(text);
}

std::string escaped(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t code = decode_utf8(text, at);
    if (code == U'\n' || code == U'\t') {
      out += code == U'\n' ? "\\n" : "\\t";
      continue;
    }
    const std::string escape = text_escape(code);
    out += escape.empty() ? text.substr(begin, at - begin) : escape;
  }
  return out;
}

}  // namespace

std::string python_string(std::string_view text) {
  if (text.find('\\') != std::string_view::npos && fits_raw(text)) {
    return "r\"" + std::string(text) + "\"";
  }
  return "\"" + escaped(text) + "\"";
}

std::string python_names(const AxisNames& names) {
  std::string text = "(";
  for (const AxisName& name : names) {
    if (text.size() > 1) text += ", ";
    text += python_string(name);
  }
  return text + (names.size() == 1 ? ",)" : ")");
}

std::string python_axes(const AxisNames& axes) {
  if (axes.empty()) return "None";
  if (axes.size() == 1) return python_string(axes.front());
  return python_names(axes);
}

std::string python_spec(const PartitionSpec& spec) {
  std::string text = "PartitionSpec(";
  for (size_t i = 0; i < spec.dims.size(); ++i) {
    if (i > 0) text += ", ";
    text += python_axes(spec.dims[i]);
  }
  return text + ")";
}

namespace {

constexpr int kMaxDepth = 64;

class Parser {
 public:
  Parser(std::span<const PythonToken> tokens, size_t at, Diagnostics& diags)
      : tokens_(tokens), at_(at), diags_(diags) {}

  std::optional<PythonValue> value(int depth) {
    if (depth > kMaxDepth) {
      return refuse(here().where, "this is nested deeper than 64 levels",
                    "a table of rules is nested three or four levels deep");
    }
    std::optional<PythonValue> result = operand(depth);
    // What stands behind the whole is the caller's business.
    if (!result || depth == 0 || ends_value()) return result;
    return refuse_operator();
  }
  size_t at() const { return at_; }

 private:
  const PythonToken& here() const {
    return tokens_[std::min(at_, tokens_.size() - 1)];
  }

  std::optional<PythonValue> refuse(Span where, std::string message,
                                    std::string help) {
    return diags_.error(Code::MalformedDocument, where, std::move(message))
        .help(std::move(help));
  }

  // What may follow a value.
  bool ends_value() const {
    static constexpr std::array<std::string_view, 4> kEnds = {",", ")", "]",
                                                              ":"};
    if (here().kind == PythonTokenKind::End) return true;
    return std::any_of(kEnds.begin(), kEnds.end(),
                       [&](std::string_view end) { return here().is(end); }) ||
           here().starts_line;
  }

  std::optional<PythonValue> refuse_operator() {
    if (here().is("if")) {
      return refuse(here().where, "a condition chooses this value",
                    "write the one value that is meant");
    }
    if (here().is("for")) {
      return refuse(here().where, "a loop makes these values",
                    "write them out, one after the other");
    }
    if (here().kind == PythonTokenKind::Bad) return refuse_bad();
    return refuse(here().where,
                  in_backticks(here().text) +
                      " makes this an expression, which is not evaluated",
                  "write its value");
  }

  std::optional<PythonValue> refuse_bad() {
    return refuse(here().where, "here is " + here().text,
                  "only plain and raw strings are read");
  }

  std::optional<PythonValue> refuse_end() {
    return refuse(here().where, "the table does not end",
                  "a bracket is missing");
  }

  std::optional<PythonValue> operand(int depth) {
    switch (here().kind) {
      case PythonTokenKind::String:
        return string(depth);
      case PythonTokenKind::Formatted:
        return refuse(here().where, "this string is computed or of bytes",
                      "write the text itself, without the prefix");
      case PythonTokenKind::Number: {
        PythonValue number{
            PythonKind::Number, here().text, {}, here().where, ""};
        ++at_;
        return number;
      }
      case PythonTokenKind::Name:
        return name(depth);
      case PythonTokenKind::Bad:
        return refuse_bad();
      case PythonTokenKind::End:
        return refuse_end();
      case PythonTokenKind::Operator:
        break;
    }
    if (here().is("(") || here().is("[")) return bracketed(depth);
    if (here().is("*")) {
      return refuse(here().where, "another table is put in here",
                    "write its rules out");
    }
    return refuse(
        here().where, in_backticks(here().text) + " begins no literal",
        "strings, None, tuples, lists and PartitionSpec(..) are read");
  }

  // Adjacent strings are one.
  std::optional<PythonValue> string(int depth) {
    PythonValue value{PythonKind::String, "", {}, here().where, ""};
    while (here().kind == PythonTokenKind::String) {
      value.text += here().text;
      value.where.end = here().where.end;
      ++at_;
    }
    if (here().kind == PythonTokenKind::Formatted) {
      return refuse(here().where, "this string is computed or of bytes",
                    "write the text itself, without the prefix");
    }
    return is_join() ? joined(std::move(value), depth) : value;
  }

  bool is_join() const {
    return here().is(".") && at_ + 2 < tokens_.size() &&
           tokens_[at_ + 1].is("join") && tokens_[at_ + 2].is("(");
  }

  // `"".join((a, b))`, where all are strings.
  std::optional<PythonValue> joined(PythonValue separator, int depth) {
    at_ += 2;
    const auto arguments = items(depth, false);
    if (!arguments) return std::nullopt;
    const bool is_list = arguments->items.size() == 1 &&
                         (arguments->items[0].kind == PythonKind::Tuple ||
                          arguments->items[0].kind == PythonKind::List);
    PythonValue value{PythonKind::String, "", {}, separator.where, ""};
    value.where.end = arguments->where.end;
    if (is_list) {
      for (const PythonValue& part : arguments->items[0].items) {
        if (part.kind != PythonKind::String) {
          return refuse(part.where, "this part is not a string",
                        "write the whole text");
        }
        if (&part != &arguments->items[0].items.front()) {
          value.text += separator.text;
        }
        value.text += part.text;
      }
      return value;
    }
    return refuse(arguments->where, "the parts are not written out here",
                  "write the whole text");
  }

  // What Python's re.escape does since 3.7.
  static std::string escaped(std::string_view text) {
    std::string result;
    for (const char c : text) {
      constexpr std::string_view kSpecial = "()[]{}?*+-|^$\\.&~# \t\n\r\v\f";
      if (kSpecial.find(c) != std::string_view::npos) result += '\\';
      result += c;
    }
    return result;
  }

  std::optional<PythonValue> name(int depth) {
    PythonValue value{PythonKind::Name, here().text, {}, here().where, ""};
    ++at_;
    while (here().is(".") && at_ + 1 < tokens_.size() &&
           tokens_[at_ + 1].kind == PythonTokenKind::Name) {
      value.text += "." + tokens_[at_ + 1].text;
      value.where.end = tokens_[at_ + 1].where.end;
      at_ += 2;
    }
    if (value.text == "None") value.kind = PythonKind::None;
    if (value.text == "lambda" || value.text == "not" ||
        value.text == "await") {
      return refuse(value.where,
                    "`" + value.text + "` makes this an expression",
                    "write its value");
    }
    if (!here().is("(")) return value;
    value.kind = PythonKind::Call;
    const auto arguments = items(depth, true);
    if (!arguments) return std::nullopt;
    value.items = arguments->items;
    value.where.end = arguments->where.end;
    const bool is_escape = value.text == "re.escape" &&
                           value.items.size() == 1 &&
                           value.items[0].kind == PythonKind::String;
    if (is_escape) {
      return PythonValue{PythonKind::String,
                         escaped(value.items[0].text),
                         {},
                         value.where,
                         ""};
    }
    return value;
  }

  // (a), (a, b), (a,), [a, b].
  std::optional<PythonValue> bracketed(int depth) {
    const bool is_list = here().is("[");
    auto inside = items(depth, false);
    if (!inside) return std::nullopt;
    inside->kind = is_list ? PythonKind::List : PythonKind::Tuple;
    const bool grouping =
        !is_list && inside->items.size() == 1 && !ends_with_comma_;
    if (!grouping) return inside;
    PythonValue only = std::move(inside->items.front());
    only.where = inside->where;
    return only;
  }

  // Values between a bracket and the one that closes it.
  std::optional<PythonValue> items(int depth, bool is_call) {
    PythonValue result;
    result.where = here().where;
    const std::string_view close = here().is("[") ? "]" : ")";
    ++at_;
    bool comma = false;
    while (!here().is(close)) {
      std::string keyword;
      if (is_call && at_ + 1 < tokens_.size() &&
          here().kind == PythonTokenKind::Name && tokens_[at_ + 1].is("=")) {
        keyword = here().text;
        at_ += 2;
      }
      auto item = value(depth + 1);
      if (!item) return std::nullopt;
      item->keyword = std::move(keyword);
      result.items.push_back(*std::move(item));
      comma = here().is(",");
      if (comma) {
        ++at_;
      } else if (here().kind == PythonTokenKind::End) {
        return refuse_end();
      } else if (!here().is(close)) {
        return refuse(
            here().where,
            "a comma or `" + std::string(close) + "` is missing before this",
            "items are separated by commas");
      }
    }
    result.where.end = here().where.end;
    ++at_;
    ends_with_comma_ = comma;
    return result;
  }

  std::span<const PythonToken> tokens_;
  size_t at_;
  Diagnostics& diags_;
  bool ends_with_comma_ = false;
};

}  // namespace

std::optional<PythonValue> parse_python_value(
    std::span<const PythonToken> tokens, size_t& at, Diagnostics& diags) {
  Parser parser(tokens, at, diags);
  std::optional<PythonValue> value = parser.value(0);
  at = parser.at();
  return value;
}

namespace {

using Tokens = std::span<const PythonToken>;

bool opens(const PythonToken& token) {
  return token.is("(") || token.is("[") || token.is("{");
}
bool closes(const PythonToken& token) {
  return token.is(")") || token.is("]") || token.is("}");
}

// Behind the adjacent strings that begin at `at`.
size_t past_strings(Tokens tokens, size_t at) {
  while (at < tokens.size() && tokens[at].kind == PythonTokenKind::String) ++at;
  return at;
}

bool begins_dict(Tokens tokens, size_t at) {
  if (!tokens[at].is("{") || at + 1 >= tokens.size()) return false;
  if (tokens[at + 1].is("}")) return at > 0 && tokens[at - 1].is("=");
  const size_t colon = past_strings(tokens, at + 1);
  return colon > at + 1 && colon < tokens.size() && tokens[colon].is(":");
}

// `a.b: T = {` gives "a.b".
std::string assigned_name(Tokens tokens, size_t brace) {
  if (brace == 0 || !tokens[brace - 1].is("=")) return "";
  size_t first = brace - 1;
  while (first > 0 && !tokens[first].starts_line) --first;
  std::string name;
  for (size_t i = first; i + 1 < brace && !tokens[i].is(":"); ++i) {
    name += tokens[i].text;
  }
  return name;
}

// The end of a value: a comma or a closing bracket that is not its own.
size_t past_value(Tokens tokens, size_t at) {
  int depth = 0;
  for (; at < tokens.size(); ++at) {
    if (tokens[at].kind == PythonTokenKind::End) break;
    if (depth == 0 && (tokens[at].is(",") || closes(tokens[at]))) break;
    if (opens(tokens[at])) ++depth;
    if (closes(tokens[at])) --depth;
  }
  return at;
}

size_t read_entries(Tokens tokens, size_t at, PythonDict& dict) {
  while (at < tokens.size() && tokens[at].kind != PythonTokenKind::End) {
    if (tokens[at].is("}")) return at + 1;
    const size_t colon = past_strings(tokens, at);
    if (colon == at || colon >= tokens.size() || !tokens[colon].is(":")) {
      if (!dict.problem) dict.problem = tokens[at].where;
    } else {
      PythonEntry entry;
      for (size_t i = at; i < colon; ++i) entry.key += tokens[i].text;
      entry.where = tokens[at].where;
      entry.where.end = tokens[colon - 1].where.end;
      entry.begin = colon + 1;
      entry.end = past_value(tokens, colon + 1);
      dict.entries.push_back(std::move(entry));
    }
    at = past_value(tokens, at);
    if (at < tokens.size() && tokens[at].is(",")) {
      ++at;
    } else if (at < tokens.size() && closes(tokens[at]) &&
               !tokens[at].is("}")) {
      if (!dict.problem) dict.problem = tokens[at].where;
      ++at;
    }
  }
  if (!dict.problem && !tokens.empty()) dict.problem = tokens.back().where;
  return at;
}

}  // namespace

std::vector<PythonDict> python_dicts(Tokens tokens) {
  std::vector<PythonDict> dicts;
  for (size_t i = 0; i < tokens.size();) {
    if (!begins_dict(tokens, i)) {
      ++i;
      continue;
    }
    PythonDict dict{assigned_name(tokens, i), tokens[i].where, {}};
    i = read_entries(tokens, i + 1, dict);
    dicts.push_back(std::move(dict));
  }
  return dicts;
}

}  // namespace shardplan
