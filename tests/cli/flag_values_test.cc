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

TEST_CASE("sizes have units, and a refused one says how they are written") {
  Diagnostics diags;
  CHECK(bytes_of(setting("memory", "80GiB"), diags) == 85'899'345'920);
  CHECK(bytes_of(setting("memory", "95.7GB"), diags) == 95'700'000'000);
  CHECK(diags.all().empty());
  CHECK_FALSE(bytes_of(setting("memory", "80 gigs"), diags));
  CHECK(only_message(diags) ==
        "`--memory` must be a positive size, not `80 gigs`");
  CHECK(diags.all()[0].help ==
        std::vector<std::string>{"sizes are written like `80GiB` (2^30 bytes) "
                                 "or `95.7GB` (10^9)"});
}

TEST_CASE("dtypes are read in any spelling, and misspelt ones are refused") {
  Diagnostics diags;
  CHECK(dtype_of(setting("kv-dtype", "bf16"), diags) == DType::BF16);
  CHECK(dtype_of(setting("kv-dtype", "BFloat16"), diags) == DType::BF16);
  CHECK(dtype_of(setting("kv-dtype", "float8_e4m3fn"), diags) ==
        DType::F8E4M3FN);
  CHECK(diags.all().empty());
  CHECK_FALSE(dtype_of(setting("kv-dtype", "bf61"), diags));
  CHECK(only_message(diags) ==
        "`--kv-dtype` must be a dtype such as `bf16`, not `bf61`");
  CHECK(diags.all()[0].help ==
        std::vector<std::string>{"a dtype with a similar name exists: `bf16`"});
}

TEST_CASE("axes are names between commas, and every other part is reported") {
  Diagnostics diags;
  CHECK(axes_of(setting("zero-axes", "dp,fsdp.1,_x"), diags) ==
        AxisNames{"dp", "fsdp.1", "_x"});
  CHECK(axes_of(setting("zero-axes", ""), diags).empty());
  CHECK(diags.all().empty());
  axes_of(setting("zero-axes", "dp,,2tp, tp"), diags);
  REQUIRE(diags.all().size() == 3);
  CHECK(diags.all()[0].message == "`` is no axis name, in `--zero-axes`");
  CHECK(diags.all()[1].message == "`2tp` is no axis name, in `--zero-axes`");
  CHECK(diags.all()[2].message == "` tp` is no axis name, in `--zero-axes`");
}

TEST_CASE("stages are an axis, with or without layers for each") {
  const struct {
    const char* text;
    std::optional<std::vector<int64_t>> layers;
  } rows[] = {{"pp", std::vector<int64_t>{}},
              {"pp:8", std::vector<int64_t>{8}},
              {"pp:8,0,6", std::vector<int64_t>{8, 0, 6}},
              {"pp:100000", std::vector<int64_t>{100'000}},
              {"pp:", std::nullopt},
              {"pp:8,", std::nullopt},
              {"pp:-1", std::nullopt},
              {"pp:100001", std::nullopt},
              {"pp:a", std::nullopt},
              {":8", std::nullopt},
              {"p p", std::nullopt},
              {"", std::nullopt}};
  for (const auto& row : rows) {
    CAPTURE(row.text);
    Diagnostics diags;
    const auto stages = stages_of(setting("stages", row.text), diags);
    REQUIRE(stages.has_value() == row.layers.has_value());
    CHECK(diags.all().size() == (stages ? 0 : 1));
    if (!stages) continue;
    CHECK(stages->axis == "pp");
    CHECK(stages->layers == *row.layers);
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

TEST_CASE("declarations add up, and what is none is named") {
  Declarations declared;
  Diagnostics diags;
  append_declarations(setting("declare", "interleave-qkv,pad-vocab=64"),
                      declared, diags);
  append_declarations(setting("declare", "replicate-kv-heads"), declared,
                      diags);
  CHECK(diags.all().empty());
  CHECK(declared.interleave_qkv);
  CHECK(declared.replicate_kv_heads);
  CHECK(declared.pad_vocab == 64);
  append_declarations(setting("declare", "interleave-qvk"), declared, diags);
  CHECK(only_message(diags) ==
        "`interleave-qvk` in `--declare` is no declaration");
  CHECK(diags.all()[0].help.at(0) ==
        "write `interleave-qkv` if that is what was meant");
}

}  // namespace
}  // namespace shardplan::cli
