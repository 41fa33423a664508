// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/exported.h"

namespace shardplan {
namespace {

using testing::exported;
using testing::Exporting;

Exporting model() {
  Exporting what{testing::manifest({{"wi", "f32[8, 8]"},
                                    {"scale", "f32[8]"},
                                    {"step", "i32[]"},
                                    {"other", "f32[8]"}}),
                 testing::rules({}), testing::mesh("fsdp=2,tp=2")};
  what.model.set_axes(0, {"embed", "mlp"});
  what.model.set_axes(1, {std::nullopt});
  what.model.set_axes(2, {});
  what.rules.logical_rules = {{"embed", {"fsdp"}, {}, {}},
                              {"mlp", {"fsdp", "tp"}, {}, {}},
                              {"norm", {}, {}, {}},
                              {std::nullopt, {"tp"}, {}, {}}};
  return what;
}

TEST_CASE("logical axis rules come with the axes of the parameters") {
  CHECK(exported("flax", model()) ==
        R"py(# Logical axis rules, as given; `shardplan export --to flax`.
# model: m.json
# mesh: fsdp=2,tp=2
# 1 parameter without logical axes in the model: left out
LOGICAL_AXIS_RULES = (
    ("embed", "fsdp"),
    ("mlp", ("fsdp", "tp")),
    ("norm", None),
    (None, "tp"),
)

LOGICAL_AXES = {
    "wi": ("embed", "mlp"),
    "scale": (None,),
    "step": (),
}
)py");
}

TEST_CASE("what is no logical axis rule cannot be said") {
  Exporting what = model();
  what.rules = testing::rules({{"wi", "tp"}, {"o", "tp"}});
  CHECK(exported("flax", what) ==
        "SP014 rules:1:1 `flax` has no rules by pattern, such as `wi` and 1 "
        "more");
  what.rules = RuleSet();
  CHECK(exported("flax", what) ==
        "SP014 `flax` needs logical axis rules, and there are none");
  what.saved = true;
  CHECK(exported("flax", what) ==
        "SP014 `flax` needs logical axis rules: a saved plan has no rules");
  what = model();
  what.rules.logical_reading = LogicalReading::Mapping;
  CHECK(exported("flax", what) ==
        "SP014 `flax` gives a mesh axis once, by priority, and this is a "
        "mapping, which gives it to every name");
}

TEST_CASE("an axis that the plan uses once is not written twice") {
  for (const char* target : {"flax", "maxtext"}) {
    Exporting what = model();
    what.rules.logical_rules.resize(3);
    what.rules.logical_rules[1].axes = {"tp", "tp"};
    CHECK(
        exported(target, what)
            .find(
                "` cannot say what the plan makes of (tp, tp), which names an "
                "axis twice") != std::string::npos);
    what.rules.logical_rules[1].axes = {"tp"};
    CHECK(exported(target, what).find("SP014") == std::string::npos);
  }
}

TEST_CASE("axes are declared by having them") {
  Exporting what = model();
  what.rules.declared_axes = {"tp", "sp"};
  what.rules.logical_rules[1].axes = {"fsdp", "sp"};
  CHECK(exported("flax", what) ==
        "SP014 `flax` declares no axes, and the mesh has no `sp`");
  what.mesh = testing::mesh("fsdp=2,tp=2,sp=1");
  CHECK(exported("flax", what).find("(\"mlp\", (\"fsdp\", \"sp\"))") !=
        std::string::npos);
}

TEST_CASE("activations and slices are left out with a note") {
  Exporting what = model();
  what.rules.activations = testing::rules({{"hidden", "tp"}}).rules;
  what.rules.activations[0].where = {};
  what.rules.dcn_mesh = {{"fsdp", 2, {}, {}, {}}, {"tp", 1, {}, {}, {}}};
  CHECK(exported("flax", what)
            .ends_with(
                "}\nSP014 note `flax` leaves the specs of activations out\n"
                "SP014 note `flax` does not say which axes span slices"));
}

}  // namespace
}  // namespace shardplan
