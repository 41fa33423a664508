// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/exported.h"

namespace shardplan {
namespace {

using testing::exported;
using testing::Exporting;

Exporting model() {
  return {
      testing::manifest({{"layers/0/w", "f32[8, 8]"},
                         {"layers/1/w", "f32[8, 8]"},
                         {"norm", "f32[7]"}}),
      testing::rules({{"\\d/w$", "(fsdp, sp), tp"}, {"norm", "sp"}}, {"sp"}),
      testing::mesh("fsdp=2,tp=2")};
}

TEST_CASE("rules of mesh axes are written, without axes the mesh lacks") {
  CHECK(exported("python", model()) ==
        R"py(# Partition rules, as given; `shardplan export --to python`.
# model: m.json
# mesh: fsdp=2,tp=2
# declared axes that the mesh lacks are left out: sp
from jax.sharding import PartitionSpec

RULES = (
    (r"\d/w$", PartitionSpec("fsdp", "tp")),
    ("norm", PartitionSpec(None)),
)
)py");
}

TEST_CASE("rules that name other axes become one entry per layer") {
  const char* const specs[] = {"EMBED, fsdp", "logical:mlp, tp", "mlp, tp",
                               "mesh:fsdp, tp"};
  for (const char* spec : specs) {
    CAPTURE(spec);
    Exporting what = model();
    what.rules.rules[0].spec = testing::spec(spec);
    what.rules.logical_rules = {{"mlp", {"fsdp"}, {}, {}}};
    const std::string text = exported("python", what);
    CHECK(text.find("# the rules name axes that are none of the mesh\n") !=
          std::string::npos);
    CHECK(text.find("    (\"^layers/[0-9]+/w$\", PartitionSpec(") !=
          std::string::npos);
  }
}

// An axis was written twice where the plan used it once.
TEST_CASE("rules that use an axis twice become one entry per layer") {
  Exporting what = model();
  for (const char* spec : {"tp, tp", "(tp, tp)", "tp, mesh:tp", "HEAD, tp"}) {
    CAPTURE(spec);
    what.rules.rules[0].spec = testing::spec(spec);
    const std::string text = exported("python", what);
    CHECK(text.find("# Partition rules, one per parameter or layer") == 0);
    CHECK(text.find("    (\"^layers/[0-9]+/w$\", PartitionSpec(\"tp\", "
                    "None)),\n") != std::string::npos);
  }
  // Nor by a rule that decides nothing.
  what = model();
  what.rules.rules.push_back(what.rules.rules[0]);
  what.rules.rules.back().spec = testing::spec("tp, None, tp");
  CHECK(exported("python", what).find("(SP202)") != std::string::npos);
  // The sound twin is written as it is.
  what.rules.rules.back().spec = testing::spec("tp, None, fsdp");
  CHECK(exported("python", what).find("(r\"\\d/w$\"") != std::string::npos);
}

TEST_CASE("an unknown axis stays: its reader meets the same mistake") {
  Exporting what = model();
  what.rules.rules[0].spec = testing::spec("model");
  CHECK(exported("python", what).find("PartitionSpec(\"model\")") !=
        std::string::npos);
}

TEST_CASE("without rules or parameters the table is empty") {
  CHECK(exported("python", {testing::manifest({}), testing::rules({}),
                            testing::mesh("tp=2")})
            .ends_with("\nRULES = ()\n"));
}

}  // namespace
}  // namespace shardplan
