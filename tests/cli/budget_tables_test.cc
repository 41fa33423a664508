// SPDX-License-Identifier: Apache-2.0
#include "cli/budget_tables.h"

#include <map>
#include <string>

#include <doctest/doctest.h>

#include "tests/support/planning.h"

namespace shardplan::cli {
namespace {

using testing::report_of;

TEST_CASE("the tables hold the identity of bytes, and add up") {
  const auto report = report_of(
      {"analyze", "--optimizer", "adamw", "--memory", "1MiB", "--exit-zero"},
      "fsdp=2,tp=2");
  const auto& tables = report["tables"];
  int64_t stored = 0;
  for (const auto& row : tables["memory"]) {
    stored +=
        row["bytes_per_device"].get<int64_t>() * row["devices"].get<int64_t>();
  }
  int64_t total = 0;
  for (const auto& row : tables["memory_totals"]) {
    const auto bytes = row["stored_bytes"].get<int64_t>();
    CHECK(bytes == row["replicated_bytes"].get<int64_t>() +
                       row["padding_bytes"].get<int64_t>());
    total += bytes;
  }
  CHECK(stored == total);
  // One class, so all devices hold what the fullest does.
  const auto& summary = report["summary"];
  CHECK(summary["memory_needed"].get<int64_t>() * 4 == total);
  CHECK(summary["memory_limit"] == 1024 * 1024);
  CHECK(summary["headroom"].get<int64_t>() ==
        1024 * 1024 - summary["memory_needed"].get<int64_t>());
  CHECK(summary["fits"] == true);
  // The scalar `step` is no floating point.
  for (const auto& row : tables["state"]) {
    if (row["role"] == "param") continue;
    if (row["role"] == "count") continue;
    CHECK(row["tensors"] <= 6);
  }
}

TEST_CASE("without a limit nothing is said of fitting") {
  const auto summary = report_of({"analyze"}, "fsdp=2,tp=2")["summary"];
  CHECK(summary["fits"].is_null());
  CHECK(summary["headroom"].is_null());
  CHECK(summary["memory_limit"].is_null());
}

TEST_CASE("stages are a table, and classes lead with the fullest") {
  const auto tables = report_of({"analyze", "--stages", "pp", "--exit-zero"},
                                "pp=2,fsdp=1,tp=1")["tables"];
  REQUIRE(tables["stages"].size() == 2);
  CHECK(tables["stages"][0]["layers"] == 1);
  int64_t before = INT64_MAX;
  std::map<int64_t, int64_t> of_class;
  for (const auto& row : tables["memory"]) {
    of_class[row["class"].get<int64_t>()] +=
        row["bytes_per_device"].get<int64_t>();
  }
  CHECK(of_class.size() == 2);
  for (const auto& entry : of_class) {
    CHECK(entry.second <= before);
    before = entry.second;
  }
}

TEST_CASE("what is left out is noted") {
  testing::MemoryHost host = testing::planning_host();
  testing::run_on(host, {"analyze", "--optimizer", "muon", "--exit-zero"},
                  "fsdp=1");
  CHECK(host.out.find("1 parameter of 4 B in all") != std::string::npos);
  CHECK(host.out.find("muon keeps one moment for 5 matrices") !=
        std::string::npos);
  host = testing::planning_host();
  testing::run_on(host, {"analyze", "--mode", "decode", "--exit-zero"},
                  "fsdp=1");
  CHECK(host.out.find("no KV cache is counted") != std::string::npos);
}

}  // namespace
}  // namespace shardplan::cli
