// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "tests/support/memory_host.h"

namespace shardplan::cli {
namespace {

using nlohmann::json;
using shardplan::testing::MemoryHost;

// Two equal layers, one other tensor, one buffer, facts.
MemoryHost sample() {
  MemoryHost host;
  host.variables["LANG"] = "C.UTF-8";
  host.files["m.json"] = R"({
    "name": "sample",
    "facts": {"heads": 4, "head_dim": 2, "windows": [8, 0, 16, 8]},
    "parameters": {
      "layers/0/w": {"shape": [8, 16], "dtype": "bf16"},
      "layers/1/w": {"shape": [8, 16], "dtype": "bf16"},
      "embed": {"shape": [100, 8], "dtype": "f32"},
      "mask": {"shape": [4, 4], "dtype": "bool", "buffer": true}
    }})";
  return host;
}

json inspected(std::vector<std::string> words = {}) {
  MemoryHost host = sample();
  words.insert(words.begin(), {"inspect", "m.json", "--json"});
  CHECK(run(words, host) == 0);
  return json::parse(host.out);
}

TEST_CASE("the summary counts parameters and keeps buffers apart") {
  const json summary = inspected().at("summary");
  const json expected = {{"name", "sample"},    {"format", "native"},
                         {"tensors", 3},        {"total_parameters", 1056},
                         {"total_bytes", 3712}, {"buffers", 16},
                         {"buffer_tensors", 1}, {"buffer_bytes", 16}};
  CHECK(summary == expected);
}

TEST_CASE("programs get every tensor, whatever people are shown") {
  const json report = inspected();
  const json& rows = report.at("tables").at("parameters");
  REQUIRE(rows.size() == 3);
  const json first = {{"parameter", "layers/0/w"},
                      {"dtype", "bf16"},
                      {"shape", {8, 16}},
                      {"elements", 128},
                      {"bytes", 256}};
  CHECK(rows[0] == first);
  CHECK(inspected({"--expand"}) == report);
}

TEST_CASE("sums by dtype lead with the largest") {
  const json rows = inspected().at("tables").at("dtypes");
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].at("dtype") == "f32");
  CHECK(rows[0].at("bytes") == 3200);
  CHECK(rows[1].at("tensors") == 2);
  CHECK(rows[1].at("elements") == 256);
  CHECK(rows[1].at("bytes") == 512);
}

TEST_CASE("the largest tensors come in order, ties in the manifest's") {
  const json rows = inspected().at("tables").at("largest");
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].at("parameter") == "embed");
  CHECK(rows[1].at("parameter") == "layers/0/w");
  CHECK(rows[2].at("parameter") == "layers/1/w");
}

TEST_CASE("no more than ten of the largest are shown") {
  MemoryHost host;
  std::string text = "{";
  for (int i = 1; i <= 12; ++i) {
    text += (i > 1 ? "," : "") + ("\"w" + std::to_string(i) + "\"") +
            ":{\"dtype\":\"u8\",\"shape\":[" + std::to_string(i) + "]}";
  }
  host.files["m.json"] = text + "}";
  CHECK(run({"inspect", "m.json", "--json"}, host) == 0);
  const json rows = json::parse(host.out).at("tables").at("largest");
  REQUIRE(rows.size() == 10);
  CHECK(rows[0].at("bytes") == 12);
  CHECK(rows[9].at("bytes") == 3);
}

TEST_CASE("facts say where they come from") {
  const json rows = inspected().at("tables").at("facts");
  const json heads = {{"fact", "heads"}, {"value", 4}, {"from", "manifest"}};
  REQUIRE(rows.size() == 3);
  CHECK(rows[0] == heads);
  CHECK(rows[2].at("value") == "8 on 2, 16 on 1 of 4 layers");
}

TEST_CASE("people see layers folded, or all of them with --expand") {
  MemoryHost host = sample();
  CHECK(run({"inspect", "m.json"}, host) == 0);
  CHECK(host.out.starts_with(
      "m.json: 3 parameters, 1,056 elements, 3.62 KiB (native); "
      "1 buffer of 16 B beside them\n"));
  CHECK(host.out.find("layers/*/w  ×2") != std::string::npos);
  CHECK(host.out.find("layers/1/w") == std::string::npos);
  host.out.clear();
  CHECK(run({"inspect", "m.json", "--expand"}, host) == 0);
  CHECK(host.out.find("layers/1/w") != std::string::npos);
  CHECK(host.out.find("layers/*/w") == std::string::npos);
  host.out.clear();
  CHECK(run({"inspect", "m.json", "--exact"}, host) == 0);
  CHECK(
      host.out.starts_with("m.json: 3 parameters, 1056 elements, 3712 bytes"));
}

TEST_CASE("a model that cannot be read is no answer") {
  MemoryHost host;
  CHECK(run({"inspect", "missing.json"}, host) == 2);
  CHECK(host.err.find("error[SP001]") != std::string::npos);
  CHECK(host.out.empty());
}

}  // namespace
}  // namespace shardplan::cli
