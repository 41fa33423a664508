// SPDX-License-Identifier: Apache-2.0
#include "io/axis_tables.h"

#include <memory>
#include <string>

#include <doctest/doctest.h>

namespace shardplan {
namespace {

using Reader = bool (*)(const Node&, RuleSet&, Diagnostics&);

struct Read {
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

Read read(Reader reader, const std::string& text) {
  Read result;
  const auto document = parse_document(
      std::make_shared<SourceFile>("rules.yaml", text), result.diags);
  REQUIRE(document.has_value());
  result.good = reader(document->root(), result.rules, result.diags);
  CHECK(result.good != result.diags.has_errors());
  return result;
}

TEST_CASE("logical rules keep their order, their repetitions and their None") {
  const Read result =
      read(read_logical_rules,
           "[[embed, fsdp], [mlp, [tp, sp]], [embed, dp], [kv, null], [q, []], "
           "[null, dp]]");
  CHECK(result.lines() ==
        "embed=fsdp mlp=(tp, sp) embed=dp kv=None q=None (none)=dp ");
}

TEST_CASE("every mistake in logical rules is reported") {
  const Read result =
      read(read_logical_rules, "[[embed], mlp, [kv, [null]], [q, 3]]");
  CHECK(result.diags.count(Severity::Error) == 4);
  CHECK(result.first() == "a logical axis rule has 1 item instead of 2");
}

TEST_CASE("a mapping is one rule per entry") {
  CHECK(read(read_axis_mapping, "{embed: data, mlp: [model, data]}").lines() ==
        "embed=data mlp=(model, data) ");
}

TEST_CASE("a PartitionAxis derives what it is not given") {
  const Read result = read(read_partition_axis,
                           "{tensor_parallel_axis: model, kv_head_axis: null}");
  REQUIRE(result.rules.partition_axis.has_value());
  const PartitionAxis& axis = *result.rules.partition_axis;
  CHECK(axis[*find_partition_field("head_axis")]->axes == AxisNames{"model"});
  CHECK(axis[*find_partition_field("kv_head_axis")]->axes.empty());
  CHECK(axis[*find_partition_field("batch_axis")]->axes ==
        AxisNames{"fsdp", "dp"});
}

TEST_CASE("a field that PartitionAxis does not have has a neighbour") {
  const Read result = read(read_partition_axis, "{heads_axis: tp}");
  CHECK(result.diags.all().front().code == Code::UnknownKey);
  CHECK(result.diags.all().front().help.front().find("head_axis") !=
        std::string::npos);
}

}  // namespace
}  // namespace shardplan
