// SPDX-License-Identifier: Apache-2.0

#include "io/spec_node.h"

#include <memory>
#include <string>
#include <utility>

#include <doctest/doctest.h>

namespace shardplan {
namespace {

struct ReadSpec {
  std::optional<Rule> rule;
  Diagnostics diags;
  std::string first() const {
    return diags.all().empty() ? "" : diags.all().front().message;
  }
};

ReadSpec read_spec(const std::string& text) {
  ReadSpec result;
  const auto document = parse_document(
      std::make_shared<SourceFile>("rules.yaml", text), result.diags);
  REQUIRE(document.has_value());
  result.rule = read_rule_node(document->root(), result.diags);
  CHECK(result.rule.has_value() != result.diags.has_errors());
  return result;
}

TEST_CASE("names say whether they are mesh axes or logical axes") {
  const ReadSpec result =
      read_spec("[w, [mesh:tp, 'logical:embed', [HEAD, fsdp]]]");
  REQUIRE(result.rule.has_value());
  CHECK(spec_text(result.rule->spec) ==
        "P(mesh:tp, logical:embed, (HEAD, fsdp))");
  CHECK(read_spec("[w, ['other:tp']]").first() ==
        "`other:tp` is not an axis name");
  CHECK(read_spec("[w, ['mesh:']]").first() == "`mesh:` is not an axis name");
}

TEST_CASE("None does not stand among the axes of a dimension") {
  CHECK(read_spec("[w, [[tp, null], null]]").first() ==
        "`null` is inside a list of axes");
  CHECK(read_spec("[w, ['t p']]").first() == "`t p` is not an axis name");
}

TEST_CASE("a preset stands for the semantic axes that it lists") {
  const ReadSpec column = read_spec("[q_proj, ColumnWise]");
  REQUIRE(column.rule.has_value());
  CHECK(spec_text(column.rule->spec) ==
        "P((__FULLY_SHARDED_DATA_PARALLEL__, __SEQUENCE_PARALLEL__), "
        "__TENSOR_PARALLEL__)");
  CHECK_FALSE(column.rule->decode_dim.has_value());
  CHECK(spec_text(read_spec("[x, Replicated]").rule->spec) == "P(None)");
  CHECK(read_spec("[x, HiddenStateSharding]").rule->decode_dim == 1);
  const ReadSpec wrong = read_spec("[q_proj, ColumnWyse]");
  CHECK(wrong.first() == "`ColumnWyse` is neither a list nor a preset");
  CHECK(wrong.diags.all().front().help.front() == "did you mean `ColumnWise`?");
}

TEST_CASE("a rule written as a map may be aligned and know when it decodes") {
  const ReadSpec result =
      read_spec("{pattern: w, spec: [tp], align: last, decode_dim: -2}");
  REQUIRE(result.rule.has_value());
  CHECK(result.rule->from_last);
  CHECK(result.rule->decode_dim == -2);
  CHECK_FALSE(
      read_spec("{pattern: w, spec: [tp], align: first}").rule->from_last);
  CHECK(read_spec("{pattern: w, spec: [], align: middle}").first() ==
        "`align` must be `first` or `last`");
  CHECK(read_spec("{pattern: w, spec: [], decode_dim: many}").first() ==
        "`decode_dim` must be a dimension index");
  CHECK(read_spec("{pattern: w}").first() == "a rule has no `spec`");
}

TEST_CASE("every preset becomes one entry per semantic axis") {
  for (const ShardingPreset& preset : sharding_presets()) {
    CAPTURE(preset.name);
    CHECK(preset_spec(preset).dims.size() == preset.entries.size());
  }
}

std::string read_mesh_node(const std::string& text) {
  Diagnostics diags;
  const auto document =
      parse_document(std::make_shared<SourceFile>("m.yaml", text), diags);
  REQUIRE(document.has_value());
  const auto axes = read_mesh_node(document->root(), diags);
  CHECK(axes.has_value() != diags.has_errors());
  if (!axes) return diags.all().front().message;
  std::string all;
  for (const AxisRequest& axis : *axes) {
    all += axis.name + "=" + std::to_string(axis.size) + "@" +
           std::string(axis.size_where.text()) + " ";
  }
  return all;
}

TEST_CASE("a mesh is a map of sizes, or text as the flag takes it") {
  CHECK(read_mesh_node("{fsdp: 8, tp: -1}") == "fsdp=8@8 tp=-1@-1 ");
  CHECK(read_mesh_node("fsdp=8,tp=4") == "fsdp=8@8 tp=4@4 ");
}

TEST_CASE("what is not a mesh says so at its place") {
  CHECK(read_mesh_node("[8, 4]") == "`mesh` must be a map, not a list");
  CHECK(read_mesh_node("{fsdp: eight}") ==
        "`fsdp` must be an integer, not a string");
  CHECK(read_mesh_node("{fsdp: 99999999999999999999}") ==
        "the size of axis `fsdp` does not fit in 63 bits");
}

using Reader = bool (*)(const Node&, RuleSet&, Diagnostics&);

struct Tables {
  bool good = false;
  RuleSet rules;
  Diagnostics diags;

