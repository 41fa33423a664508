// SPDX-License-Identifier: Apache-2.0
#include "io/axis_tables.h"

#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "io/spec_node.h"

namespace shardplan {
namespace {

constexpr std::string_view kLogicalForm =
    "a logical axis rule is `[name, axes]`: null, an axis or a list of axes";

bool read_logical_rule(const Node& node, RuleSet& rules, Diagnostics& diags) {
  if (!node.is_list() || node.size() != 2) {
    diags
        .error(Code::MalformedDocument, node.span(),
               node.is_list()
                   ? "a logical axis rule has " +
                         plural(static_cast<int64_t>(node.size()), "item") +
                         " instead of 2"
                   : "a logical axis rule must be a list, not " +
                         std::string(kind_name(node.kind())))
        .help(std::string(kLogicalForm));
    return false;
  }
  LogicalRule rule;
  const Node name = node.item(0);
  if (!name.is_null()) {
    if (!require(name, NodeKind::String, "logical axis", diags)) return false;
    rule.name = std::string(name.text());
  }
  auto axes = read_axes_node(node.item(1), diags);
  if (!axes) return false;
  rule.axes = *std::move(axes);
  rule.where = name.span();
  rule.axes_where = node.item(1).span();
  rules.logical_rules.push_back(std::move(rule));
  return true;
}

}  // namespace

bool read_logical_rules(const Node& node, RuleSet& rules, Diagnostics& diags) {
  return read_all(node, "logical_axis_rules", diags, read_logical_rule, rules);
}

bool read_axis_mapping(const Node& node, RuleSet& rules, Diagnostics& diags) {
  if (!require(node, NodeKind::Map, "axis mapping", diags)) return false;
  bool good = true;
  for (size_t i = 0; i < node.size(); ++i) {
    auto axes = read_axes_node(node.item(i), diags);
    good = good && axes;
    if (!axes) continue;
    rules.logical_rules.push_back({std::string(node.key(i)), *std::move(axes),
                                   node.key_span(i), node.item(i).span()});
  }
  return good;
}

bool read_partition_axis(const Node& node, RuleSet& rules, Diagnostics& diags) {
  if (!require(node, NodeKind::Map, "partition_axis", diags)) return false;
  std::vector<std::string> known;
  for (const PartitionField& field : partition_fields()) {
    known.emplace_back(field.name);
  }
  PartitionAxis axis = default_partition_axis();
  bool good = reject_unknown_keys(node, known, diags);
  for (size_t i = 0; i < node.size(); ++i) {
    const auto field = find_partition_field(node.key(i));
    auto axes = read_axes_node(node.item(i), diags);
    good = good && axes && field;
    if (!good) continue;
    axis.at(*field) = AxisValue{*std::move(axes), node.item(i).is_list()};
  }
  if (!good) return false;
  rules.partition_axis = resolve_partition_axis(axis, diags);
  rules.partition_axis_where = node.span();
  return rules.partition_axis.has_value();
}

}  // namespace shardplan
