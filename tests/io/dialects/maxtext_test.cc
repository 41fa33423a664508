// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "io/dialects/dialects.h"
#include "io/load.h"
#include "tests/support/memory_host.h"

namespace shardplan {
namespace {

struct Read {
  bool good = false;
  RuleSet rules;
  Diagnostics diags;
};

Read read(const std::string& text) {
  Read result;
  CHECK(kMaxText.recognize(text));
  result.good = kMaxText.read(std::make_shared<SourceFile>("base.yml", text),
                              {}, result.rules, result.diags);
  CHECK(result.good != result.diags.has_errors());
  return result;
}

std::string sizes(const std::vector<AxisRequest>& axes) {
  std::string all;
  for (const AxisRequest& axis : axes) {
    all += axis.name + "=" + std::to_string(axis.size) + " ";
  }
  return all;
}

std::string names(const RuleSet& rules) {
  std::string all;
  for (const LogicalRule& rule : rules.logical_rules) {
    all += rule.name.value_or("") + "=" + axes_text(rule.axes) + " ";
  }
  return all;
}

TEST_CASE("a config gives mesh, slices and rules; other keys are passed over") {
  const Read result = read(
      "run_name: test\n"
      "mesh_axes: ['data', 'fsdp', 'tensor']\n"
      "logical_axis_rules: [['embed', ['fsdp']], ['mlp', 'tensor'],\n"
      "                     ['kv', []]]\n"
      "data_sharding: [['data', 'fsdp']]\n"
      "ici_fsdp_parallelism: -1\n"
      "ici_tensor_parallelism: 4\n"
      "dcn_data_parallelism: 2\n"
      "ici_context_parallelism: 1\n"
      "learning_rate: 3.e-5\n");
  REQUIRE(result.good);
  CHECK(sizes(*result.rules.mesh) == "data=1 fsdp=-1 tensor=4 ");
  CHECK(sizes(result.rules.dcn_mesh) == "data=2 fsdp=1 tensor=1 ");
  CHECK(names(result.rules) == "embed=fsdp mlp=tensor kv=None ");
  CHECK(result.rules.declared_axes == AxisNames{"data", "fsdp", "tensor"});
}

TEST_CASE("pipeline parallelism is the size of the axis of stages") {
  const Read result = read(
      "mesh_axes: [stage, fsdp]\nici_pipeline_parallelism: 4\n"
      "dcn_pipeline_parallelism: 2\n");
  REQUIRE(result.good);
  CHECK(sizes(*result.rules.mesh) == "stage=4 fsdp=1 ");
  CHECK(sizes(result.rules.dcn_mesh) == "stage=2 fsdp=1 ");
}

TEST_CASE("a parallelism that the mesh has no axis for is refused") {
  const Read result = read(
      "mesh_axes: [data]\nlogical_axis_rules: []\n"
      "ici_tensor_parallelism: 4\n");
  CHECK(result.diags.all().front().message ==
        "`mesh_axes` has no axis `tensor`");
  CHECK_FALSE(read("mesh_axes: [data]\nici_data_parallelism: two\n").good);
  CHECK_FALSE(read("ici_data_parallelism: 2\n").good);
  CHECK_FALSE(read("mesh_axes: data\n").good);
}

std::string merged(const std::string& second) {
  testing::MemoryHost host;
  host.files["base.yml"] =
      "mesh_axes: [data, fsdp]\n"
      "logical_axis_rules: [[embed, fsdp], [mlp, data], [embed, data]]\n";
  host.files["model.yml"] = second;
  Diagnostics diags;
  const std::vector<std::string> paths = {"base.yml", "model.yml"};
  const auto rules = load_rules(paths, "maxtext", {}, host, diags);
  REQUIRE(rules.has_value());
  return names(*rules);
}

TEST_CASE("a later config replaces the rules of the same names") {
  CHECK(merged("logical_axis_rules: [[embed, []], [vocab, data]]\n") ==
        "mlp=data embed=None vocab=data ");
  CHECK(merged("override_logical_axis_rules: true\n"
               "logical_axis_rules: [[vocab, data]]\n") == "vocab=data ");
  CHECK(merged("mesh_axes: [data]\nlogical_axis_rules: [[vocab, data]]\n") ==
        "vocab=data ");
}

TEST_CASE("our own rules files are not MaxText's") {
  CHECK_FALSE(kMaxText.recognize("axes: [tp]\nrules: []\n"));
  CHECK_FALSE(kMaxText.recognize("logical_axis_rules: [[a, b]]\n"));
}

}  // namespace
}  // namespace shardplan