  std::string lines() const {
    std::string all;
    for (const LogicalRule& rule : rules.logical_rules) {
      all += rule.name.value_or("(none)") + "=" + axes_text(rule.axes) + " ";
    }
    return all;
  }
  std::string first() const {
    return diags.all().empty() ? "" : diags.all().front().message;
  }
};

Tables read_tables(Reader reader, const std::string& text) {
  Tables result;
  const auto document = parse_document(
      std::make_shared<SourceFile>("rules.yaml", text), result.diags);
  REQUIRE(document.has_value());
  result.good = reader(document->root(), result.rules, result.diags);
  CHECK(result.good != result.diags.has_errors());
  return result;
}

TEST_CASE("logical rules keep their order, their repetitions and their None") {
  const Tables result = read_tables(
      read_logical_rules,
      "[[embed, fsdp], [mlp, [tp, sp]], [embed, dp], [kv, null], [q, []], "
      "[null, dp]]");
  CHECK(result.lines() ==
        "embed=fsdp mlp=(tp, sp) embed=dp kv=None q=None (none)=dp ");
}

TEST_CASE("every mistake in logical rules is reported") {
  const Tables result =
      read_tables(read_logical_rules, "[[embed], mlp, [kv, [null]], [q, 3]]");
  CHECK(result.diags.count(Severity::Error) == 4);
  CHECK(result.first() == "a logical axis rule has 1 item instead of 2");
}

TEST_CASE("a mapping is one rule per entry") {
  CHECK(read_tables(read_axis_mapping, "{embed: data, mlp: [model, data]}")
            .lines() == "embed=data mlp=(model, data) ");
}

TEST_CASE("a PartitionAxis derives what it is not given") {
  const Tables result = read_tables(
      read_partition_axis, "{tensor_parallel_axis: model, kv_head_axis: null}");
  REQUIRE(result.rules.partition_axis.has_value());
  const PartitionAxis& axis = *result.rules.partition_axis;
  CHECK(axis[*find_partition_field("head_axis")]->axes == AxisNames{"model"});
  CHECK(axis[*find_partition_field("kv_head_axis")]->axes.empty());
  CHECK(axis[*find_partition_field("batch_axis")]->axes ==
        AxisNames{"fsdp", "dp"});
}

TEST_CASE("a field that PartitionAxis does not have has a neighbour") {
  const Tables result = read_tables(read_partition_axis, "{heads_axis: tp}");
  CHECK(result.diags.all().front().code == Code::UnknownKey);
  CHECK(result.diags.all().front().help.front().find("head_axis") !=
        std::string::npos);
}

TEST_CASE("no spec lists more axes than a mesh may have") {
  const auto refused = [](const RuleSet& rules) {
    Diagnostics diags;
    const bool fits = check_axis_counts(rules, diags);
    CHECK(fits != diags.has_errors());
    return fits ? std::string() : diags.all().front().message;
  };
  RuleSet rules;
  Rule rule;
  rule.spec.dims = {{}, AxisNames(256, "tp")};
  rules.rules = {rule};
  rules.declared_axes = AxisNames(4096, "a");
  CHECK(refused(rules).empty());
  rules.rules[0].spec.dims[1].emplace_back("tp");
  CHECK(refused(rules) ==
        "a dimension of this spec lists 257 axes; at most 256 are allowed");
  rules.activations = std::exchange(rules.rules, {});
  CHECK(refused(rules) ==
        "a dimension of this spec lists 257 axes; at most 256 are allowed");
  rules.activations.clear();
  rules.logical_rules.push_back({"embed", AxisNames(257, "tp"), {}, {}});
  CHECK(refused(rules) ==
        "this logical axis rule lists 257 axes; at most 256 are allowed");
  rules.logical_rules.clear();
  rules.declared_axes.emplace_back("b");
  CHECK(refused(rules) ==
        "these rules declare 4,097 axes; at most 4,096 are allowed");
}

}  // namespace

}  // namespace shardplan
