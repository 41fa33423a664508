// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/planning.h"

namespace shardplan::cli {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using testing::MemoryHost;
using testing::planning_host;
using testing::report_of;
using testing::run_on;

TEST_CASE("the summary has the contract's keys, in order") {
  MemoryHost host = planning_host();
  run_on(host, {"resolve", "--json"}, "fsdp=2,tp=2");
  const auto summary = ordered_json::parse(host.out).at("summary");
  std::string keys;
  for (const auto& [key, value] : summary.items()) keys += key + " ";
  CHECK(keys ==
        "tensors sharded_tensors total_parameters sharded_parameters "
        "total_bytes devices mesh memory_per_device balance_score efficiency "
        "replication_factor padding_bytes replicated_fraction corrections "
        "errors warnings fingerprint ");
  CHECK(summary.at("tensors") == 7);
  CHECK(summary.at("sharded_tensors") == 5);
  CHECK(summary.at("total_parameters") == 33 * 16 + 2 * (512 + 256) + 16 + 1);
  CHECK(summary.at("fingerprint").get<std::string>().size() == 64);
}

TEST_CASE("every correction is a row") {
  const json rows =
      report_of({"resolve"}, "fsdp=2,tp=2").at("tables").at("corrections");
  const json expected = {{{"parameter", "embed/embedding"},
                          {"dim", 0},
                          {"code", "SP203"},
                          {"dropped", {"tp"}},
                          {"reason", "33 is not divisible by tp=2"}}};
  CHECK(rows == expected);
}

TEST_CASE("rules say in how many names they were found and what they won") {
  MemoryHost host = planning_host();
  host.files["rules.yaml"] += "  - [\"k_proj/kernel\", []]\n";
  const json rows =
      report_of({"resolve"}, "fsdp=2,tp=2", host).at("tables").at("rules");
  REQUIRE(rows.size() == 4);
  CHECK(rows[1].at("found") == 4);
  CHECK(rows[1].at("won") == 4);
  CHECK(rows[1].at("shadowed_by") == json::array());
  CHECK(rows[3].at("found") == 2);
  CHECK(rows[3].at("won") == 0);
  CHECK(rows[3].at("shadowed_by") == json::array({2}));
  CHECK(rows[3].at("file") == "rules.yaml");
  CHECK(rows[3].at("line") == 5);
}

TEST_CASE("people see layers folded, and unfolded with --expand") {
  MemoryHost host = planning_host();
  run_on(host, {"resolve", "--tolerance", "1"}, "fsdp=2,tp=2");
  CHECK(host.out.find("layers/*/self_attn/q_proj/kernel  ×2") !=
        std::string::npos);
  CHECK(host.out.find("layers/0/") == std::string::npos);
  CHECK(host.out.find("~ corrected: 1 dimension is not divisible by its axes "
                      "(SP203)") != std::string::npos);
  MemoryHost expanded = planning_host();
  run_on(expanded, {"resolve", "--expand"}, "fsdp=2,tp=2");
  CHECK(expanded.out.find("layers/1/self_attn/q_proj/kernel") !=
        std::string::npos);
  CHECK(expanded.out.find("layers/*") == std::string::npos);
}

TEST_CASE("what is stored as declared is a row, and silent without") {
  const json plain = report_of({"resolve"}, "fsdp=2,tp=4").at("tables");
  CHECK(!plain.contains("declared"));
  const json report =
      report_of({"resolve", "--declare", "replicate-kv-heads"}, "fsdp=2,tp=4");
  // k_proj has two KV heads of 8 columns.
  const json rows = report.at("tables").at("declared");
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].at("parameter") == "layers/0/self_attn/k_proj/kernel");
  CHECK(rows[0].at("dim") == 1);
  CHECK(rows[0].at("logical") == 16);
  CHECK(rows[0].at("stored") == 32);
  CHECK(rows[0].at("why") ==
        "replicate-kv-heads: one of 2 KV heads on each of 4 shards");
  // 16 x 16 bf16 twice over, for each of two layers.
  CHECK(report.at("summary").at("padding_bytes") == 2 * 16 * 16 * 2);
  CHECK(report.at("summary").at("total_bytes") ==
        report_of({"resolve"}, "fsdp=2,tp=4").at("summary").at("total_bytes"));
}

TEST_CASE("a declaration is said to apply, or not to") {
  MemoryHost host = planning_host();
  run_on(host,
         {"check", "--declare", "replicate-kv-heads", "--declare",
          "interleave-qkv", "--exit-zero"},
         "fsdp=2,tp=4");
  CHECK(host.out.find("2 dimensions stored by replicate-kv-heads: one of 2 KV "
                      "heads on each of 4 shards") != std::string::npos);
  CHECK(host.out.find("`interleave-qkv` was declared, but changes no "
                      "dimension here") != std::string::npos);
}

}  // namespace
}  // namespace shardplan::cli
