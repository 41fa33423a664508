// SPDX-License-Identifier: Apache-2.0
#include "syntax/json.h"

#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/support/messages.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

using Json = nlohmann::json;
using JsonToken = JsonScanner::Token;

// One character a token, texts in angle brackets: `{k<a>n<1>}.`
std::string tokens_of(const std::string& text) {
  const SourceFile source("t.json", text);
  JsonScanner scanner(source);
  std::string all;
  while (true) {
    const JsonToken token = scanner.next();
    all += "{}[]ksntf0.!"[static_cast<size_t>(token)];
    if (token == JsonToken::End || token == JsonToken::Error) return all;
    if (token == JsonToken::Key || token == JsonToken::String ||
        token == JsonToken::Number) {
      all += "<" + std::string(scanner.text()) + ">";
    }
  }
}

// "line:column-end message", or "" when the text is well-formed.
std::string error_of(const std::string& text) {
  const SourceFile source("t.json", text);
  JsonScanner scanner(source);
  while (scanner.next() != JsonToken::End) {
    if (scanner.token() != JsonToken::Error) continue;
    const Span span = scanner.error_span();
    const Position at = source.position(span.begin);
    return std::to_string(at.line) + ":" + std::to_string(at.column) + "+" +
           std::to_string(span.end - span.begin) + " " + scanner.error();
  }
  return "";
}

TEST_CASE("a scanner gives the tokens of every kind of value") {
  const std::pair<std::string, std::string> kCases[] = {
      {R"({"a": [1, -2.5e+3, true, false, null, "x"], "b": {}})",
       "{k<a>[n<1>n<-2.5e+3>tf0s<x>]k<b>{}}."},
      {" \t\r\n[ ] \n", "[]."},
      {"3", "n<3>."},
      {"[0, -0, 0.5, 1E2]", "[n<0>n<-0>n<0.5>n<1E2>]."},
      {R"("\"\\\/\b\f\n\r\t")", "s<\"\\/\b\f\n\r\t>."},
      {R"("a\u0041\u00e9\u20acz\ud83d\ude00")", "s<aAé€z😀>."},
      {"\"plain ascii of many words, then é and 😀, then more\"",
       "s<plain ascii of many words, then é and 😀, then more>."},
      {R"({"long enough to be read in words":"\\ and longer than a word"})",
       "{k<long enough to be read in words>s<\\ and longer than a word>}."},
  };
  for (const auto& row : kCases) {
    const auto& text = row.first;
    const auto& expected = row.second;
    CAPTURE(text);
    CHECK(tokens_of(text) == expected);
  }
}

TEST_CASE("a scanner says what is malformed and where") {
  const std::pair<std::string, std::string> kCases[] = {
      {"", "1:1+0 expected a value, but the text ends"},
      {"\xEF\xBB\xBF{}",
       "1:1+3 the text starts with a byte order mark, which JSON does not "
       "allow"},
      {"{} x", "1:4+1 the document ends before `x`"},
      {"[1,]", "1:4+1 expected a value, not `]`"},
      {"[1 2]", "1:4+1 expected `,` or `]`, not `2`"},
      {"{\"a\": 1,}", "1:9+1 expected a key in double quotes, not `}`"},
      {"{\"a\": 1", "1:8+0 expected `,` or `}`, but the text ends"},
      {"{\"a\"; 1}", "1:5+1 expected `:` after the key, not `;`"},
      {"{a: 1}", "1:2+1 expected a key in double quotes, not `a`"},
      {"[}", "1:2+1 expected a value, not `}`"},
      {"{]", "1:2+1 expected a key in double quotes, not `]`"},
      {"[\n  01]", "2:3+2 a number has a leading zero"},
      {"-", "1:2+0 expected a digit in the number, but the text ends"},
      {"1.",
       "1:3+0 expected a digit after the decimal point, but the text "
       "ends"},
      {"[1e+]", "1:5+1 expected a digit in the exponent, not `]`"},
      {"+1", "1:1+1 expected a value, not `+`"},
      {"nul", "1:1+1 expected a value, not `n`"},
      {"NaN", "1:1+1 expected a value, not `N`"},
      {"truex", "1:5+1 the document ends before `x`"},
      {"[\"ab", "1:2+1 a string is not closed"},
      {"[\"ab\n\"]", "1:2+1 a string is not closed on its line"},
      {"[\"a\tb\"]", "1:4+1 a control character in a string"},
      {"[\"é\\x\"]", "1:4+1 `\\` does not start a valid JSON escape"},
      {"[\"\\u12g4\"]", "1:3+2 `\\u` needs four hexadecimal digits"},
      {"[\"\\ud800\"]", "1:3+6 an unpaired surrogate is not a character"},
      {"[\"\\udc00x\"]", "1:3+6 an unpaired surrogate is not a character"},
      {"[\"\\ud800\\u0041\"]",
       "1:3+6 an unpaired surrogate is not a character"},
      {"[\"a\xFFz\"]", "1:4+1 a string contains bytes that are not UTF-8"},
      {"[\"\\n\xC0\x80\"]", "1:5+1 a string contains bytes that are not UTF-8"},
      {"[\xFF]", "1:2+1 expected a value, not a byte that is not UTF-8"},
      {std::string("[\0]", 3),
       "1:2+1 expected a value, not a control "
       "character"},
      {"[é]", "1:2+2 expected a value, not `é`"},
  };
  for (const auto& row : kCases) {
    const auto& text = row.first;
    const auto& expected = row.second;
    CAPTURE(text);
    CHECK(error_of(text) == expected);
  }
}

