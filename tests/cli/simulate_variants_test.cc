// SPDX-License-Identifier: Apache-2.0
#include "cli/simulate_variants.h"

#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/real_host.h"
#include "tests/support/memory_host.h"
#include "tests/support/source_dir.h"

namespace shardplan::cli {
namespace {

struct Ran {
  std::string out;
  std::string err;
  std::map<std::string, std::string> files;
};

Ran ran(std::vector<std::string> more, int expected) {
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
  const auto host =
      ran({"--dtype", "bf16", "--layers", "1", "--vary", "tp"}, 0);
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
  const auto host = ran({"--layers", "1", "--vary", "algorithm"}, 0);
  const auto names =
      column(nlohmann::json::parse(host.out), "precision", "algorithm");
  REQUIRE(names.size() > 3);
  CHECK(names[0] == "ring");
  // Only along several axes; there is one.
  for (const std::string& name : names) CHECK(name != "hierarchical");
}

TEST_CASE("what cannot be varied is refused") {
  const auto host = ran({"--vary", "pt"}, 2);
  CHECK(host.out.find("--vary takes a mesh axis or `algorithm`, not `pt`") !=
        std::string::npos);
  CHECK(host.out.find("one with a similar name is `tp`") != std::string::npos);
}

TEST_CASE("a picture of the errors is written") {
  const auto host = ran({"--layers", "2", "--plot", "errors.svg"}, 0);
  REQUIRE(host.files.count("errors.svg") == 1);
  CHECK(host.files.at("errors.svg").find("<svg") == 0);
  CHECK(ran({"--values", "field", "--plot", "errors.svg"}, 2)
            .out.find("--plot is about rounding") != std::string::npos);
}

}  // namespace
}  // namespace shardplan::cli
