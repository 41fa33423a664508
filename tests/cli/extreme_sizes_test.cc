// SPDX-License-Identifier: Apache-2.0
// Sizes as large as flags and configs allow: a product that fitted no integer
// ended the program as a bug of ours (SP900), or was cut to the largest integer
// in silence.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "tests/support/memory_host.h"
#include "tests/support/property.h"
#include "tests/support/words.h"

namespace shardplan::cli {
namespace {

using testing::command_line;
using testing::draw_bool;
using testing::draw_of;
using testing::has_text;
using testing::holds;
using testing::MemoryHost;
using testing::Words;
using Json = nlohmann::json;

const std::vector<std::string>& extremes() {
  static const std::vector<std::string> kSizes = {"1",
                                                  "3",
                                                  "4096",
                                                  "1000000",
                                                  "2147483647",
                                                  "4294967296",
                                                  "1000000000000",
                                                  "1099511627775",
                                                  "1099511627776"};
  return kSizes;
}

Json config(int64_t layers, int64_t hidden, int64_t vocab) {
  return {
      {"model_type", "llama"},       {"architectures", {"LlamaForCausalLM"}},
      {"hidden_size", hidden},       {"intermediate_size", hidden * 4},
      {"num_attention_heads", 8},    {"num_key_value_heads", 8},
      {"num_hidden_layers", layers}, {"vocab_size", vocab},
      {"torch_dtype", "bfloat16"}};
}

// What docs/formats/report.schema.json says of numbers, of those that products
// of large sizes end in.
void check_numbers(const Json& node, const std::string& key) {
  static const std::set<std::string> kShares = {"balance_score", "efficiency",
                                                "replicated_fraction"};
  // May be less than nothing.
  static const std::set<std::string> kSigned = {"headroom"};
  if (node.is_object()) {
    for (const auto& [name, value] : node.items()) check_numbers(value, name);
  } else if (node.is_array()) {
    for (const Json& value : node) check_numbers(value, key);
  } else if (node.is_number()) {
    CAPTURE(key);
    const double value = node.get<double>();
    if (kShares.count(key) > 0) CHECK(value <= 1);
    if (kSigned.count(key) == 0) CHECK(value >= 0);
  }
}

// Beside the bytes of one device stand those of all, which are no less.
void check_totals(const Json& report) {
  const Json& tables = report.at("tables");
  if (!tables.contains("memory") || !tables.contains("memory_totals")) return;
  std::map<std::string, double> of_one;
  std::map<std::string, double> of_all;
  for (const Json& row : tables.at("memory_totals")) {
    of_all[row.at("category")] += row.at("stored_bytes").get<double>();
  }
  for (const Json& row : tables.at("memory")) {
    if (!row.contains("category") || !row.contains("bytes")) continue;
    double& most = of_one[row.at("category")];
    most = std::max(most, row.at("bytes").get<double>());
  }
  for (const auto& each : of_one) {
    const std::string& category = each.first;
    CAPTURE(category);
    if (of_all.count(category) > 0) CHECK(of_all[category] >= each.second);
  }
}

void check_run(const Words& words, MemoryHost& host) {
  CAPTURE(command_line(words));
  const int exit = run(words, host);
  CAPTURE(host.err);
  CHECK(exit >= 0);
  CHECK(exit <= 2);
  CHECK_FALSE(has_text(host.out + host.err, "SP900"));
  const Json report = Json::parse(host.out, nullptr, false);
  CHECK_FALSE(report.is_discarded());
  if (report.is_discarded()) return;
  // An exit of 2 says why.
  if (exit == 2) CHECK_FALSE(report.at("diagnostics").empty());
  check_numbers(report.at("summary"), "");
  check_numbers(report.at("tables"), "");
  check_totals(report);
}

TEST_CASE("extreme sizes: flags are multiplied or refused, never SP900") {
  CHECK(holds("", [] {
    MemoryHost host;
    host.files["config.json"] =
        config(draw_of<int64_t>({1, 2, 80}),
               draw_of<int64_t>({64, 16384, 1 << 20, 1 << 28}),
               draw_of<int64_t>({256, 128256, 1 << 30}))
            .dump();
    Words words = {draw_of<std::string>({"analyze", "check"}), "config.json",
                   "--json", "--mesh",
                   draw_of<std::string>({"fsdp=2", "fsdp=4,tp=2", "dp=1048576",
                                         "tp=8", "pp=2,fsdp=1048576"})};
    const auto size = [] { return draw_of(extremes()); };
    const auto maybe = [&](const char* flag, const std::string& value) {
      if (draw_bool()) words.insert(words.end(), {flag, value});
    };
    const bool trains = draw_bool();
    words.insert(words.end(), {"--batch", size(), "--seq", size()});
    if (trains) {
      words.insert(words.end(),
                   {"--optimizer", draw_of<std::string>({"adamw", "sgd"})});
      maybe("--microbatches", size());
      maybe("--remat", draw_of<std::string>({"none", "full", "block"}));
      maybe("--hardware", "h100-sxm");
    } else {
      words.insert(words.end(),
                   {"--mode", draw_of<std::string>({"prefill", "decode"})});
      maybe("--engine", "vllm");
    }
    if (words[4].starts_with("pp")) {
      words.insert(words.end(), {"--stages", "pp"});
    }
    maybe("--memory", "9223372036854775807B");
    check_run(words, host);
  }));
}

TEST_CASE("extreme sizes: bytes need not fit where elements do") {
  MemoryHost host;
  host.files["config.json"] = config(32, 4096, 128256).dump();
  check_run({"analyze", "config.json", "--json", "--mesh", "fsdp=8",
             "--optimizer", "adamw", "--batch", "1000000000000", "--seq", "64"},
            host);
}

TEST_CASE("extreme sizes: one target that is too large leaves the others") {
  MemoryHost host;
  host.files["config.json"] = config(2, 4096, 128256).dump();
  host.files["shardplan.yaml"] =
      "optimizer: adamw\nseq: 64\ntargets:\n"
      "  small: {model: config.json, mesh: fsdp=8, batch: 8}\n"
      "  large: {model: config.json, mesh: fsdp=8, batch: 1000000000000}\n"
      "  last: {model: config.json, mesh: fsdp=8, batch: 16}\n";
  const int exit = run({"check", "--json"}, host);
  CAPTURE(host.err);
  CHECK(exit <= 2);
  const Json report = Json::parse(host.out, nullptr, false);
  REQUIRE_FALSE(report.is_discarded());
  CHECK(report.at("tables").at("targets").size() == 3);
}

// Llama 3.1 405B on 16,384 devices, 16,384 sequences of 8,192 tokens: of all
// devices together attention has more numbers than any of them.
TEST_CASE("extreme sizes: what is small on a device is counted") {
  MemoryHost host;
  Json large = config(126, 16384, 128256);
  large["intermediate_size"] = 53248;
  large["num_attention_heads"] = 128;
  host.files["config.json"] = large.dump();
  const int exit =
      run({"sweep", "config.json", "--json", "--devices", "16384", "--over",
           "fsdp,tp", "--optimizer", "adamw", "--batch", "16384", "--seq",
           "8192", "--memory", "80GiB", "--remat", "full"},
          host);
  CAPTURE(host.err);
  CHECK(exit <= 1);
  const Json report = Json::parse(host.out, nullptr, false);
  REQUIRE_FALSE(report.is_discarded());
  CHECK_FALSE(has_text(host.out, "too large"));
}

}  // namespace
}  // namespace shardplan::cli