TEST_CASE("nesting is allowed up to a limit") {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  CHECK(error_of(nested(JsonScanner::kMaxDepth)).empty());
  CHECK(error_of(nested(JsonScanner::kMaxDepth + 1)) ==
        "1:257+1 values are nested deeper than 256 levels");
}

TEST_CASE("integers are those that fit 63 bits and a sign") {
  const std::pair<std::string, std::optional<int64_t>> kCases[] = {
      {"0", 0},
      {"-0", 0},
      {"-7", -7},
      {"9223372036854775807", INT64_MAX},
      {"-9223372036854775808", INT64_MIN},
      {"9223372036854775808", std::nullopt},
      {"1.0", std::nullopt},
      {"1e2", std::nullopt},
      {"\"1\"", std::nullopt},
  };
  for (const auto& row : kCases) {
    const auto& text = row.first;
    const auto& expected = row.second;
    CAPTURE(text);
    const SourceFile source("t.json", text);
    JsonScanner scanner(source);
    scanner.next();
    CHECK(scanner.integer() == expected);
  }
}

TEST_CASE("spans cover the token with its quotes") {
  const SourceFile source("t.json", R"({ "a\n" : [ -12.5 , "é" ] })");
  JsonScanner scanner(source);
  std::vector<std::string> spans;
  while (scanner.next() != JsonToken::End) {
    spans.emplace_back(scanner.span().text());
  }
  CHECK(spans == std::vector<std::string>{"{", "\"a\\n\"", "[", "-12.5",
                                          "\"é\"", "]", "}"});
}

TEST_CASE("a part of a text is scanned as if it were all") {
  const SourceFile source("t.json", "xx{\"a\": 1}yy");
  JsonScanner inner(source, 2, 10);
  while (inner.next() != JsonToken::End)
    REQUIRE(inner.token() != JsonToken::Error);
  JsonScanner cut(source, 2, 9);
  while (cut.next() != JsonToken::Error) REQUIRE(cut.token() != JsonToken::End);
  CHECK(cut.error() == "expected `,` or `}`, but the text ends");
  CHECK(cut.error_span().begin == 9);
  JsonScanner beyond(source, 100, 200);
  CHECK(beyond.next() == JsonToken::Error);
}

TEST_CASE("skipping a value goes to its last token") {
  const SourceFile source("t.json", R"({"a": {"b": [1, {}]}, "c": 2})");
  JsonScanner scanner(source);
  scanner.next();
  scanner.next();
  scanner.next();
  CHECK(scanner.skip_value());
  CHECK(scanner.token() == JsonToken::EndObject);
  CHECK(scanner.next() == JsonToken::Key);
  CHECK(scanner.text() == "c");
  scanner.next();
  CHECK(scanner.skip_value());
  CHECK(scanner.token() == JsonToken::Number);
}

