// SPDX-License-Identifier: Apache-2.0
#include "cli/flag_values.h"

#include <string>

#include <doctest/doctest.h>

namespace shardplan::cli {
namespace {

Setting setting(const char* flag, std::string value) {
  const Flag* found = find_flag(flag);
  REQUIRE(found != nullptr);
  return {found, std::move(value), {}, ""};
}

std::string only_message(const Diagnostics& diags) {
  REQUIRE(diags.all().size() == 1);
  CHECK(diags.all()[0].code == Code::Usage);
  return diags.all()[0].message;
}

TEST_CASE("lists are split at commas and keep empty parts") {
  const struct {
    const char* text;
    std::vector<std::string> parts;
  } rows[] = {{"", {}},
              {"a", {"a"}},
              {"a,b", {"a", "b"}},
              {"a,,b,", {"a", "", "b", ""}},
              {",", {"", ""}}};
  for (const auto& row : rows) {
    CAPTURE(row.text);
    CHECK(split_list(row.text) == row.parts);
  }
}

TEST_CASE("integers are read whole and within their range") {
  const struct {
    const char* text;
    std::optional<int64_t> value;
  } rows[] = {{"1", 1},
              {"10", 10},
              {"0", std::nullopt},
              {"11", std::nullopt},
              {"", std::nullopt},
              {"5x", std::nullopt},
              {" 5", std::nullopt},
              {"1e1", std::nullopt},
              {"99999999999999999999", std::nullopt}};
  for (const auto& row : rows) {
    CAPTURE(row.text);
    Diagnostics diags;
    CHECK(integer_of(setting("jobs", row.text), 1, 10, diags) == row.value);
    CHECK(diags.all().size() == (row.value ? 0 : 1));
  }
}

TEST_CASE("a refused integer names its flag, its range and what was given") {
  Diagnostics diags;
  CHECK_FALSE(integer_of(setting("devices", "many"), 1, 1 << 20, diags));
  CHECK(only_message(diags) ==
        "`--devices` must be an integer from 1 to 1,048,576, not `many`");
}

TEST_CASE("fractions are finite and not negative") {
  const struct {
    const char* text;
    std::optional<double> value;
  } rows[] = {{"0", 0.0},
              {"0.5", 0.5},
              {"1e-3", 0.001},
              {"3", 3.0},
              {"-1", std::nullopt},
              {"nan", std::nullopt},
              {"inf", std::nullopt},
              {"1e999", std::nullopt},
              {"0.5%", std::nullopt},
              {"", std::nullopt}};
  for (const auto& row : rows) {
    CAPTURE(row.text);
    Diagnostics diags;
    CHECK(number_of(setting("tolerance", row.text), diags) == row.value);
    CHECK(diags.all().size() == (row.value ? 0 : 1));
  }
}

TEST_CASE("a wrong choice gets the choices and the nearest of them") {
  Diagnostics diags;
  CHECK(is_choice(setting("color", "never"), diags));
  CHECK_FALSE(is_choice(setting("color", "allways"), diags));
  CHECK(only_message(diags) ==
        "`--color` must be one of `auto`, `always` or `never`, not `allways`");
  CHECK(
      diags.all()[0].help ==
      std::vector<std::string>{"a value with a similar name exists: `always`"});
}

TEST_CASE("codes are told by number or name, and misspelt ones are refused") {
  const struct {
    const char* text;
    bool deny;
    size_t problems;
  } rows[] = {{"SP203", true, 0},
              {"sp203", false, 0},
              {"indivisible-dimension,SP302", false, 0},
              {"warnings", true, 0},
              {"warnings", false, 1},
              {"SP2033", true, 1},
              {"", true, 0},
              {"SP203,", true, 1},
              {"nonsense,rubbish", false, 2}};
  for (const auto& row : rows) {
    CAPTURE(row.text);
    Diagnostics diags;
    std::vector<std::string> codes;
    append_codes(setting(row.deny ? "deny" : "allow", row.text), row.deny,
                 codes, diags);
    CHECK(diags.all().size() == row.problems);
  }
}

TEST_CASE("what prevents running can be denied but not allowed") {
  for (const CodeInfo& info : all_codes()) {
    CAPTURE(info.name);
    Diagnostics diags;
    std::vector<std::string> codes;
    append_codes(setting("deny", std::string(info.name)), true, codes, diags);
    CHECK(diags.all().empty());
    append_codes(setting("allow", code_id(info.code)), false, codes, diags);
    const bool fixed =
        prevents_running(info.code) || info.code == Code::InternalError;
    CHECK(diags.all().size() == (fixed ? 1 : 0));
  }
}

}  // namespace
}  // namespace shardplan::cli
