// SPDX-License-Identifier: Apache-2.0
// GraphDescription: a graph file as written, before its operations are looked
// up and checked (graph/build.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/checked.h"
#include "base/source.h"
#include "core/spec.h"
#include "core/types.h"

namespace shardplan {

// The named sizes of a graph file.
using DimSizes = std::map<std::string, int64_t, std::less<>>;

// How the values of a parameter are drawn (graph/random.h).
struct Initialiser {
  std::string name;      // "lecun_normal"; "" leaves the choice to the caller
  double scale = 1;      // factor of the result (xlstm's scale_init)
  double stddev = 0.01;  // for "normal"; the default is that of JAX
  // Draws each index of the first dimension separately, with the shape of the
  // other dimensions: one parameter per device (xlstm's
  // ModelParallelismWrapper).
  bool per_shard = false;
  bool split_rngs = true;                   // otherwise all are equal
  std::optional<int64_t> mask_except = {};  // the only index that is not zero
};

// One of the repeated layers. Encoder and decoder layers form two stacks, each
// numbered from 0.
struct GraphLayer {
  std::string name;   // "encoder.layers.3"
  std::string stack;  // "encoder.layers"
  int64_t number = 0;
};
// The stack of a model that has only one.
inline constexpr std::string_view kMainStack = "layers";

// The role of an operation within the norm, softmax or adapter that contains
// it.
enum class OpPart : uint8_t {
  Other,
  Mean,          // the mean that a norm subtracts
  RowNumbers,    // per-row statistics: roots of a norm, maxima of a softmax
  AdapterInput,  // the first product of an adapter
  Adapter,       // later steps of an adapter, before the sum
  // A product with kernels that adapters may be merged into: the merged kernels
  // are saved for backward. MergedHalf: gate or up alone. MergedFactor: a
  // product with such an adapter, whose cast to the kernel's dtype is saved as
  // well.
  MergedProduct,
  MergedHalf,
  MergedFactor,
};

struct DescribedValue {
  std::string name;
  Span where;  // the name
  // Absent for a parameter that has the shape given in the manifest.
  std::optional<Shape> shape;
  DType dtype = DType::F32;
  std::vector<std::string> axes;  // logical axes, "" for none
  Span axes_where;
  std::optional<PartitionSpec> spec;
  Span spec_where;
  std::string parameter;  // name of the parameter in the manifest
  Initialiser initialiser;
  Span init_where;
  int64_t integers_below = 0;
  // The layer of a parameter that is written inside `repeat`, an index into
  // GraphDescription::layers; -1: outside of layers.
  int layer = -1;
};

struct DescribedAttribute {
  std::string name;
  Span where;  // the value
  Span name_where;
  std::variant<double, std::string, std::vector<int64_t>, PartitionSpec,
               std::vector<double>>
      value;
  // Set for a text that is also a size, such as `heads*head_dim`, or a number,
  // such as `1/sqrt(head_dim)`. The operation determines which one is meant.
  std::optional<int64_t> size;
  std::optional<double> number;
  std::string why;  // why the text is neither a size nor a number
};

// Runs an operation as code under JAX's shard_map (or Megatron's) does: every
// device applies it to its own shards as if they were the whole, and the
// results are combined. The global meaning of the operation does not change, so
// the two can be compared.
struct ShardMapUse {
  std::vector<PartitionSpec> in_specs;  // one per operand
  PartitionSpec out_spec;
  AxisNames psum;  // axes along which the results are partial sums

  bool operator==(const ShardMapUse&) const = default;
};

struct DescribedOp {
  std::string op;
  Span where;  // the operation's name
  std::vector<std::string> operands;
  std::vector<Span> operands_where;
  std::vector<std::string> results;
  std::vector<Span> results_where;
  std::vector<DescribedAttribute> attributes;
  std::vector<std::string> axes;  // logical axes of the (only) result
  Span axes_where;
  std::optional<ShardMapUse> shard_map;
  Span shard_map_where;
  int layer = -1;  // index into GraphDescription::layers; -1: none
  OpPart part = OpPart::Other;
};

// Repeated layers are written once in the file and expanded here.
struct GraphDescription {
  std::string name;
  std::vector<DescribedValue> inputs;
  std::vector<DescribedValue> parameters;
  std::vector<DescribedOp> ops;
  std::vector<GraphLayer> layers;
  std::vector<std::string> outputs;
  std::vector<Span> outputs_where;
  // The names of the outputs in the file. They differ from `outputs` for a
  // value that layers pass on, which is named after the last layer here. Either
  // one per output or empty.
  std::vector<std::string> output_names;
  // Values at which error growth is measured, such as the residual stream after
  // each layer.
  std::vector<std::string> probes;
  std::vector<Span> probes_where;
  std::vector<SourcePtr> sources;  // keeps spans alive
};

// Returns whether the layer is not the first of its stack. A mistake in
// repeated layers is reported for the first one only.
inline bool is_repeated(const GraphDescription& graph, int layer) {
  return layer >= 0 && nth(graph.layers, layer).number > 0;
}

}  // namespace shardplan