TEST_CASE("skipping a malformed value fails, and errors stay") {
  const SourceFile source("t.json", R"([[1, 2}, 3])");
  JsonScanner scanner(source);
  scanner.next();
  scanner.next();
  CHECK_FALSE(scanner.skip_value());
  CHECK(scanner.next() == JsonToken::Error);
  Diagnostics diags;
  scanner.report(diags);
  REQUIRE(diags.all().size() == 1);
  CHECK(diags.all()[0].code == Code::MalformedDocument);
  CHECK(diags.all()[0].labels[0].where.begin == 6);
}

// The value as nlohmann's parser would give it; the scanner's errors are
// thrown as text.
Json value_of(JsonScanner& scanner) {
  switch (scanner.token()) {
    case JsonToken::BeginObject: {
      Json object = Json::object();
      while (scanner.next() == JsonToken::Key) {
        const std::string key(scanner.text());
        scanner.next();
        object[key] = value_of(scanner);
      }
      if (scanner.token() == JsonToken::Error) throw scanner.error();
      return object;
    }
    case JsonToken::BeginArray: {
      Json array = Json::array();
      while (scanner.next() != JsonToken::EndArray) {
        array.push_back(value_of(scanner));
      }
      return array;
    }
    case JsonToken::String:
      return scanner.text();
    case JsonToken::Number:
      if (scanner.integer()) return *scanner.integer();
      return std::strtod(std::string(scanner.text()).c_str(), nullptr);
    case JsonToken::True:
      return true;
    case JsonToken::False:
      return false;
    case JsonToken::Null:
      return nullptr;
    default:
      throw scanner.error();
  }
}

std::optional<Json> our_value(const std::string& text) {
  const SourceFile source("t.json", text);
  JsonScanner scanner(source);
  scanner.next();
  try {
    Json value = value_of(scanner);
    if (scanner.next() != JsonToken::End) return std::nullopt;
    return value;
  } catch (const std::string&) {
    return std::nullopt;
  }
}

// Numbers beyond 63 bits are doubles on both sides.
Json with_doubles(Json value) {
  if (value.is_structured()) {
    for (Json& item : value) item = with_doubles(item);
  } else if (value.is_number_unsigned() &&
             value.get<uint64_t>() > uint64_t{INT64_MAX}) {
    return static_cast<double>(value.get<uint64_t>());
  }
  return value;
}

void check_agrees(const std::string& text) {
  const std::optional<Json> ours = our_value(text);
  try {
    const Json theirs = Json::parse(text);
    ENSURE(ours.has_value());
    ENSURE(*ours == with_doubles(theirs));
  } catch (const Json::parse_error&) {
    ENSURE(!ours.has_value());
  } catch (const Json::out_of_range&) {
    testing::count_case("a number beyond double, which the grammar allows");
  }
}

std::string json_scalar() {
  return draw_of<std::string>(
      {"0", "-0", "12", "-9223372036854775808", "18446744073709551615",
       "99999999999999999999", "1.5", "-2e-3", "1E+2", "true", "false", "null",
       "\"\"", "\"a\"", "\"model.layers.0.mlp.weight\"", "\"\\u00e9\\n\"",
       "\"\\ud83d\\ude00\"", "\"é😀 and some more text\"", "\"\\\\\\\"\""});
}

std::string json_text(int depth) {
  const int kind = depth == 0 ? 0 : draw_of({0, 1, 2});
  if (kind == 0) return json_scalar();
  const bool object = kind == 2;
  std::string all;
  for (int left = draw_of({0, 1, 2, 3, 4}); left > 0; --left) {
    const std::string value = json_text(depth - 1);
    const auto gap =
        draw_of<std::string>({"", "", "", " ", "\n", "\t ", "\r\n"});
    if (!all.empty()) all += "," + gap;
    if (object) {
      all += "\"key" + std::to_string(all.size()) + "\"" + gap + ":";
    }
    all += gap + value + gap;
  }
  return object ? "{" + all + "}" : "[" + all + "]";
}

