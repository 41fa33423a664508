// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/real_host.h"
#include "io/dialects/dialects.h"
#include "tests/support/planned_model.h"
#include "tests/support/messages.h"
#include "tests/support/resolved.h"

namespace shardplan {
namespace {

std::string rules_text(const std::string& text, AxisNames axes = {}) {
  Diagnostics diags;
  RuleSet rules;
  const bool good = kShardy.read(std::make_shared<SourceFile>("r", text),
                                 {std::nullopt, axes}, rules, diags);
  std::string all = good ? "" : "refused\n";
  for (const Rule& rule : rules.rules) {
    all += rule.pattern + " -> " + spec_text(rule.spec) + "\n";
  }
  if (rules.mesh) {
    for (const AxisRequest& axis : *rules.mesh) {
      all += axis.name + "=" + std::to_string(axis.size) + " ";
    }
  }
  return all + testing::messages(diags);
}

TEST_CASE("what JAX lowered has the specs that were passed to it") {
  const auto record =
      testing::read_json(testing::data_path("stablehlo/arguments.json"));
  const auto host = make_real_host();
  for (const char* file : {"shardy.mlir", "gspmd.mlir"}) {
    CAPTURE(file);
    Diagnostics diags;
    const std::vector<std::string> paths = {
        testing::data_path(std::string("stablehlo/") + file).string()};
    const RuleReading reading = {std::nullopt, {"dp", "fsdp", "tp"}};
    const auto rules = load_rules(paths, std::nullopt, reading, *host, diags);
    REQUIRE_MESSAGE(rules, testing::messages(diags));
    CHECK(make_mesh(*rules->mesh, std::nullopt, {}, diags) ==
          testing::mesh("dp=2,fsdp=2,tp=2"));
    for (const auto& row : record) {
      CAPTURE(row.dump());
      Manifest one;
      REQUIRE(one.add(row.at("name").get<std::string>(),
                      {DType::F32, row.at("shape").get<Shape>()}, {}));
      const auto spec = testing::spec_by_rules(*rules, one, 0);
      // JAX says nothing of scalars.
      if (row.at("shape").empty()) {
        CHECK_FALSE(spec);
      } else {
        CHECK(spec ==
              testing::without_trailing(testing::spec_of(row.at("spec"))));
      }
    }
  }
}

constexpr const char* kMesh = "sdy.mesh @m = <[\"a\"=2, \"b\"=2]>\n";

TEST_CASE("each argument with a sharding has a rule") {
  CHECK(rules_text(std::string(kMesh) +
                   "func.func @main(%p: tensor<4x4xf32> {sdy.sharding = "
                   "#sdy.sharding<@m, [{\"b\"}, {?}]>} loc(\"x.0\"), %q: "
                   "tensor<4xf32>)") == "^x\\.0$ -> P(b, ?)\na=2 b=2 ");
}

TEST_CASE("what a spec does not keep is noted") {
  CHECK(rules_text("sdy.mesh @m = <[\"a\"=2], device_ids=[1, 0]>\n"
                   "func.func @main(%p: tensor<4xf32> {sdy.sharding = "
                   "#sdy.sharding<@m, [{\"a\", ?}p1]>})") ==
        "^p$ -> P(a)\na=2 "
        "SP014 note r:1:15 the order of devices is not kept\n"
        "SP014 note r:2:51 open dimensions are read as closed\n"
        "SP014 note r:2:51 priorities of shardings are not kept");
}

TEST_CASE("axes of mhlo.sharding are named on the command line") {
  const std::string module =
      "module @m attributes {mhlo.num_partitions = 4 : i32} {\n"
      "func.func @main(%p: tensor<4x4xf32> {mhlo.sharding = "
      "\"{devices=[2,2]<=[2,2]T(1,0)}\"}, %q: tensor<f32> {mhlo.sharding = "
      "\"{replicated}\"})}";
  CHECK(rules_text(module, {"x", "y"}) ==
        "^p$ -> P(y, x)\n^q$ -> P()\nx=2 y=2 ");
  CHECK(rules_text(module) ==
        "refused\nSP002 r:2:54 `mhlo.sharding` has no names of axes");
  CHECK(rules_text(module, {"x"}) ==
        "refused\nSP002 r:2:54 1 name is given for 2 axes");
  CHECK(rules_text("module attributes {mhlo.num_partitions = 8 : i32} {" +
                       module.substr(module.find('\n')),
                   {"x", "y"}) ==
        "refused\nSP002 r:2:54 a sharding is not over all devices");
}

TEST_CASE("a module without shardings, or with both kinds, is refused") {
  CHECK(rules_text("func.func @main(%p: tensor<4xf32>)") ==
        "refused\nSP006 r:1:1 no argument of the module has a sharding");
  CHECK(rules_text(std::string(kMesh) +
                   "func.func @main(%p: tensor<f32> {sdy.sharding = "
                   "#sdy.sharding<@m, []>}, %q: tensor<f32> {mhlo.sharding = "
                   "\"{replicated}\"})") ==
        "refused\nSP014 r:1:1 some arguments have `sdy.sharding`, others "
        "`mhlo.sharding`");
}

}  // namespace
}  // namespace shardplan
