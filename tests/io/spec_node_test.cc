// SPDX-License-Identifier: Apache-2.0
#include "io/spec_node.h"

#include <memory>
#include <string>

#include <doctest/doctest.h>

namespace shardplan {
namespace {

struct Read {
  std::optional<Rule> rule;
  Diagnostics diags;
  std::string first() const {
    return diags.all().empty() ? "" : diags.all().front().message;
  }
};

Read read(const std::string& text) {
  Read result;
  const auto document = parse_document(
      std::make_shared<SourceFile>("rules.yaml", text), result.diags);
  REQUIRE(document.has_value());
  result.rule = read_rule_node(document->root(), result.diags);
  CHECK(result.rule.has_value() != result.diags.has_errors());
  return result;
}

TEST_CASE("names say whether they are mesh axes or logical axes") {
  const Read result = read("[w, [mesh:tp, 'logical:embed', [HEAD, fsdp]]]");
  REQUIRE(result.rule.has_value());
  CHECK(spec_text(result.rule->spec) ==
        "P(mesh:tp, logical:embed, (HEAD, fsdp))");
  CHECK(read("[w, ['other:tp']]").first() == "`other:tp` is not an axis name");
  CHECK(read("[w, ['mesh:']]").first() == "`mesh:` is not an axis name");
}

TEST_CASE("a preset stands for the semantic axes that it lists") {
  const Read column = read("[q_proj, ColumnWise]");
  REQUIRE(column.rule.has_value());
  CHECK(spec_text(column.rule->spec) ==
        "P((__FULLY_SHARDED_DATA_PARALLEL__, __SEQUENCE_PARALLEL__), "
        "__TENSOR_PARALLEL__)");
  CHECK_FALSE(column.rule->decode_dim.has_value());
  CHECK(spec_text(read("[x, Replicated]").rule->spec) == "P(None)");
  CHECK(read("[x, HiddenStateSharding]").rule->decode_dim == 1);
  const Read wrong = read("[q_proj, ColumnWyse]");
  CHECK(wrong.first() == "`ColumnWyse` is neither a list nor a preset");
  CHECK(wrong.diags.all().front().help.front() ==
        "a preset with a similar name is `ColumnWise`");
}

TEST_CASE("a rule written as a map may be aligned and know when it decodes") {
  const Read result =
      read("{pattern: w, spec: [tp], align: last, decode_dim: -2}");
  REQUIRE(result.rule.has_value());
  CHECK(result.rule->from_last);
  CHECK(result.rule->decode_dim == -2);
  CHECK_FALSE(read("{pattern: w, spec: [tp], align: first}").rule->from_last);
  CHECK(read("{pattern: w, spec: [], align: middle}").first() ==
        "`align` is neither `first` nor `last`");
  CHECK(read("{pattern: w, spec: [], decode_dim: many}").first() ==
        "`decode_dim` must be the number of a dimension");
  CHECK(read("{pattern: w}").first() == "a rule has no `spec`");
}

TEST_CASE("every preset becomes one entry per semantic axis") {
  for (const ShardingPreset& preset : sharding_presets()) {
    CAPTURE(preset.name);
    CHECK(preset_spec(preset).dims.size() == preset.entries.size());
  }
}

}  // namespace
}  // namespace shardplan
