// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/simulate/values.h"

#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/real_host.h"
#include "cli/commands/simulate/variants.h"
#include "tests/support/memory_host.h"
#include "tests/support/source_dir.h"

namespace shardplan::cli {
namespace {

struct Ran {
  int code = 0;
  std::string out;
  std::string err;
};

Ran ran(std::vector<std::string> words) {
  testing::MemoryHost host;
  const auto disk = make_real_host();
  host.below = disk.get();
  host.below_root = source_dir();
  host.files["no-data.json"] = R"({"x": {"shape": [4], "dtype": "f32"}})";
  words.insert(words.begin(), {"simulate"});
  words.insert(words.end(), {"--mesh", "tp=2", "--json"});
  const int code = run(words, host);
  return {code, host.out, host.err};
}

const std::vector<std::string> kGpt2 = {"tests/data/checkpoints/gpt2",
                                        "--rules", "@gpt2"};

std::vector<std::string> gpt2(std::vector<std::string> more) {
  std::vector<std::string> words = kGpt2;
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST_CASE("a checkpoint's own weights are the default") {
  const auto values = [](const Ran& run) {
    CHECK(run.code == 0);
    return nlohmann::json::parse(run.out)["summary"]["values"]
        .get<std::string>();
  };
  CHECK(values(ran(kGpt2)) == "checkpoint");
  CHECK(values(ran(gpt2({"--values", "random"}))) == "random");
  CHECK(values(ran(gpt2({"--values", "field"}))) == "field");
  CHECK(values(ran(gpt2({"--shrink"}))) == "random");
}

TEST_CASE("weights that are not there cannot be asked for") {
  CHECK(ran(gpt2({"--shrink", "--values", "checkpoint"}))
            .out.find("a shrunk model has none") != std::string::npos);
  const Ran config = ran({"tests/data/configs/llama-3.2-1b.json", "--rules",
                          "@llama", "--values", "checkpoint"});
  CHECK(config.code == 2);
  CHECK(config.out.find("is not a checkpoint with data") != std::string::npos);
}

TEST_CASE("the tokens that are given decide the outputs") {
  // The logits were recorded for other tokens.
  const std::string recorded =
      "tests/data/checkpoints/gpt2.expected.safetensors";
  CHECK(ran(gpt2({"--expect", recorded})).code == 0);
  const Ran other =
      ran(gpt2({"--expect", recorded, "--input-ids",
                "1,2,3,4,5,6,7,8,9,10,11,12;1,2,3,4,5,6,7,8,9,10,11,12"}));
  CHECK(other.code == 1);
  CHECK(other.out.find("SP511") != std::string::npos);
  const Ran beyond = ran(gpt2({"--input-ids", "1,1000000"}));
  CHECK(beyond.code == 2);
  CHECK(beyond.out.find("token 1000000 is not in the vocabulary") !=
        std::string::npos);
}

struct SimulateVariantsRan {
  std::string out;
  std::string err;
  std::map<std::string, std::string> files;
};

SimulateVariantsRan simulate_variants_ran(std::vector<std::string> more,
                                          int expected) {
  testing::MemoryHost host;
  const auto disk = make_real_host();
  host.below = disk.get();
  host.below_root = source_dir();
  std::vector<std::string> words = {
      "simulate", "tests/data/checkpoints/mistral",
      "--rules",  "@mistral",
      "--mesh",   "fsdp=2,tp=2",
      "--json"};
  words.insert(words.end(), more.begin(), more.end());
  const int code = run(words, host);
  CHECK_MESSAGE(code == expected, host.err, host.out);
  return {host.out, host.err, host.files};
}

std::vector<std::string> column(const nlohmann::json& report, const char* table,
                                const char* key) {
  std::vector<std::string> cells;
  for (const auto& row : report["tables"][table]) {
    cells.push_back(row[key].is_string() ? row[key].get<std::string>()
                                         : row[key].dump());
  }
  return cells;
}

TEST_CASE("smaller sizes of an axis are run, the same values in all") {
  const auto host = simulate_variants_ran(
      {"--dtype", "bf16", "--layers", "1", "--vary", "tp"}, 0);
  const auto report = nlohmann::json::parse(host.out);
  CHECK(column(report, "precision", "mesh").size() == 2);
  // What is unsharded does not depend on the mesh.
  const auto unsharded = column(report, "precision", "unsharded");
  REQUIRE(unsharded.size() == 2);
  CHECK(unsharded[0] == unsharded[1]);
  CHECK(column(report, "precision", "dtype") ==
        std::vector<std::string>{"bf16", "bf16"});
}

TEST_CASE("every algorithm that can make the sums is run") {
  const auto host =
      simulate_variants_ran({"--layers", "1", "--vary", "algorithm"}, 0);
  const auto names =
      column(nlohmann::json::parse(host.out), "precision", "algorithm");
  REQUIRE(names.size() > 3);
  CHECK(names[0] == "ring");
  // Only along several axes; there is one.
  for (const std::string& name : names) CHECK(name != "hierarchical");
}

TEST_CASE("what cannot be varied is refused") {
  const auto host = simulate_variants_ran({"--vary", "pt"}, 2);
  CHECK(host.out.find("--vary takes a mesh axis or `algorithm`, not `pt`") !=
        std::string::npos);
  CHECK(host.out.find("did you mean `tp`?") != std::string::npos);
}

TEST_CASE("a picture of the errors is written") {
  const auto host =
      simulate_variants_ran({"--layers", "2", "--plot", "errors.svg"}, 0);
  REQUIRE(host.files.count("errors.svg") == 1);
  CHECK(host.files.at("errors.svg").find("<svg") == 0);
  CHECK(simulate_variants_ran({"--values", "field", "--plot", "errors.svg"}, 2)
            .out.find("--plot shows rounding errors") != std::string::npos);
}

}  // namespace

}  // namespace shardplan::cli
