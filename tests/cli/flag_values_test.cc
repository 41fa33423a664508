// SPDX-License-Identifier: Apache-2.0
#include "cli/flag_values.h"

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "cli/options.h"

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
        std::vector<std::string>{"write sizes like `80GiB` (2^30 bytes) "
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
        std::vector<std::string>{"did you mean `bf16`?"});
}

TEST_CASE("axes are names between commas, and every other part is reported") {
  Diagnostics diags;
  CHECK(axes_of(setting("zero-axes", "dp,fsdp.1,_x"), diags) ==
        AxisNames{"dp", "fsdp.1", "_x"});
  CHECK(axes_of(setting("zero-axes", ""), diags).empty());
  CHECK(diags.all().empty());
  axes_of(setting("zero-axes", "dp,,2tp, tp"), diags);
  REQUIRE(diags.all().size() == 3);
  CHECK(diags.all()[0].message == "`` is not an axis name, in `--zero-axes`");
  CHECK(diags.all()[1].message ==
        "`2tp` is not an axis name, in `--zero-axes`");
  CHECK(diags.all()[2].message ==
        "` tp` is not an axis name, in `--zero-axes`");
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
  CHECK(diags.all()[0].help ==
        std::vector<std::string>{"did you mean `always`?"});
}

TEST_CASE("codes are given by number or name, and misspelt ones are refused") {
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
        "`interleave-qvk` in `--declare` is not a declaration");
  CHECK(diags.all()[0].help.at(0) == "did you mean `interleave-qkv`?");
}

constexpr int64_t kGiB = int64_t{1} << 30U;

struct Applied {
  Options options;
  Diagnostics diags;
};

Applied apply(std::vector<std::pair<std::string, std::string>> values,
              const std::string& directory = "") {
  std::vector<Setting> settings;
  for (auto& [name, value] : values) {
    const Flag* flag = find_flag(name);
    REQUIRE(flag != nullptr);
    settings.push_back({flag, std::move(value), {}, directory});
  }
  Applied applied;
  apply_settings(settings, applied.options, applied.diags);
  return applied;
}

TEST_CASE("every memory flag is in the table, for the commands that budget") {
  for (const Flag& row : memory_flags()) {
    CAPTURE(row.name);
    const Flag* flag = find_flag(row.name);
    REQUIRE(flag != nullptr);
    CHECK(flag->group == "Memory");
    CHECK(is_accepted_by(*flag, "check"));
    CHECK(is_accepted_by(*flag, "analyze"));
    CHECK(flag->configurable);
  }
}

TEST_CASE("what devices have and keep free is stored") {
  const auto [options, diags] = apply({{"memory", "80GiB"},
                                       {"reserve", "2GiB"},
                                       {"fragmentation", "0.05"},
                                       {"stages", "pp:4,3"}});
  CHECK(diags.all().empty());
  CHECK(options.memory.limit == 80 * kGiB);
  CHECK(options.memory.reserve == 2 * kGiB);
  CHECK(options.memory.reserve_fraction == 0);
  CHECK(options.memory.fragmentation == 0.05);
  REQUIRE(options.memory.stages);
  CHECK(options.memory.stages->axis == "pp");
  CHECK(options.memory.stages->layers == std::vector<int64_t>{4, 3});
}

TEST_CASE("a reserve is a size or percents below 100") {
  CHECK(apply({{"reserve", "5%"}}).options.memory.reserve_fraction == 0.05);
  CHECK(apply({{"reserve", "5%"}}).options.memory.reserve == 0);
  for (const char* wrong : {"100%", "-1%", "%", "5 %", "5", "lots", "0"}) {
    CAPTURE(wrong);
    const Applied applied = apply({{"reserve", wrong}});
    // A number without a unit is bytes.
    CHECK(applied.diags.all().size() == (wrong == std::string("5") ? 0 : 1));
  }
}

TEST_CASE("fragmentation is a fraction") {
  CHECK(apply({{"fragmentation", "1"}}).options.memory.fragmentation == 1);
  CHECK(apply({{"fragmentation", "1.5"}}).diags.all().size() == 1);
  CHECK(apply({{"fragmentation", "5%"}}).diags.all().size() == 1);
}

