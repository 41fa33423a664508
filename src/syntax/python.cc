// SPDX-License-Identifier: Apache-2.0

#include "syntax/python.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "base/words.h"
#include "syntax/utf8.h"

namespace shardplan {
namespace {

bool is_plain_text(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    if (!is_printable(decode_utf8(text, at))) return false;
  }
  return true;
}

// A raw string preserves backslashes, so it can neither contain its own quote
// nor end with an odd number of backslashes.
bool fits_raw(std::string_view text) {
  const size_t last = text.find_last_not_of('\\');
  const size_t trailing =
      text.size() - (last == std::string_view::npos ? 0 : last + 1);
  return !contains(text, '"') && trailing % 2 == 0 && is_plain_text(text) &&
         !contains(text, "##");
}

std::string escaped(std::string_view text) {
  const auto is_escaped = [](char c) {
    return c == '"' || c == '\\' || c == '#';
  };
  if (is_plain_ascii(text) && std::ranges::none_of(text, is_escaped)) {
    return std::string(text);
  }
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t code = decode_utf8(text, at);
    if (code == U'\n' || code == U'\t') {
      out += code == U'\n' ? "\\n" : "\\t";
      continue;
    }
    const std::string escape = text_escape_at(text, begin, code);
    out += escape.empty() ? text.substr(begin, at - begin) : escape;
  }
  return out;
}

}  // namespace

std::string python_string(std::string_view text) {
  if (contains(text, '\\') && fits_raw(text)) {
    return "r\"" + std::string(text) + "\"";
  }
  return python_quoted(text);
}

