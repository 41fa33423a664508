// SPDX-License-Identifier: Apache-2.0
#include "tests/support/orbax.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "io/load.h"
#include "tests/support/loaded_rules.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"

namespace shardplan {
namespace {

using testing::named_sharding;

TEST_CASE("the shardings of a checkpoint are rules for its names") {
  testing::MemoryHost host;
  host.files["c/items/_METADATA"] = R"({"tree_metadata": {}})";
  host.files["c/items/_sharding"] =
      "{" + named_sharding("params.w", "fsdp=4,tp=2", R"("fsdp", ["tp"])") +
      "}";
  for (const char* path : {"c", "c/items", "c/items/_sharding"}) {
    CAPTURE(path);
    const auto result = testing::loaded_rules(host, path);
    REQUIRE(result->rules.has_value());
    REQUIRE(result->rules->rules.size() == 1);
    const Rule& rule = result->rules->rules[0];
    CHECK(rule.pattern == "^params[./]w$");
    CHECK(spec_text(rule.spec) == "P(fsdp, tp)");
    CHECK(testing::place_text(rule.where) == "c/items/_sharding:1:2");
    REQUIRE(result->rules->mesh.has_value());
    CHECK(result->rules->mesh->at(1).name == "tp");
    CHECK(result->diags.all().empty());
  }
  const auto metadata = testing::loaded_rules(host, "c/items/_METADATA");
  CHECK(testing::messages(metadata->diags) ==
        "SP006 `c/items/_METADATA` is an Orbax `_METADATA` (the `_sharding` "
        "beside it has rules), not rules");
}

TEST_CASE("broken shardings give no rules") {
  testing::MemoryHost host;
  host.files["_sharding"] =
      R"x({"dw==": "{\"sharding_type\": \"NamedSharding\"}"})x";
  const auto result = testing::loaded_rules(host, "_sharding");
  CHECK_FALSE(result->rules.has_value());
  CHECK(testing::messages(result->diags) ==
        "SP002 _sharding:1:10 the sharding of `w` is malformed: it has 0 names "
        "of axes and 0 sizes");
}

}  // namespace
}  // namespace shardplan
