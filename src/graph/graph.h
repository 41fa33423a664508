// SPDX-License-Identifier: Apache-2.0
// Graph: a model's forward pass as operations over named values.
//
// Nodes stand in an order in which they can be computed; each has one result.
// Invariants: every operand of a node is an input, a parameter or the result of
// an earlier node; every node's operands fit (graph/build.h checks).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/source.h"
#include "core/graph_description.h"
#include "core/spec.h"
#include "graph/op.h"

namespace shardplan {

struct Value {
  enum class Kind : uint8_t { Input, Parameter, Result };
  std::string name;
  Shape shape;
  Kind kind = Kind::Result;
  // Semantic or logical axes per dimension, "" for none; empty: not labelled.
  std::vector<std::string> axes;
  // The graph itself says so, and means every dimension; else labels follow
  // from those of operands, and dimensions without one are open.
  bool labelled = false;
  // Declared in the graph itself: an input's spec, a constraint's.
  std::optional<PartitionSpec> spec;
  Span where;
  // Of a parameter: its name in the manifest, and its numbers.
  std::string parameter;
  Initialiser initialiser;
  // Integers in [0, limit) rather than reals, as token ids; 0: reals.
  int64_t integers_below = 0;
  int node = -1;  // that computes it, of a result
};

// Named apart from the nodes of documents (io/document.h).
struct GraphNode {
  const OpDef* op = nullptr;
  Attributes attributes;
  std::vector<int> operands;  // values
  int result = 0;
  // What the graph file calls the operation that this is part of.
  std::string label;
  Span where;
  ShardingRule rule;
  std::optional<ShardMapUse> shard_map;
  // Under shard_map, the operand (by its number) that the same body has just
  // computed: it is read as the devices hold it, sums not taken. -1: none.
  int inner_operand = -1;
};

struct Graph {
  std::string name;
  std::vector<Value> values;
  std::vector<GraphNode> nodes;
  std::vector<int> outputs;
  std::vector<int> probes;  // values where the growth of errors is looked at
  std::vector<SourcePtr> sources;  // keeps spans alive
};

}  // namespace shardplan
