// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "io/dialects.h"
#include "tests/support/loaded_rules.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"

namespace shardplan {
namespace {

struct Read {
  bool good = false;
  RuleSet rules;
  Diagnostics diags;

  std::string names() const {
    std::string all;
    for (const LogicalRule& rule : rules.logical_rules) {
      all += rule.name.value_or("") + "=" + axes_text(rule.axes) + " ";
    }
    return all;
  }
};

Read read(const std::string& text) {
  Read result;
  result.good = kLevanter.read(std::make_shared<SourceFile>("c.yaml", text), {},
                               result.rules, result.diags);
  CHECK(result.good != result.diags.has_errors());
  return result;
}

TEST_CASE("a trainer's axes are one mapping, in the order that they replace") {
  const Read result = read(
      "model: {type: llama}\n"
      "trainer:\n"
      "  axis_resources: {vocab: model, batch: data}\n"
      "  tensor_parallel_axes: [mlp, heads]\n"
      "  parameter_axis_resources: {embed: [data, model]}\n"
      "  fsdp_axis: [embed, mlp]\n"
      "  model_axis_size: 4\n"
      "  replica_dcn_axis_size: 2\n");
  REQUIRE(result.good);
  CHECK(result.rules.logical_reading == LogicalReading::Mapping);
  CHECK(result.names() ==
        "vocab=model batch=data mlp=model heads=model batch=(replica, data) "
        "embed=(data, model) embed=data mlp=data ");
  CHECK(result.rules.mesh->at(1).size == -1);
  CHECK(result.rules.mesh->at(2).size == 4);
  CHECK(result.rules.dcn_mesh.at(0).size == 2);
}

TEST_CASE("the batch and FSDP axes have the trainer's defaults") {
  CHECK(read("tensor_parallel_axes: [mlp]\n").names() ==
        "mlp=model batch=(replica, data) embed=data ");
  CHECK(read("fsdp_axis: null\n").names() == "batch=(replica, data) ");
}

std::string sizes(const std::vector<AxisRequest>& axes) {
  std::string all;
  for (const AxisRequest& axis : axes) {
    all += axis.name + "=" + std::to_string(axis.size) + " ";
  }
  return all;
}

TEST_CASE(
    "a mesh block gives axes within and across slices, and what is stored") {
  const Read plain = read("trainer: {mesh: {}}\n");
  REQUIRE(plain.good);
  CHECK(plain.names() == "mlp=model heads=model embed=data ");
  CHECK(sizes(*plain.rules.mesh) == "data=-1 replica=1 model=1 replica_dcn=1 ");
  CHECK(sizes(plain.rules.dcn_mesh) ==
        "data=1 replica=1 model=1 replica_dcn=-1 ");
  const Read given = read(
      "mesh:\n"
      "  axes: {model: -1, context: 2}\n"
      "  dcn_axes: {replica_dcn: 2}\n"
      "  shared_mapping: {vocab: model, mlp: context}\n"
      "  compute_mapping: {batch: [replica_dcn, data]}\n"
      "  param_mapping: {embed: [data, context]}\n");
  REQUIRE(given.good);
  CHECK(given.names() ==
        "mlp=model heads=model vocab=model mlp=context "
        "embed=(data, context) ");
  CHECK(sizes(*given.rules.mesh) ==
        "data=1 replica=1 model=-1 context=2 replica_dcn=1 ");
  CHECK(sizes(given.rules.dcn_mesh) ==
        "data=1 replica=1 model=1 context=1 replica_dcn=2 ");
  CHECK_FALSE(read("mesh: {axes: {a: 1}, dcn_axes: {a: 2}}\n").good);
  CHECK_FALSE(read("mesh: {axes: [a]}\n").good);
}

TEST_CASE("only configs of a trainer are recognised") {
  CHECK(kLevanter.recognize("trainer:\n  fsdp_axis: embed\n"));
  CHECK_FALSE(kLevanter.recognize("rules: []\n"));
  CHECK_FALSE(read("trainer: 3\n").good);
  CHECK_FALSE(read("model_axis_size: x\n").good);
}

TEST_CASE("what a config includes is read where it is the trainer") {
  testing::MemoryHost host;
  host.files["c/run.yaml"] =
      "data: !include data/text.yaml\ntrainer: !include trainers/tp.yaml\n";
  host.files["c/trainers/tp.yaml"] =
      "tensor_parallel_axes: [mlp]\nmodel_axis_size: 4\n";
  const auto included = testing::loaded_rules(host, "c/run.yaml");
  REQUIRE(included->rules.has_value());
  CHECK(included->rules->logical_rules.front().name == "mlp");
  host.files["c/run.yaml"] =
      "data: !include data/text.yaml\ntrainer:\n  fsdp_axis: hidden\n";
  CHECK(testing::loaded_rules(host, "c/run.yaml")->rules.has_value());
  host.files["c/run.yaml"] = "trainer: !include gone.yaml\n";
  CHECK(
      testing::messages(testing::loaded_rules(host, "c/run.yaml")->diags) ==
      "SP001 c/run.yaml:1:10 `c/gone.yaml` is included here but was not found");
  host.files["c/run.yaml"] =
      "trainer:\n  fsdp_axis: hidden\n  axis_resources: !include a.yaml\n";
  CHECK(testing::messages(testing::loaded_rules(host, "c/run.yaml")->diags) ==
        "SP012 c/run.yaml:3:19 `!include` is not supported here");
}

TEST_CASE("a config without axes has levanter's defaults") {
  testing::MemoryHost host;
  host.files["c.yaml"] =
      "model: {type: gpt2}\ntrainer:\n  train_batch_size: 32\n";
  const auto read = testing::loaded_rules(host, "c.yaml");
  REQUIRE(read->rules.has_value());
  CHECK(read->rules->logical_rules.size() == 2);
  CHECK_FALSE(kLevanter.recognize("trainer: {total_batch_size: 3}\n"));
}

}  // namespace

}  // namespace shardplan
