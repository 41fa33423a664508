// SPDX-License-Identifier: Apache-2.0
#include "graph/map_nodes.h"

#include <algorithm>
#include <string>

#include "base/text.h"

namespace shardplan {
namespace {

// The operand of the file that a node's operand `index` is; by its place where
// one value is read twice. Empty: what the node before has computed.
std::optional<size_t> place_of(const std::vector<int>& operands, int value,
                               size_t index) {
  if (index < operands.size() && operands[index] == value) return index;
  const auto found = std::find(operands.begin(), operands.end(), value);
  if (found == operands.end()) return std::nullopt;
  return static_cast<size_t>(found - operands.begin());
}

void map_node(GraphNode& node, const ShardMapUse& written,
              const std::vector<int>& operands) {
  node.shard_map = ShardMapUse{{}, written.out_spec, written.psum};
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const auto place = place_of(operands, node.operands[i], i);
    if (!place) node.inner_operand = static_cast<int>(i);
    node.shard_map->in_specs.push_back(place ? written.in_specs[*place]
                                             : written.out_spec);
  }
}

// An axis that `spec`, or `spec` and `psum`, name twice.
std::optional<AxisName> repeated_axis(const PartitionSpec& spec,
                                      AxisNames used) {
  for (const AxisNames& axes : spec.dims) {
    for (const AxisName& axis : axes) {
      if (std::find(used.begin(), used.end(), axis) != used.end()) return axis;
      used.push_back(axis);
    }
  }
  return std::nullopt;
}

bool spec_fits(const DescribedOp& op, const PartitionSpec& spec,
               const AxisNames& psum, const Value& value, Diagnostics& diags) {
  if (const auto axis = repeated_axis(spec, psum)) {
    diags
        .error(Code::InvalidGraph, op.shard_map_where,
               "`shard_map` uses axis `" + printable(*axis) + "` twice for `" +
                   value.name + "`")
        .fact("its spec is " + spec_text(spec))
        .help("an axis of `psum` has parts of a sum: it shards no dimension");
    return false;
  }
  if (spec.dims.size() <= value.shape.size()) return true;
  diags.error(Code::InvalidGraph, op.shard_map_where,
              spec_text(spec) + " is longer than the rank of `" + value.name +
                  "` " + shape_text(value.shape));
  return false;
}

}  // namespace

bool may_be_mapped(const DescribedOp& op, bool mappable, Diagnostics& diags) {
  if (!op.shard_map) return true;
  const Span where = op.shard_map_where;
  if (!mappable || op.op == "constraint") {
    auto problem = diags.error(Code::InvalidGraph, where,
                               "`shard_map` on `" + op.op + "`");
    if (mappable) {
      problem.fact("a constraint computes nothing");
    } else {
      problem.fact("it stands for several operations, with sums in between")
          .help("write these operations, each with a `shard_map` of its own");
    }
    return false;
  }
  const size_t specs = op.shard_map->in_specs.size();
  if (specs == op.operands.size()) return true;
  diags
      .error(Code::InvalidGraph, where,
             plural(static_cast<int64_t>(specs), "spec") +
                 " in `in_specs` for " +
                 plural(static_cast<int64_t>(op.operands.size()), "operand"))
      .help("`in_specs` has a spec per operand; `[]` shards nothing");
  return false;
}

bool map_nodes(Graph& graph, size_t first, const DescribedOp& op,
               const std::vector<int>& operands, Diagnostics& diags) {
  if (!op.shard_map) return true;
  const ShardMapUse& map = *op.shard_map;
  const auto value = [&](int number) -> const Value& {
    return graph.values[static_cast<size_t>(number)];
  };
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!spec_fits(op, map.in_specs[i], {}, value(operands[i]), diags)) {
      return false;
    }
  }
  for (size_t n = first; n < graph.nodes.size(); ++n) {
    GraphNode& node = graph.nodes[n];
    if (!spec_fits(op, map.out_spec, map.psum, value(node.result), diags)) {
      return false;
    }
    map_node(node, map, operands);
  }
  return true;
}

}  // namespace shardplan