// Replaces, inserts, removes or swaps a few bytes, mostly by those that matter
// to the grammar. No NUL and no BOM: the other parser takes them for the end
// and for nothing.
std::string mutated(std::string text) {
  static constexpr std::string_view kBytes =
      "{}[]:,\"\\/ \n\t0123456789eE+-.tfnu\x01\x7f\x80\xBF\xC2\xE2\x82\xED\xF0"
      "\x9F\xFF";
  const int edits = draw_in(1, 4);
  for (int i = 0; i < edits && !text.empty(); ++i) {
    const auto at = draw_in<size_t>(0, text.size());
    const char byte = draw_of(kBytes);
    switch (draw_in(0, 4)) {
      case 0:
        text[at] = byte;
        break;
      case 1:
        text.insert(at, 1, byte);
        break;
      case 2:
        text.erase(at, 1);
        break;
      default:
        std::swap(text[at], text[text.size() / 2]);
    }
  }
  return text;
}

TEST_CASE("a scanner reads generated documents as another parser does") {
  CHECK(holds("same values", [] {
    check_agrees(draw_together([] { return json_text(4); }));
  }));
}

TEST_CASE("a scanner accepts and refuses mutated documents as another does") {
  CHECK(holds("same verdict and values", [] {
    check_agrees(mutated(draw_together([] { return json_text(3); })));
  }));
}

TEST_CASE("a scanner agrees with another parser on awkward texts") {
  const std::string kCases[] = {
      "",
      " ",
      "[",
      "]",
      "{",
      "\"",
      "\"\\",
      "\"\\u",
      "\"\\u0",
      "[1,,2]",
      "[,1]",
      "{\"a\"}",
      "{\"a\":}",
      "{:1}",
      "{1:2}",
      "[1]]",
      "1 2",
      "--1",
      "-a",
      "0x1",
      "00",
      "-01",
      ".5",
      "5.",
      "1.e3",
      "1e",
      "1e-",
      "tru",
      "TRUE",
      "nulll",
      "'a'",
      "\"\x7f\"",
      "\"\xC2\xA0\"",
      "\xC2\xA0"
      "1",
      "\"\xE0\x80\x80\"",
      "\"\xE0\xA0\x80\"",
      "\"\xED\x9F\xBF\"",
      "\"\xED\xA0\x80\"",
      "\"\xEE\x80\x80\"",
      "\"\xF0\x8F\xBF\xBF\"",
      "\"\xF0\x90\x80\x80\"",
      "\"\xF4\x8F\xBF\xBF\"",
      "\"\xF4\x90\x80\x80\"",
      "\"\xF5\x80\x80\x80\"",
      "\"\xC2\"",
      "\"\xE2\x82\"",
      "\"\xF0\x9F\x98\"",
      "\"\x80\"",
      "\"\\ud83d\\ude00\"",
      "\"\\ud83d\\ud83d\"",
      "\"\\ud83d\"",
      "\"\\udE00\"",
      "\"\\u0000\"",
      "\"\\U0041\"",
      "[1]\n\n",
      "/**/1",
      "1//",
      "[1\f]",
      "\"1234567\"",
      "\"12345678\"",
      "\"123456\\\"8\"",
      "\"1234567\n\"",
  };
  for (const std::string& text : kCases) {
    CAPTURE(text);
    const std::optional<Json> ours = our_value(text);
    const Json theirs = Json::parse(text, nullptr, false);
    CHECK(ours.has_value() == !theirs.is_discarded());
    if (ours) CHECK(*ours == theirs);
  }
}

using testing::messages;

// Runs `read` on the first token of `text`; the answer, or what was reported.
std::string outcome(const std::string& text,
                    const std::function<std::string(JsonReader&)>& read) {
  Diagnostics diags;
  const SourceFile source("a.json", text);
  JsonReader json(source, diags);
  if (!json.advance()) return messages(diags);
  const std::string answer = read(json);
  return diags.all().empty() ? answer : messages(diags);
}

std::string size_outcome(const std::string& text) {
  return outcome(text, [](JsonReader& json) {
    int64_t value = -1;
    const bool good = json.size("`n`", value);
    CHECK(good == (value >= 0));
    return std::to_string(value);
  });
}