std::string python_quoted(std::string_view text) {
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
  Parser(std::span<const PythonToken> tokens, size_t at, PythonParts parts,
         Diagnostics& diags)
      : tokens_(tokens), at_(at), parts_(parts), diags_(diags) {}

  // With `is_whole` the tokens after the value are the caller's business.
  std::optional<PythonValue> value(int depth, bool is_whole = false) {
    if (depth > kMaxDepth) {
      return refuse(here().where, "this is nested deeper than 64 levels",
                    "a table of rules is nested three or four levels deep");
    }
    std::optional<PythonValue> result = operand(depth);
    if (result && parts_ == PythonParts::All && is_plus(is_whole)) {
      result = sum(*std::move(result), depth, is_whole);
    }
    if (result && parts_ == PythonParts::All && here().is("if") &&
        (!is_whole || !here().starts_line)) {
      result = choice(*std::move(result), depth, is_whole);
    }
    if (!result || is_whole || ends_value()) return result;
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

  bool is_plus(bool is_whole) const {
    return here().is("+") && (!is_whole || !here().starts_line);
  }

  // Reads `+ B + C` after A.
  std::optional<PythonValue> sum(PythonValue first, int depth, bool is_whole) {
    PythonValue result{PythonKind::Sum, "", {}, first.where, ""};
    result.condition_begin = result.condition_end = at_;
    result.items.push_back(std::move(first));
    while (is_plus(is_whole)) {
      ++at_;
      auto next = operand(depth + 1);
      if (!next) return std::nullopt;
      result.where.end = next->where.end;
      result.items.push_back(*std::move(next));
    }
    return result;
  }

  // Reads `if CONDITION else B` after A.
  std::optional<PythonValue> choice(PythonValue first, int depth,
                                    bool is_whole) {
    PythonValue result{PythonKind::Choice, "", {}, here().where, ""};
    ++at_;
    result.condition_begin = at_;
    int brackets = 0;
    while (brackets > 0 || !here().is("else")) {
      const bool opens = here().is("(") || here().is("[") || here().is("{");
      const bool closes = here().is(")") || here().is("]") || here().is("}");
      brackets += opens ? 1 : closes ? -1 : 0;
      if (brackets < 0 || here().kind == PythonTokenKind::End ||
          here().kind == PythonTokenKind::Bad) {
        return refuse(result.where, "this `if` has no `else`",
                      "write the intended value");
      }
      ++at_;
    }
    result.condition_end = at_;
    ++at_;
    auto second = value(depth + 1, is_whole);
    if (!second) return std::nullopt;
    result.where = first.where;
    result.where.end = second->where.end;
    result.items = {std::move(first), *std::move(second)};
    return result;
  }

  // Returns whether a new value seems to begin on a new line.
  bool begins_value() const {
    static constexpr std::array<std::string_view, 9> kWords = {
        "if", "else", "for", "and", "or", "in", "is", "not", "async"};
    const PythonToken& token = here();
    if (!token.starts_line) return false;
    if (token.kind == PythonTokenKind::Operator) {
      return token.is("(") || token.is("[");
    }
    return std::ranges::none_of(
        kWords, [&](std::string_view word) { return token.is(word); });
  }

  // Returns whether this token may follow a value.
  bool ends_value() const {
    static constexpr std::array<std::string_view, 4> kEnds = {",", ")", "]",
                                                              ":"};
    if (here().kind == PythonTokenKind::End) return true;
    return std::ranges::any_of(
               kEnds, [&](std::string_view end) { return here().is(end); }) ||
           (here().kind != PythonTokenKind::Bad && begins_value());
  }

  std::optional<PythonValue> refuse_operator() {
    if (here().is("if")) {
      return refuse(here().where, "this value is conditional",
                    "write the intended value");
    }
    if (here().is("for")) {
      return refuse(here().where, "a loop generates these values",
                    "write them out one by one");
    }
    if (here().kind == PythonTokenKind::Bad) return refuse_bad();
    return refuse(here().where,
                  "unsupported expression at " + in_backticks(here().text),
                  "write its value");
  }

  std::optional<PythonValue> refuse_computed() {
    if (contains(here().where.text(), "\\N{")) {
      return refuse(here().where,
                    "character names, `\\N{..}`, are not supported",
                    "write the character itself, or its `\\u` escape");
    }
    return refuse(here().where, "f-strings and bytes strings are not supported",
                  "write the text as a plain string");
  }

  std::optional<PythonValue> refuse_bad() {
    return refuse(here().where, "this is " + here().text,
                  "use plain or raw strings");
  }

  std::optional<PythonValue> refuse_end() {
    return refuse(here().where, "the table is not closed",
                  "add the missing bracket");
  }

  std::optional<PythonValue> operand(int depth) {
    switch (here().kind) {
      case PythonTokenKind::String:
        return string(depth);
      case PythonTokenKind::Formatted:
        return refuse_computed();
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
      return refuse(here().where, "another table is unpacked here",
                    "write its rules out");
    }
    return refuse(here().where,
                  in_backticks(here().text) + " does not start a literal",
                  "use strings, None, tuples, lists and PartitionSpec(..)");
  }

  // Joins adjacent strings into one value.
  std::optional<PythonValue> string(int depth) {
    PythonValue value{PythonKind::String, "", {}, here().where, ""};
    while (here().kind == PythonTokenKind::String) {
      value.text += here().text;
      value.where.end = here().where.end;
      ++at_;
    }
    if (here().kind == PythonTokenKind::Formatted) return refuse_computed();
    return is_join() ? joined(std::move(value), depth) : value;
  }

  bool is_join() const {
    return here().is(".") && at_ + 2 < tokens_.size() &&
           tokens_[at_ + 1].is("join") && tokens_[at_ + 2].is("(");
  }

  // Reads `"".join((a, b))` where all are strings.
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
                        "write the whole string");
        }
        if (&part != &arguments->items[0].items.front()) {
          value.text += separator.text;
        }
        value.text += part.text;
      }
      return value;
    }
    return refuse(arguments->where, "the parts are not literals",
                  "write the whole string");
  }

  // Does what Python's re.escape does since 3.7.
  static std::string escaped(std::string_view text) {
    std::string result;
    for (const char c : text) {
      constexpr std::string_view kSpecial = "()[]{}?*+-|^$\\.&~# \t\n\r\v\f";
      if (contains(kSpecial, c)) result += '\\';
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
                    "`" + value.text + "` expressions are not evaluated",
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

  // Reads (a), (a, b), (a,) or [a, b].
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

  // Reads the values between a bracket and its closing bracket.
  std::optional<PythonValue> items(int depth, bool is_call) {
    PythonValue result;
    result.where = here().where;
    const std::string_view close = here().is("[") ? "]" : ")";
    ++at_;
    bool comma = false;
    while (!here().is(close)) {
      std::string keyword;
      bool is_starred = false;
      if (is_call && at_ + 1 < tokens_.size() &&
          here().kind == PythonTokenKind::Name && tokens_[at_ + 1].is("=")) {
        keyword = here().text;
        at_ += 2;
      } else if (parts_ == PythonParts::All &&
                 here().is(is_call ? "**" : "*")) {
        if (is_call) keyword = "**";
        is_starred = !is_call;
        ++at_;
      }
      auto item = value(depth + 1);
      if (!item) return std::nullopt;
      if (is_starred) {
        const Span where = item->where;
        item =
            PythonValue{PythonKind::Starred, "", {*std::move(item)}, where, ""};
      }
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
            "expected a comma or `" + std::string(close) + "` before this",
            "separate items with commas");
      }
    }
    result.where.end = here().where.end;
    ++at_;
    ends_with_comma_ = comma;
    return result;
  }

  std::span<const PythonToken> tokens_;
  size_t at_;
  PythonParts parts_;
  Diagnostics& diags_;
  bool ends_with_comma_ = false;
};

}  // namespace

std::optional<PythonValue> parse_python_value(
    std::span<const PythonToken> tokens, size_t& at, Diagnostics& diags,
    PythonParts parts) {
  Parser parser(tokens, at, parts, diags);
  std::optional<PythonValue> value = parser.value(0, true);
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

// Returns the token after the adjacent strings that begin at `at`.
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

// Returns "a.b" for `a.b: T = {`.
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

// Returns the end of a value: a comma, or the closing bracket of an enclosing
// expression.
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
