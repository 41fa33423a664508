// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/exported.h"

namespace shardplan {
namespace {

using testing::exported;
using testing::Exporting;

Exporting model() {
  Exporting what{testing::manifest({{"wi", "f32[8, 8]"}}), testing::rules({}),
                 testing::mesh("data=4,fsdp=2,tensor=1")};
  what.rules.logical_rules = {{"embed", {"fsdp"}, {}, {}},
                              {"batch", {"data", "fsdp"}, {}, {}},
                              {"norm", {}, {}, {}}};
  what.rules.dcn_mesh = {{"data", 2, {}, {}, {}},
                         {"fsdp", 1, {}, {}, {}},
                         {"tensor", 1, {}, {}, {}}};
  return what;
}

TEST_CASE("axes, rules and sizes within and over slices are written") {
  CHECK(exported("maxtext", model()) ==
        R"(# Logical axis rules, as given; `shardplan export --to maxtext`.
# model: m.json
# mesh: data=4,fsdp=2,tensor=1
mesh_axes: [data, fsdp, tensor]
logical_axis_rules:
  - [embed, fsdp]
  - [batch, [data, fsdp]]
  - [norm, []]
ici_data_parallelism: 2
ici_fsdp_parallelism: 2
ici_tensor_parallelism: 1
dcn_data_parallelism: 2
dcn_fsdp_parallelism: 1
dcn_tensor_parallelism: 1
)");
}

TEST_CASE("the axis of stages has the size of pipeline parallelism") {
  Exporting what = model();
  what.mesh = testing::mesh("stage=4,data=4,fsdp=2");
  const std::string text = exported("maxtext", what);
  CHECK(text.find("mesh_axes: [stage, data, fsdp]\n") != std::string::npos);
  CHECK(text.find("ici_pipeline_parallelism: 4\n") != std::string::npos);
  CHECK(text.find("stage_parallelism") == std::string::npos);
}

TEST_CASE("a rule without a name, or by pattern, cannot be said") {
  Exporting what = model();
  what.rules.logical_rules[0].name.reset();
  CHECK(exported("maxtext", what) ==
        "SP014 `maxtext` has no rule for dimensions without a name");
  what.rules = testing::rules({{"wi", "tp"}});
  CHECK(exported("maxtext", what) ==
        "SP014 rules:1:1 `maxtext` has no rules by pattern, such as `wi`");
}

}  // namespace
}  // namespace shardplan