TEST_CASE("sizes are integers of 63 bits that are not negative") {
  struct Row {
    std::string text, expected;
  };
  for (const Row& row : std::vector<Row>{
           {"0", "0"},
           {"9223372036854775807", "9223372036854775807"},
           {"9223372036854775808",
            "SP002 a.json:1:1 `n` must be an integer below 2^63, not "
            "`9223372036854775808`"},
           {"1.0",
            "SP002 a.json:1:1 `n` must be an integer below 2^63, not `1.0`"},
           {"[]", "SP002 a.json:1:1 `n` must be an integer, not a list"},
           {"null", "SP002 a.json:1:1 `n` must be an integer, not null"}}) {
    CAPTURE(row.text);
    CHECK(size_outcome(row.text) == row.expected);
  }
  Diagnostics diags;
  const SourceFile source("a.json", "-3");
  JsonReader json(source, diags);
  int64_t value = 0;
  CHECK(json.advance());
  CHECK_FALSE(json.size("`n`", value));
  CHECK(messages(diags) ==
        "SP002 a.json:1:1 `n` must not be negative, but is -3");
}

TEST_CASE("a number too long to show is cut") {
  CHECK(size_outcome(std::string(1000, '9')).size() < 120);
}

TEST_CASE("maps give keys, places and values in order") {
  const auto read = [](JsonReader& json) {
    std::string seen;
    const bool good = json.map("`m`", [&](const std::string& key, Span where) {
      seen += key + "@" + std::to_string(where.begin) + " ";
      return json.skip();
    });
    return good ? seen : "failed";
  };
  CHECK(outcome(R"({"a": 1, "b\n": {"c": []}, "a": "x"})", read) ==
        "a@1 b\n@9 a@27 ");
  CHECK(outcome("{}", read).empty());
  CHECK(outcome("[1]", read) ==
        "SP002 a.json:1:1 `m` must be a map, not a list");
  CHECK(outcome(R"({"a": 1)", read).starts_with("SP002 a.json:1:8 "));
}

TEST_CASE("lists give their items and stop when asked to") {
  const auto read = [](JsonReader& json) {
    int64_t sum = 0;
    const bool good = json.list("`l`", [&] {
      int64_t value = 0;
      if (!json.integer("an item", value)) return false;
      sum += value;
      return value != 7;
    });
    return good ? std::to_string(sum) : "stopped";
  };
  CHECK(outcome("[1, 2, -4]", read) == "-1");
  CHECK(outcome("[]", read) == "0");
  CHECK(outcome("[1, 7, 2]", read) == "stopped");
  CHECK(outcome("[1, \"2\"]", read) ==
        "SP002 a.json:1:5 an item must be an integer, not a string");
}

TEST_CASE("texts and booleans are what they say") {
  const auto text = [](JsonReader& json) {
    std::string value;
    return json.string("`s`", value) ? value : "failed";
  };
  CHECK(outcome(R"("aéb")", text) == "a\u00e9b");
  CHECK(outcome("true", text) ==
        "SP002 a.json:1:1 `s` must be a string, not true or false");
  const auto boolean = [](JsonReader& json) {
    bool value = false;
    if (!json.boolean("`b`", value)) return std::string("failed");
    return std::string(value ? "yes" : "no");
  };
  CHECK(outcome("true", boolean) == "yes");
  CHECK(outcome("false", boolean) == "no");
  CHECK(outcome("0", boolean) ==
        "SP002 a.json:1:1 `b` must be true or false, not a number");
}

TEST_CASE("a skipped value has the place of all of it") {
  const auto read = [](JsonReader& json) {
    Span where;
    CHECK(json.skip(where));
    return std::string(where.text());
  };
  CHECK(outcome(R"( {"a": [1, {}]} )", read) == R"({"a": [1, {}]})");
  CHECK(outcome("12", read) == "12");
}

TEST_CASE("what follows the value is refused") {
  CHECK(outcome("1 2", [](JsonReader& json) {
          return json.skip() && json.finish() ? "fine" : "";
        }).starts_with("SP002 a.json:1:3 "));
}

}  // namespace

}  // namespace shardplan
