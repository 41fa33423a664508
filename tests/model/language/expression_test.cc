// SPDX-License-Identifier: Apache-2.0
#include "model/language/expression.h"

#include <map>

#include <doctest/doctest.h>

namespace shardplan {
namespace {

const std::map<std::string, ConfigValue, std::less<>> kNames = {
    {"heads", ConfigValue::of(int64_t{6})},
    {"hidden", ConfigValue::of(int64_t{50})},
    {"scale", ConfigValue::of(0.5)},
    {"tied", ConfigValue::flag(true)},
    {"kind", ConfigValue::of(std::string("full"))},
    {"dense", ConfigValue::of(std::vector<int64_t>{0, 3})},
    {"vision.hidden", ConfigValue::of(int64_t{7})},
    {"most", ConfigValue::of(INT64_MAX)},
};

const ConfigValue* find(std::string_view name, std::string& why) {
  const auto known = kNames.find(name);
  if (known != kNames.end()) return &known->second;
  why = "no " + std::string(name);
  return nullptr;
}

// The value as text, or the reason that there is none.
std::string computed(std::string_view text) {
  std::string why;
  const auto expression = parse_expression(text, {}, why);
  if (!expression) return "not read: " + why;
  Work work;
  const auto value = evaluate(*expression, find, work, why);
  if (!value) return "no value: " + why;
  switch (value->kind) {
    case ConfigValue::Kind::Flag:
      return value->integer != 0 ? "true" : "false";
    case ConfigValue::Kind::Real:
      return std::to_string(value->real);
    case ConfigValue::Kind::Text:
      return value->text;
    case ConfigValue::Kind::Integers:
      return std::to_string(value->integers->size()) + " items";
    default:
      return std::to_string(value->integer);
  }
}

TEST_CASE("expressions have the values of their operators") {
  const std::pair<const char*, const char*> rows[] = {
      {"heads", "6"},
      {"heads * 8 + 2", "50"},
      {"2 + heads * 8", "50"},
      {"(2 + heads) * 8", "64"},
      {"hidden - 1 - 2", "47"},
      {"hidden // 6", "8"},
      {"-1 // 6", "-1"},
      {"hidden / 5", "10"},
      {"hidden % 6", "2"},
      {"-heads", "-6"},
      {"ceil(hidden / heads)", "9"},
      {"ceil(scale / 2)", "1"},
      {"floor(scale * 5)", "2"},
      {"floor(-scale)", "-1"},
      {"floor(heads)", "6"},
      {"min(heads, hidden)", "6"},
      {"max(heads, hidden)", "50"},
      {"scale * 4", "2.000000"},
      {"1 / sqrt(16)", "0.250000"},
      {"log(1)", "0.000000"},
      {"log(heads)", "1.791759"},
      {"1e-5", "0.000010"},
      {"tied", "true"},
      {"not tied", "false"},
      {"not heads == 6", "false"},
      {"heads == 6 and hidden > 49 or false", "true"},
      {"true or heads", "true"},
      {"heads <= 6", "true"},
      {"heads < 6", "false"},
      {"heads != 6", "false"},
      {"heads >= 6.5", "false"},
      {"kind == 'full'", "true"},
      {"kind != \"full\"", "false"},
      {"3 in dense", "true"},
      {"not 1 in dense", "true"},
      {"if(tied, heads, hidden / heads)", "6"},
      {"vision.hidden", "7"},
      {"dense", "2 items"},
      {"dense[1]", "3"},
      {"dense[heads - 6] + 1", "1"},
      {"dense[dense[0]]", "0"},
      {"length(dense) * 2", "4"},
      {"count(dense, 3, length(dense))", "1"},
      {"count(dense, 3, 1)", "0"},
      {"kind", "full"},
  };
  for (const auto& row : rows) {
    const auto& text = row.first;
    const auto& expected = row.second;
    CAPTURE(text);
    CHECK(computed(text) == expected);
  }
}

TEST_CASE("what has no value says why") {
  const std::pair<const char*, const char*> rows[] = {
      {"hidden / heads", "no value: 50 / 6 leaves a remainder"},
      {"heads / 0", "no value: division by 0"},
      {"heads % -1", "no value: division by -1"},
      {"heds", "no value: no heds"},
      {"most + 1", "no value: a number exceeds 63 bits"},
      {"most * 2", "no value: a number exceeds 63 bits"},
      {"-most - 2", "no value: a number exceeds 63 bits"},
      {"sqrt(-1)", "no value: a negative number has no square root"},
      {"log(0)", "no value: only a number above 0 has a log"},
      {"tied + 1", "no value: expected a number, not true or false"},
      {"heads and tied",
       "no value: a condition is an integer, not true or false"},
      {"kind == 3", "no value: cannot compare a string with an integer"},
      {"kind in dense",
       "no value: `in` needs an integer and a list of integers"},
      {"scale // 2", "no value: `//` and `%` need integers"},
      {"ceil(-1 / heads)", "no value: ceil needs a quotient of sizes"},
      {"floor(1e300)", "no value: a number exceeds 63 bits"},
      {"dense[2]", "no value: index 2 is out of range for a list of 2"},
      {"dense[-1]", "no value: index -1 is out of range for a list of 2"},
      {"dense[scale]", "no value: expected an integer, not a number"},
      {"heads[0]", "no value: expected a list, not an integer"},
      {"length(kind)", "no value: expected a list, not a string"},
      {"count(dense, 3, 3)", "no value: cannot take 3 items of a list of 2"},
      {"dense[1", "not read: a `]` is missing"},
      {"count(dense, 3)", "not read: `count` takes 3 arguments"},
      {"", "not read: unexpected end"},
      {"heads *", "not read: unexpected end"},
      {"heads 6", "not read: unexpected `6`"},
      {"(heads", "not read: a `)` is missing"},
      {"min(1)", "not read: `min` takes 2 arguments"},
      {"round(1)",
       "not read: unknown function `round`: use ceil, floor, min, max, sqrt, "
       "log, length, count or if"},
      {"'open", "not read: a quote is not closed"},
      {"99999999999999999999", "not read: a number is too large"},
      {"and", "not read: unexpected `and`"},
      {"1 == 1 == 1", "not read: unexpected `=`"},
      {"$", "not read: unexpected `$`"},
  };
  for (const auto& row : rows) {
    const auto& text = row.first;
    const auto& expected = row.second;
    CAPTURE(text);
    CHECK(computed(text) == expected);
  }
}

TEST_CASE("expressions are bounded in depth and length") {
  CHECK(computed(std::string(1000, '(') + "1" + std::string(1000, ')')) ==
        "not read: it nests too deeply");
  std::string negations;
  for (int i = 0; i < 1000; ++i) negations += "not ";
  CHECK(computed(negations + "tied") == "not read: it nests too deeply");
  std::string sum = "1";
  for (int i = 0; i < 1000; ++i) sum += " + 1";
  CHECK(computed(sum) == "not read: it is too long");
}

TEST_CASE("the label of a dimension is the name that stands first in it") {
  const auto label = [](std::string_view text) {
    std::string why;
    const auto expression = parse_expression(text, {}, why);
    REQUIRE(expression);
    return std::string(expression->leading_name());
  };
  CHECK(label("heads * head_dim") == "heads");
  CHECK(label("heads") == "heads");
  CHECK(label("2 * mlp") == "mlp");
  CHECK(label("heads * 2 * head_dim") == "heads");
  CHECK(label("rank + rope") == "");
  CHECK(label("64") == "");
}

}  // namespace
}  // namespace shardplan
