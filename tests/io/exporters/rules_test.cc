// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/exported.h"

namespace shardplan {
namespace {

using testing::exported;
using testing::Exporting;

Exporting model() {
  return {testing::manifest({{"layers/0/w", "f32[8, 8]"},
                             {"layers/1/w", "f32[8, 8]"},
                             {"norm", "f32[7]"},
                             {"odd\"name", "f32[8]"}}),
          testing::rules({{"\\bw$", "(fsdp, sp), tp"}, {"norm|name", "tp"}},
                         {"sp"}),
          testing::mesh("fsdp=2,tp=2")};
}

TEST_CASE("YAML holds the rules as they are, with what they come from") {
  CHECK(exported("yaml", model()) ==
        R"(# Partition rules, as given; `shardplan export --to yaml`.
# model: m.json
# mesh: fsdp=2,tp=2
axes: [sp]
mesh: {fsdp: 2, tp: 2}
rules:
  - ["\\bw$", [[fsdp, sp], tp]]
  - ["norm|name", [tp]]
)");
}

TEST_CASE("JSON holds the same without comments") {
  CHECK(exported("json", model()) == R"({
  "axes": ["sp"],
  "mesh": {"fsdp": 2, "tp": 2},
  "rules": [
    ["\\bw$", [["fsdp", "sp"], "tp"]],
    ["norm|name", ["tp"]]
  ]
}
)");
}

TEST_CASE("a plan without rules is a rule per parameter or layer") {
  Exporting what = model();
  what.saved = true;
  CHECK(
      exported("yaml", what) ==
      R"(# Partition rules, one per parameter or layer; `shardplan export --to yaml`.
# model: m.json
# mesh: fsdp=2,tp=2
# a saved plan has no rules
mesh: {fsdp: 2, tp: 2}
rules:
  - ["^layers/[0-9]+/w$", [fsdp, tp]]
  - ["^norm$", []]
  - ["^odd\"name$", [tp]]
)");
}

TEST_CASE("logical and semantic axes and activations are written as well") {
  Exporting what = model();
  what.rules.logical_rules = {{"embed", {"fsdp"}, {}, {}},
                              {"mlp", {"fsdp", "tp"}, {}, {}},
                              {"no", {}, {}, {}},
                              {std::nullopt, {"tp"}, {}, {}}};
  Diagnostics diags;
  what.rules.partition_axis =
      resolve_partition_axis(default_partition_axis(), diags);
  Rule activation;
  activation.pattern = "hidden";
  activation.spec = testing::spec("BATCH, None");
  what.rules.activations = {activation};
  const std::string text = exported("yaml", what);
  CHECK(text.find("logical_axis_rules:\n"
                  "  - [embed, fsdp]\n"
                  "  - [mlp, [fsdp, tp]]\n"
                  "  - [\"no\", null]\n"
                  "  - [null, tp]\n"
                  "partition_axis: {data_parallel_axis: dp, ") !=
        std::string::npos);
  CHECK(text.find("batch_axis: [fsdp, dp], sequence_axis: sp, ") !=
        std::string::npos);
  CHECK(text.ends_with("activations:\n  - [\"hidden\", [BATCH, null]]\n"));
  what.saved = true;
  CHECK(exported("yaml", what).find("activations") == std::string::npos);
}

TEST_CASE("rules that this format has no words for become the table") {
  Exporting what = model();
  what.rules.rules[0].from_last = true;
  CHECK(exported("yaml", what)
            .find("# the rules count dimensions from the "
                  "last\n") != std::string::npos);
  what = model();
  what.rules.logical_rules = {{"embed", {"fsdp"}, {}, {}}};
  what.rules.logical_reading = LogicalReading::Mapping;
  CHECK(exported("yaml", what)
            .find("# the rules give a mesh axis to several "
                  "names\n") != std::string::npos);
  what = model();
  what.how.on_indivisible = OnIndivisible::Prefix;
  what.rules =
      testing::rules({{"w", ""}, {"norm", ""}, {"name", "(tp, fsdp)"}});
  what.model = testing::manifest({{"name", "f32[6]"}});
  CHECK(exported("json", what) == R"({
  "mesh": {"fsdp": 2, "tp": 2},
  "rules": [
    ["^name$", ["tp"]]
  ]
}
)");
}

}  // namespace
}  // namespace shardplan
