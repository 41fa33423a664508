// SPDX-License-Identifier: Apache-2.0
// A graph on a mesh written down value by value, each with its layout:
//
//   SmallGraph g("dp=2,tp=4");
//   const ValueId x = g.input({4, 8}, "dp, None");
//   const ValueId w = g.parameter({8, 16}, "None, tp");
//   const ValueId h = g.einsum("bd,df->bf", x, w);
//   CHECK(moves(g.plan()) == "");
//
// What does not fit fails a check, so that the test fails where it is written.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/mesh.h"
#include "graph/graph.h"
#include "sim/values.h"
#include "spmd/partition.h"

namespace shardplan::testing {

// "dp, None" as a layout of a rank; without the sizes of a mesh.
Layout layout(std::string_view spec_text, size_t rank);
// The same with partial sums along axes.
Layout partial(std::string_view spec_text, size_t rank, AxisNames axes);

struct SmallGraph {
  explicit SmallGraph(std::string_view mesh_text);

  // `below`: integers, as token ids.
  ValueId input(const Shape& shape, std::string_view spec_text,
                int64_t below = 0);
  ValueId parameter(const Shape& shape, std::string_view spec_text);
  ValueId node(std::string_view op, std::vector<ValueId> operands,
               Attributes attributes = {});
  ValueId einsum(std::string_view equation, ValueId a, ValueId b);
  // One of graph/composites.h with one result.
  ValueId composite(std::string_view name, std::vector<ValueId> operands,
                    Attributes attributes = {});
  // with_sharding_constraint
  ValueId constrained(ValueId value, std::string_view spec_text);
  // The layout in which a result is wanted.
  void want(ValueId value, std::string_view spec_text);

  // Outputs are the results that nobody reads. The graph must outlive the
  // program.
  Program plan(const PartitionOptions& options = {});
  PerValue<Tensor> values(ValueSource source = ValueSource::Random,
                          int64_t seed = 0) const;

  Mesh mesh;
  Graph graph;
  WantedLayouts wanted;

 private:
  ValueId add(Value::Kind kind, const Shape& shape, std::string_view spec_text,
              int64_t below);
};

// What is sent, in order: "all-gather over fsdp of w1 (weight use)", joined by
// "; "; a collective interleaved with its product is "overlapped ..".
std::string moves(const Program& program);

// Results that no operation reads.
std::vector<ValueId> unread_results(const Graph& graph);

}  // namespace shardplan::testing
