// SPDX-License-Identifier: Apache-2.0
// GraphDescription: a graph file as written, before its operations are looked
// up and checked (graph/build.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
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
  // Of a parameter of repeated layers, which layer's; mistakes are reported of
  // the first.
  int64_t layer = 0;
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
  int64_t layer = 0;  // as of a parameter
};

// Repeated layers are written once in the file, and stand here one by one.
struct GraphDescription {
  std::string name;
  std::vector<DescribedValue> inputs;
  std::vector<DescribedValue> parameters;
  std::vector<DescribedOp> ops;
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

}  // namespace shardplan
