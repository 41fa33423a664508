// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/planning.h"

namespace shardplan::cli {
namespace {

using nlohmann::json;
using testing::MemoryHost;
using testing::planning_host;
using testing::report_of;
using testing::run_on;

json steps(const std::string& name) {
  return report_of({"resolve", "--why", name}, "fsdp=2,tp=2")
      .at("tables")
      .at("why");
}

TEST_CASE("--why shows every rule, every dimension and the result") {
  const json rows = steps("embed/embedding");
  REQUIRE(rows.size() == 6);
  CHECK(rows[0].at("step") == "rule 1");
  CHECK(rows[0].at("outcome") == "decides");
  CHECK(rows[0].at("detail") == "rules.yaml:2");
  CHECK(rows[1].at("step") == "rules 2-3");
  CHECK(rows[1].at("subject") == "not found");
  CHECK(rows[2].at("subject") == "P(tp, fsdp)");
  CHECK(rows[3].at("outcome") ==
        "dropped `tp`: 33 is not divisible by tp=2 (SP203)");
  CHECK(rows[4].at("outcome") == "kept");
  CHECK(rows[5].at("subject") == "P(None, fsdp)");
  CHECK(rows[5].at("detail") == "local bf16[33, 8]");
}

TEST_CASE("--why says that a scalar asks no rule") {
  const json rows = steps("step");
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].at("step") == "scalar");
}

TEST_CASE("--why names what is near an unknown parameter") {
  MemoryHost host = planning_host();
  CHECK(run_on(host, {"resolve", "--why", "embed/embeding"}, "tp=2") == 2);
  CHECK(host.out.empty());
  CHECK(host.err.find("error[SP010]") == 0);
  CHECK(host.err.find("`embed/embedding`") != std::string::npos);
  CHECK(host.err.find("SP203") == std::string::npos);
}

TEST_CASE("--why shows what is stored as declared") {
  MemoryHost host = planning_host();
  run_on(host,
         {"resolve", "--declare", "replicate-kv-heads", "--why",
          "layers/0/self_attn/k_proj/kernel", "-q"},
         "fsdp=2,tp=4");
  CHECK(host.out.find("16 stored as 32") != std::string::npos);
  CHECK(host.out.find("32 / tp=4") != std::string::npos);
}

}  // namespace
}  // namespace shardplan::cli
