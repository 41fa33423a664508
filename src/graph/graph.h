// SPDX-License-Identifier: Apache-2.0
// Graph: a model's forward pass as operations over named values.
//
// Nodes are in an order in which they can be computed; each has one result.
// Invariants: every operand of a node is an input, a parameter or the result of
// an earlier node, and the operands of a node fit its operation (graph/build.h
// checks).
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

// The class of a value's dtype, as far as its operations determine it.
enum class NumberType : uint8_t {
  Activation,  // the dtype of activations
  Integer,     // token ids, choices, or moves of them: never rounded
  Adapter,     // the dtype of adapters, in which PEFT computes them: float32
               // unless autocast_adapter_dtype is off
  Internal,    // inside a norm or a softmax: float32 if each operation is a
               // kernel of its own
};

struct Value {
  enum class Kind : uint8_t { Input, Parameter, Result };
  // Names such as "layers.3.attn.query:latent" consist of a layer, the value's
  // name within it and, after a colon, an intermediate step. `part_at` and
  // `step_at` are where the last two begin: append_value sets `step_at`,
  // build_graph sets `part_at`.
  std::string name;
  size_t part_at = 0;
  size_t step_at = std::string::npos;
  Shape shape;
  Kind kind = Kind::Result;
  // The semantic or logical axis of each dimension, "" for none. An empty
  // vector means that the value is not labelled.
  std::vector<std::string> axes;
  // The graph file labels this value, which settles every dimension. Otherwise
  // labels are derived from the operands', and a dimension without one is open.
  bool labelled = false;
  // The spec that the graph itself declares, for an input or by a constraint.
  std::optional<PartitionSpec> spec;
  Span where;
  // For a parameter: its name in the manifest, and how to draw its values.
  std::string parameter;
  Initialiser initialiser;
  // For a parameter: it is not trained, so no gradient of it is computed.
  bool frozen = false;
  // If above 0, the values are integers in [0, integers_below), such as token
  // ids; else they are reals.
  int64_t integers_below = 0;
  NumberType type = NumberType::Activation;
  // Whether the value depends on a parameter, unlike a mask or a table of
  // positions.
  bool learned = false;
  // Whether the value is a parameter or computed from parameters alone.
  bool is_weight = false;
  NodeId node;  // the node that computes it, for a result

  // "layers.3.attn.query"
  std::string_view whole() const {
    return std::string_view(name).substr(0, step_at);
  }
  // "attn.query"; equals whole() outside layers.
  std::string_view part() const { return whole().substr(part_at); }
  // "attn.query:latent"
  std::string_view part_and_step() const {
    return std::string_view(name).substr(part_at);
  }
  bool is_step() const { return step_at < name.size(); }
  bool is_integer() const { return type == NumberType::Integer; }
};

// One operation of a graph. The name differs from that of the nodes of
// documents (syntax/document.h).
struct GraphNode {
  const OpDef* op = nullptr;
  Attributes attributes;
  std::vector<ValueId> operands;
  ValueId result;
  // The graph file's name for the operation that this node is part of.
  std::string label;
  OpPart part = OpPart::Other;
  int layer = -1;  // index into the graph's layers; -1: outside layers
  Span where;
  ShardingRule rule;
  std::optional<ShardMapUse> shard_map;
  // Under shard_map, the index of the operand that the previous node of the
  // same body computed. The node reads it as each device holds it, with partial
  // sums not reduced.
  std::optional<size_t> inner_operand;
};

struct Graph {
  std::string name;
  PerValue<Value> values;
  PerNode<GraphNode> nodes;
  std::vector<Region> regions = {};
  std::vector<GraphLayer> layers = {};
  std::vector<ValueId> outputs = {};
  // The names of the outputs in the graph file, which may differ from the
  // values' own (core/graph_description.h); empty, or one per output.
  std::vector<std::string> output_names = {};
  // Values at which a run reports how errors grow.
  std::vector<ValueId> probes = {};
  std::vector<SourcePtr> sources = {};  // keeps spans alive
};

// Returns the layer in which a value is computed, or null if there is none.
const GraphLayer* layer_of(const Graph& graph, ValueId value);

// Returns the name of an output. REQUIRES: `value` is an output.
const std::string& output_name(const Graph& graph, ValueId value);

// Growing a graph by one operation at a time.

// Adds an input or a parameter; append_node adds results. Derives `type`,
// `learned`, `is_weight` and `step_at` from the other fields.
ValueId append_value(Graph& graph, Value value);

// An operation to append. `name` becomes the result's name and is not checked
// for duplicates.
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

// Appends the operation and its result, and returns the result. Reports SP015
// and returns nullopt if the operands do not fit or the result exceeds 2^63
// elements. A dimension of the result that is a single factor has the label of
// the first labelled operand dimension that is the same factor. REQUIRES: the
// operation exists and accepts this number of operands and these attributes.
std::optional<ValueId> append_node(Graph& graph, NewNode node,
                                   Diagnostics& diags);

// The shard_map of an operation in a graph file, applied to its nodes.

// Returns whether the operation may have its shard_map, if it has one: there is
// one spec per operand, and the operation computes something, so it is no
// constraint. `mappable`: it is a primitive, or a composite that allows
// shard_map (graph/composites.h). Reports SP015 if not.
bool may_be_mapped(const DescribedOp& op, bool mappable, Diagnostics& diags);

// Applies the shard_map to the nodes from `first` on. The result of each has
// the out spec and `psum`. An operand that is not among `operands`, which are
// those in the file, is the result of the previous node. Reports SP015 and
// returns false if a spec is longer than a rank or names an axis twice.
bool map_nodes(Graph& graph, NodeId first, const DescribedOp& op,
               const std::vector<ValueId>& operands, Diagnostics& diags);

// The unsharded run of a graph, the reference for every sharded run.

// Returns a whole input or parameter, with the element type of the run. A run
// may request a value again rather than store it.
using ReadWhole = std::function<Tensor(ValueId value)>;

// A run of one node after the other, whose caller decides which results to
// release.
struct Evaluation {
  const Graph* graph = nullptr;
  ReadWhole read;
  Arithmetic arithmetic = Arithmetic::F32;
  int threads = 1;
  PerValue<Tensor> results = {};  // an absent result has no storage
};

// Computes a node's result into `results`. REQUIRES: its operands are
// available.
void evaluate_node(Evaluation& run, NodeId node);
// Returns a result from `results`, or reads an input or parameter.
Tensor whole_of(const Evaluation& run, ValueId value);

}  // namespace shardplan
