// SPDX-License-Identifier: Apache-2.0
// Graph: a model's forward pass as operations over named values.
//
// Nodes stand in an order in which they can be computed; each has one result.
// Invariants: every operand of a node is an input, a parameter or the result of
// an earlier node; every node's operands fit (graph/build.h checks).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/source.h"
#include "core/graph_description.h"
#include "core/spec.h"
#include "graph/ids.h"
#include "graph/op.h"
#include "graph/regions.h"
#include "graph/tensor.h"

namespace shardplan {

// Which dtype a value has, as far as that follows from how it is made.
enum class NumberType : uint8_t {
  Activation,  // that of activations
  Integer,     // token ids, choices, or only moved ones: these are not rounded
  Adapter,     // that of adapters: PEFT computes in it, which is float32 unless
               // it is told otherwise (autocast_adapter_dtype)
  Internal,    // within a norm or a softmax: float32 where each operation runs
               // by itself
};

struct Value {
  enum class Kind : uint8_t { Input, Parameter, Result };
  // "layers.3.attn.query:latent": a layer, what the value is within it and,
  // behind a colon, a step on the way to that. Where these begin is found when
  // the value is made.
  std::string name;
  size_t part_at = 0;
  size_t step_at = std::string::npos;
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
  // Of a parameter: it is not trained, and nobody asks for its gradient.
  bool frozen = false;
  // Integers in [0, limit) rather than reals, as token ids; 0: reals.
  int64_t integers_below = 0;
  NumberType type = NumberType::Activation;
  // The value depends on a parameter. A mask or a table of positions does not.
  bool learned = false;
  // It is a parameter, or computed from parameters alone.
  bool is_weight = false;
  NodeId node;  // that computes it, of a result

  // "layers.3.attn.query"
  std::string_view whole() const {
    return std::string_view(name).substr(0, step_at);
  }
  // "attn.query"; outside of layers the same as whole().
  std::string_view part() const { return whole().substr(part_at); }
  // "attn.query:latent"
  std::string_view part_and_step() const {
    return std::string_view(name).substr(part_at);
  }
  bool is_step() const { return step_at < name.size(); }
  bool is_integer() const { return type == NumberType::Integer; }
};

// Named apart from the nodes of documents (syntax/document.h).
struct GraphNode {
  const OpDef* op = nullptr;
  Attributes attributes;
  std::vector<ValueId> operands;
  ValueId result;
  // What the graph file calls the operation that this is part of.
  std::string label;
  OpPart part = OpPart::Other;
  int layer = -1;  // of the graph; -1: outside of layers
  Span where;
  ShardingRule rule;
  std::optional<ShardMapUse> shard_map;
  // Under shard_map, the operand (by its place) that the same body has just
  // computed: it is read as the devices hold it, sums not taken.
  std::optional<size_t> inner_operand;
};

struct Graph {
  std::string name;
  PerValue<Value> values;
  PerNode<GraphNode> nodes;
  std::vector<Region> regions = {};
  std::vector<GraphLayer> layers = {};
  std::vector<ValueId> outputs = {};
  // As the graph file calls them, where that is not the value's own name
  // (core/graph_description.h); empty, or one per output.
  std::vector<std::string> output_names = {};
  // Values at which a run reports how errors grow.
  std::vector<ValueId> probes = {};
  std::vector<SourcePtr> sources = {};  // keeps spans alive
};

// The layer in which a value is computed; null: in none.
const GraphLayer* layer_of(const Graph& graph, ValueId value);

// What an output goes by. REQUIRES: the value is one.
const std::string& output_name(const Graph& graph, ValueId value);

// Growing a graph by one operation at a time.

// Adds an input or a parameter. Its type and what it is made of
// follow from the rest.
ValueId append_value(Graph& graph, Value value);

// What is to be computed. `name` becomes the result's; it is not checked.
struct NewNode {
  std::string_view op;  // one of ops()
  std::vector<ValueId> operands;
  Attributes attributes;
  std::string name;
  std::string label;
  Span where;       // of the operation
  Span name_where;  // of the result's name
  OpPart part = OpPart::Other;
};

// Adds the operation and its result, which it returns. SP015 when the
// operands do not fit or the result exceeds 2^63 elements. A dimension of the
// result that is one factor has the label of the first operand's dimension that
// is the same factor and has a label.
// REQUIRES: there is such an operation, and it takes so many operands and these
// attributes.
std::optional<ValueId> append_node(Graph& graph, NewNode node,
                                   Diagnostics& diags);

// An operation's shard_map in a graph file, given to the nodes that it became.

// Whether the operation may have the shard_map that it has, if any: one spec
// per operand, and something to compute. `mappable`: it is one operation, or a
// composite that may stand there (graph/composites.h). Else SP015.
bool may_be_mapped(const DescribedOp& op, bool mappable, Diagnostics& diags);

// Gives it to the nodes from `first` on. Every one of them leaves what
// the out spec and `psum` say; an operand that none of the `operands` of the
// file is comes from the node before. SP015 where a spec is longer than a rank
// or names an axis twice.
bool map_nodes(Graph& graph, NodeId first, const DescribedOp& op,
               const std::vector<ValueId>& operands, Diagnostics& diags);

// The unsharded run of a graph: what every sharded one is compared with.

// Gives a whole input or parameter, in elements of the run that asks. The same
// value may be asked for again rather than kept.
using ReadWhole = std::function<Tensor(ValueId value)>;

// A run, one node after the other, whose caller says what may be forgotten.
struct Evaluation {
  const Graph* graph = nullptr;
  ReadWhole read;
  Arithmetic arithmetic = Arithmetic::F32;
  int threads = 1;
  PerValue<Tensor> results = {};  // no storage where there is none
};

// Puts its result into `results`. REQUIRES: its operands are there.
void evaluate_node(Evaluation& run, NodeId node);
// A result that is there, or an input or parameter, which is read.
Tensor whole_of(const Evaluation& run, ValueId value);

}  // namespace shardplan
