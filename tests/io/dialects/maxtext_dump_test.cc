// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "io/load.h"
#include "tests/support/loaded_rules.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"

namespace shardplan {
namespace {

TEST_CASE("a named dump is rules for its names, and a mesh") {
  testing::MemoryHost host;
  host.files["d/named_shardings.json"] = R"({".params/['w']": {
    "mesh": {"axis_names": ["fsdp", "tp"], "shape": {"fsdp": 16, "tp": 1}},
    "partition_spec": [null, ["fsdp", "tp"]], "shape": [4, 16]}})";
  for (const char* path : {"d", "d/named_shardings.json"}) {
    CAPTURE(path);
    const auto result = testing::loaded_rules(host, path);
    REQUIRE(result->rules.has_value());
    REQUIRE(result->rules->rules.size() == 1);
    CHECK(result->rules->rules[0].pattern == "^params[./]w$");
    CHECK(spec_text(result->rules->rules[0].spec) == "P(None, (fsdp, tp))");
    CHECK(result->rules->mesh->at(0).size == 16);
    CHECK(result->diags.all().empty());
  }
}

TEST_CASE("a logical dump is no rules") {
  testing::MemoryHost host;
  host.files["l.json"] =
      R"({".params/['w']": {"partition_spec": ["embed"], "shape": [4]}})";
  const auto result = testing::loaded_rules(host, "l.json");
  CHECK(testing::messages(result->diags) ==
        "SP006 `l.json` has logical axes, not the specs they became");
  host.files["l.json"] = R"({"a": {"partition_spec": 1, "shape": [4]}})";
  CHECK_FALSE(testing::loaded_rules(host, "l.json")->rules.has_value());
}

}  // namespace
}  // namespace shardplan
