// SPDX-License-Identifier: Apache-2.0
#include "cli/memory_flags.h"

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

namespace shardplan::cli {
namespace {

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
    CHECK(is_taken_by(*flag, "check"));
    CHECK(is_taken_by(*flag, "analyze"));
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
  CHECK(options.mode == Mode::Decode);
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
