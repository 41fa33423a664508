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

#include "base/source.h"
#include "core/spec.h"
#include "core/types.h"

namespace shardplan {

// Sizes of a graph file by their names.
using DimSizes = std::map<std::string, int64_t, std::less<>>;

// How a parameter's numbers are drawn (graph/random.h).
struct Initialiser {
  std::string name;      // "lecun_normal"; "" leaves the choice to the caller
  double scale = 1;      // of the result (xlstm's scale_init)
  double stddev = 0.01;  // of "normal", as in JAX
  // Each index of the first dimension is drawn by itself, in the shape of the
  // others: a device's own parameter (xlstm's ModelParallelismWrapper).
  bool per_shard = false;
  bool split_rngs = true;                   // else all are alike
  std::optional<int64_t> mask_except = {};  // all but this one are zero
};

// One of the layers that repeat. Where an encoder and a decoder have layers,
// each is a stack that counts its own from 0.
struct GraphLayer {
  std::string name;   // "encoder.layers.3"
  std::string stack;  // "encoder.layers"
  int64_t number = 0;
};
// The stack of a model that has no other.
inline constexpr std::string_view kMainStack = "layers";

// What an operation is within the norm, softmax or adapter that it is a part
// of.
enum class OpPart : uint8_t {
  Other,
  Mean,          // that a norm subtracts
  RowNumbers,    // one per row: roots of a norm, maxima of a softmax
  AdapterInput,  // the first product of an adapter
  Adapter,       // of that, on the way to what is added to a result
  // A product with kernels into which adapters may be merged: the merged kernels
  // are kept for backward. MergedHalf: gate or up alone. MergedFactor: a product
  // with such an adapter, whose cast to the kernel's dtype is kept as well.
  MergedProduct,
  MergedHalf,
  MergedFactor,
};

struct DescribedValue {
  std::string name;
  Span where;  // of the name
  // Empty: a parameter whose shape is the manifest's.
  std::optional<Shape> shape;
  DType dtype = DType::F32;
  std::vector<std::string> axes;  // labels, "" for none
  Span axes_where;
  std::optional<PartitionSpec> spec;
  Span spec_where;
  std::string parameter;  // a parameter's name in the manifest
  Initialiser initialiser;
  Span init_where;
  int64_t integers_below = 0;
  // The layer of a parameter that a graph file writes inside `repeat`, as an
  // index into GraphDescription::layers; -1: outside of layers.
  int layer = -1;
};

struct DescribedAttribute {
  std::string name;
  Span where;  // of the value
  Span name_where;
  std::variant<double, std::string, std::vector<int64_t>, PartitionSpec,
               std::vector<double>>
      value;
  // Of a text that is also a size, such as `heads*head_dim`, or a number, such
  // as `1/sqrt(head_dim)`: which is meant follows from what the operation
  // takes.
  std::optional<int64_t> size;
  std::optional<double> number;
  std::string why;  // it is none of these
};

// An operation as code under JAX's shard_map (or Megatron's) does it: every
// device applies it to its own shards as though they were all there is, and
// the results are put together. What the operation means as a whole does not
// change, so that the two can be compared.
struct ShardMapUse {
  std::vector<PartitionSpec> in_specs;  // one per operand
  PartitionSpec out_spec;
  AxisNames psum;  // the results along these axes are partial sums

  bool operator==(const ShardMapUse&) const = default;
};

struct DescribedOp {
  std::string op;
  Span where;  // of the operation's name
  std::vector<std::string> operands;
  std::vector<Span> operands_where;
  std::vector<std::string> results;
  std::vector<Span> results_where;
  std::vector<DescribedAttribute> attributes;
  std::vector<std::string> axes;  // labels of the (only) result
  Span axes_where;
  std::optional<ShardMapUse> shard_map;
  Span shard_map_where;
  int layer = -1;  // GraphDescription::layers; -1: in none
  OpPart part = OpPart::Other;
};

// Repeated layers are written once in the file, and stand here one by one.
struct GraphDescription {
  std::string name;
  std::vector<DescribedValue> inputs;
  std::vector<DescribedValue> parameters;
  std::vector<DescribedOp> ops;
  std::vector<GraphLayer> layers;
  std::vector<std::string> outputs;
  std::vector<Span> outputs_where;
  // As the file names them; of a value that layers hand on it is not the name
  // of the last layer's. As many as outputs, or none.
  std::vector<std::string> output_names;
  // Values at which the growth of errors is looked at, such as the residual
  // stream behind each layer.
  std::vector<std::string> probes;
  std::vector<Span> probes_where;
  std::vector<SourcePtr> sources;  // keeps spans alive
};

// Whether the layer is not the first of its stack: a mistake that a file makes
// in repeated layers is reported of the first.
inline bool is_repeated(const GraphDescription& graph, int layer) {
  return layer >= 0 && graph.layers[static_cast<size_t>(layer)].number > 0;
}

}  // namespace shardplan
