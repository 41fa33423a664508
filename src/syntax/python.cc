// SPDX-License-Identifier: Apache-2.0
// Python literals: writing them, and reading values from tokens.
#include "syntax/python.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "base/words.h"
#include "syntax/python_statements.h"
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
    if (result && continues("+", is_whole)) {
      result = sum(*std::move(result), depth, is_whole);
    }
    if (result && continues("if", is_whole)) {
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

  // Returns whether a value goes on with `+ B` or `if CONDITION else B`.
  bool continues(std::string_view word, bool is_whole) const {
    return parts_ == PythonParts::All && here().is(word) &&
           (!is_whole || !here().starts_line);
  }

  // Reads `+ B + C` after A.
  std::optional<PythonValue> sum(PythonValue first, int depth, bool is_whole) {
    PythonValue result{.kind = PythonKind::Sum,
                       .where = first.where,
                       .condition_begin = at_,
                       .condition_end = at_};
    result.items.push_back(std::move(first));
    while (continues("+", is_whole)) {
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
    const Span word = here().where;
    const size_t begin = ++at_;
    int brackets = 0;
    while (brackets > 0 || !here().is("else")) {
      brackets += python_nesting(here());
      if (brackets < 0 || here().kind == PythonTokenKind::End ||
          here().kind == PythonTokenKind::Bad) {
        return refuse(word, "this `if` has no `else`",
                      "write the intended value");
      }
      ++at_;
    }
    const size_t end = at_++;
    auto second = value(depth + 1, is_whole);
    if (!second) return std::nullopt;
    const Span where{word.file, first.where.begin, second->where.end};
    return PythonValue{.kind = PythonKind::Choice,
                       .items = {std::move(first), *std::move(second)},
                       .where = where,
                       .condition_begin = begin,
                       .condition_end = end};
  }

  // Returns whether a new value seems to begin on a new line.
  bool begins_value() const {
    if (!here().starts_line) return false;
    return here().kind == PythonTokenKind::Operator
               ? here().is_one_of("( [")
               : !here().is_one_of("if else for and or in is not async");
  }

  // Returns whether this token may follow a value.
  bool ends_value() const {
    return here().kind == PythonTokenKind::End || here().is_one_of(", ) ] :") ||
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
        PythonValue number{.kind = PythonKind::Number,
                           .text = here().text,
                           .where = here().where};
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
    if (here().is_one_of("( [")) return bracketed(depth);
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
    PythonValue value{.kind = PythonKind::String, .where = here().where};
    while (here().kind == PythonTokenKind::String) {
      value.text += here().text;
      value.where.end = here().where.end;
      ++at_;
    }
    if (here().kind == PythonTokenKind::Formatted) return refuse_computed();
    const bool is_join = here().is(".") && at_ + 2 < tokens_.size() &&
                         tokens_[at_ + 1].is("join") &&
                         tokens_[at_ + 2].is("(");
    return is_join ? joined(std::move(value), depth) : value;
  }

  // Reads `"".join((a, b))` where all are strings.
  std::optional<PythonValue> joined(PythonValue value, int depth) {
    at_ += 2;
    const auto arguments = items(depth, false);
    if (!arguments) return std::nullopt;
    const bool is_list = arguments->items.size() == 1 &&
                         (arguments->items[0].kind == PythonKind::Tuple ||
                          arguments->items[0].kind == PythonKind::List);
    if (!is_list) {
      return refuse(arguments->where, "the parts are not literals",
                    "write the whole string");
    }
    const std::string separator = std::exchange(value.text, "");
    value.where.end = arguments->where.end;
    for (const PythonValue& part : arguments->items[0].items) {
      if (part.kind != PythonKind::String) {
        return refuse(part.where, "this part is not a string",
                      "write the whole string");
      }
      if (&part != &arguments->items[0].items.front()) value.text += separator;
      value.text += part.text;
    }
    return value;
  }

  // Does what Python's re.escape does since 3.7.
  static std::string regex_escaped(std::string_view text) {
    std::string result;
    for (const char c : text) {
      constexpr std::string_view kSpecial = "()[]{}?*+-|^$\\.&~# \t\n\r\v\f";
      if (contains(kSpecial, c)) result += '\\';
      result += c;
    }
    return result;
  }

  std::optional<PythonValue> name(int depth) {
    PythonValue value{
        .kind = PythonKind::Name, .text = here().text, .where = here().where};
    ++at_;
    while (here().is(".") && at_ + 1 < tokens_.size() &&
           tokens_[at_ + 1].kind == PythonTokenKind::Name) {
      value.text += "." + tokens_[at_ + 1].text;
      value.where.end = tokens_[at_ + 1].where.end;
      at_ += 2;
    }
    if (value.text == "None") value.kind = PythonKind::None;
    if (has_word("lambda not await", value.text)) {
      return refuse(value.where,
                    "`" + value.text + "` expressions are not evaluated",
                    "write its value");
    }
    if (!here().is("(")) return value;
    value.kind = PythonKind::Call;
    auto arguments = items(depth, true);
    if (!arguments) return std::nullopt;
    value.items = std::move(arguments->items);
    value.where.end = arguments->where.end;
    const bool is_escape = value.text == "re.escape" &&
                           value.items.size() == 1 &&
                           value.items[0].kind == PythonKind::String;
    if (is_escape) {
      value.kind = PythonKind::String;
      value.text = regex_escaped(value.items[0].text);
      value.items.clear();
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
    PythonValue result{.where = here().where};
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
        item = PythonValue{.kind = PythonKind::Starred,
                           .items = {*std::move(item)},
                           .where = where};
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

std::string python_string(std::string_view text) {
  if (contains(text, '\\') && fits_raw(text)) {
    return "r\"" + std::string(text) + "\"";
  }
  return python_quoted(text);
}

std::string python_quoted(std::string_view text) {
  const auto is_escaped = [](char c) {
    return c == '"' || c == '\\' || c == '#';
  };
  const bool is_plain =
      is_plain_ascii(text) && std::ranges::none_of(text, is_escaped);
  return "\"" + (is_plain ? std::string(text) : escaped_text(text, true)) +
         "\"";
}

std::string python_names(const AxisNames& names) {
  return "(" + joined_of(names, ", ", python_string) +
         (names.size() == 1 ? ",)" : ")");
}

std::string python_axes(const AxisNames& axes) {
  if (axes.empty()) return "None";
  if (axes.size() == 1) return python_string(axes.front());
  return python_names(axes);
}

std::string python_spec(const PartitionSpec& spec) {
  return "PartitionSpec(" + joined_of(spec.dims, ", ", python_axes) + ")";
}

std::optional<PythonValue> parse_python_value(
    std::span<const PythonToken> tokens, size_t& at, Diagnostics& diags,
    PythonParts parts) {
  Parser parser(tokens, at, parts, diags);
  std::optional<PythonValue> value = parser.value(0, true);
  at = parser.at();
  return value;
}

}  // namespace shardplan