TEST_CASE("hardware is a name, or a path beside the configuration") {
  const auto hardware = [](const char* value, const char* directory) {
    return *apply({{"hardware", value}}, directory).options.memory.hardware;
  };
  CHECK(hardware("h100-sxm", "ci") == "h100-sxm");
  CHECK(hardware("own.yaml", "ci") == "ci/own.yaml");
  CHECK(hardware("hw/own", "ci") == "ci/hw/own");
  CHECK(hardware("own.yaml", "") == "own.yaml");
  CHECK(hardware("/etc/own", "ci") == "/etc/own");
}

TEST_CASE("the training state's dtypes, optimizer and ZeRO are stored") {
  const auto [options, diags] = apply({{"optimizer", "adamw"},
                                       {"param-dtype", "bf16"},
                                       {"grad-dtype", "f32"},
                                       {"moment-dtype", "f16"},
                                       {"master-dtype", "f64"},
                                       {"compute-dtype", "f8_e4m3fn"},
                                       {"live-layers", "2"},
                                       {"zero", "2"},
                                       {"zero-axes", "dp,fsdp"},
                                       {"zero-style", "jax"}});
  CHECK(diags.all().empty());
  const StateOptions& state = options.memory.state;
  CHECK(state.optimizer == Optimizer::AdamW);
  CHECK(state.param_dtype == DType::BF16);
  CHECK(state.grad_dtype == DType::F32);
  CHECK(state.moment_dtype == DType::F16);
  CHECK(state.master_dtype == DType::F64);
  CHECK_FALSE(state.no_master);
  CHECK(state.compute_dtype == DType::F8E4M3FN);
  CHECK(options.memory.live_layers == 2);
  CHECK(state.zero == 2);
  CHECK(state.zero_axes == AxisNames{"dp", "fsdp"});
  CHECK(state.zero_style == ZeroStyle::Jax);
}

TEST_CASE("master weights can be switched off") {
  const StateOptions state =
      apply({{"master-dtype", "none"}}).options.memory.state;
  CHECK(state.no_master);
  CHECK_FALSE(state.master_dtype);
}

TEST_CASE("state rules are shipped sets or paths") {
  CHECK(apply({{"state-rules", "@llama"}, {"state-rules", "adam.yaml"}}, "ci")
            .options.memory.state_rules ==
        std::vector<std::string>{"@llama", "ci/adam.yaml"});
}

TEST_CASE("the cache's sizes and axes are stored") {
  const auto [options, diags] = apply({{"mode", "decode"},
                                       {"batch", "8"},
                                       {"seq", "131072"},
                                       {"kv-dtype", "f8_e5m2"},
                                       {"kv-block", "16"},
                                       {"kv-axes", "tp"},
                                       {"batch-axes", "dp,fsdp"},
                                       {"sequence-axes", "sp"}});
  CHECK(diags.all().empty());
  CHECK(options.planning.mode == Mode::Decode);
  CHECK(options.memory.batch == 8);
  CHECK(options.memory.seq == 131'072);
  CHECK(options.memory.kv_dtype == DType::F8E5M2);
  CHECK(options.memory.kv_block == 16);
  CHECK(options.memory.kv_axes == AxisNames{"tp"});
  CHECK(options.memory.batch_axes == AxisNames{"dp", "fsdp"});
  CHECK(options.memory.sequence_axes == AxisNames{"sp"});
}

TEST_CASE("values out of range are refused") {
  const std::pair<const char*, const char*> rows[] = {
      {"zero", "4"},     {"zero", "-1"},         {"live-layers", "4097"},
      {"batch", "0"},    {"seq", "x"},           {"kv-block", "0"},
      {"memory", "0"},   {"kv-dtype", "f99"},    {"optimizer", "adamax2"},
      {"mode", "infer"}, {"zero-style", "fsdp9"}};
  for (const auto& row : rows) {
    const std::string name = row.first;
    CAPTURE(name);
    const Applied applied = apply({{name, row.second}});
    REQUIRE(applied.diags.all().size() == 1);
    CHECK(applied.diags.all()[0].code == Code::Usage);
  }
}

}  // namespace

}  // namespace shardplan::cli
