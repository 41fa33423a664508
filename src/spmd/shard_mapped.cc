// SPDX-License-Identifier: Apache-2.0
// Finds what each device reads and leaves, and checks that it can.
#include "spmd/shard_mapped.h"

#include <string>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "core/views.h"

namespace shardplan {
namespace {

// Returns how many parts an in spec cuts one dimension into.
int64_t cuts_of(const Mesh& mesh, const PartitionSpec& spec, size_t dim) {
  return dim < spec.dims.size() ? shard_count(mesh, spec.dims[dim]) : 1;
}

// Returns the shape of what a device has of an operand.
Shape own_shape(const Mesh& mesh, const PartitionSpec& spec, Shape shape) {
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    shape[dim] /= cuts_of(mesh, spec, dim);
  }
  return shape;
}

struct Checker {
  const Graph& graph;
  const Mesh& mesh;
  const AxisNames& declared;
  Diagnostics& diags;

  bool check(const GraphNode& node) {
    return axes_are_known(node) && operands_can_be_cut(node) &&
           result_fits(node);
  }

  // "`y` (einsum)"
  std::string named(const GraphNode& node) const {
    return "`" + graph.values[node.result].name + "` (" + node.label + ")";
  }

  bool axes_are_known(const GraphNode& node) {
    AxisNames unknown;
    const auto look = [&](const AxisNames& axes) {
      for (const AxisName& axis : axes) {
        if (!mesh.find(axis) && !contains(declared, axis) &&
            !contains(unknown, axis)) {
          unknown.push_back(axis);
        }
      }
    };
    for (const PartitionSpec& spec : node.shard_map->in_specs) {
      look(axes_in(spec));
    }
    look(axes_in(node.shard_map->out_spec));
    look(node.shard_map->psum);
    for (const AxisName& axis : unknown) {
      diags
          .error(Code::InvalidGraph, node.where,
                 "the `shard_map` of " + named(node) + " names axis " +
                     in_backticks(axis) + ", which the mesh does not have")
          .fact("the mesh is " + mesh_text(mesh))
          .help(
              "name axes of the mesh, or declare it under `axes:` in the rules "
              "to give it size 1");
    }
    return unknown.empty();
  }

  bool operands_can_be_cut(const GraphNode& node) {
    bool fine = true;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const Shape& shape = graph.values[node.operands[i]].shape;
      for (size_t dim = 0; dim < shape.size(); ++dim) {
        const int64_t cuts = cuts_of(mesh, node.shard_map->in_specs[i], dim);
        if (shape[dim] % cuts != 0) fine &= uneven(node, i, dim, cuts);
      }
    }
    return fine;
  }

  // Reports that rows are left over; returns false if there is nothing to run.
  bool uneven(const GraphNode& node, size_t operand, size_t dim, int64_t cuts) {
    const Value& value = graph.values[node.operands[operand]];
    const int64_t size = value.shape[dim];
    const std::string what = "dimension " + std::to_string(dim) + " of `" +
                             value.name + "` " + shape_text(value.shape);
    const bool one_factor = node.rule.operands[operand][dim].size() == 1;
    if (size < cuts || !one_factor) {
      diags
          .error(Code::InvalidGraph, node.where,
                 what + " cannot be split into " + std::to_string(cuts))
          .fact("the `shard_map` of " + named(node) + " shards it as " +
                spec_text(node.shard_map->in_specs[operand]) + " on " +
                mesh_text(mesh))
          .help(
              "use fewer devices along these axes, or repeat rows, so that "
              "every device gets some");
      return false;
    }
    diags
        .report(Code::IndivisibleDimension, node.where,
                what + " is split into " + std::to_string(cuts) + ": " +
                    plural(size % cuts, "row") + " at the end " +
                    (size % cuts == 1 ? "is" : "are") + " on no device")
        .fact("the `shard_map` of " + named(node) + " shards it as " +
              spec_text(node.shard_map->in_specs[operand]) +
              ": every device gets " + std::to_string(size / cuts))
        .help("pad it to " + std::to_string((size / cuts + 1) * cuts));
    return true;
  }

  bool result_fits(const GraphNode& node) {
    std::vector<Shape> local;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      local.push_back(own_shape(mesh, node.shard_map->in_specs[i],
                                graph.values[node.operands[i]].shape));
    }
    const auto attributes = mapped_attributes(node, local);
    if (!attributes) {
      diags
          .error(Code::InvalidGraph, node.where,
                 named(node) +
                     " does not read a whole number of rows of a device's " +
                     shape_text(local[0]))
          .help(
              "sizes must be divisible by the number of devices that share "
              "them");
      return false;
    }
    const auto made = node.op->infer(local, *attributes, node.where, diags);
    if (!made) return false;
    const Shape& whole = graph.values[node.result].shape;
    const PartitionSpec& spec = node.shard_map->out_spec;
    bool fits = made->size() == whole.size();
    for (size_t dim = 0; fits && dim < whole.size(); ++dim) {
      const int64_t cuts = cuts_of(mesh, spec, dim);
      fits = whole[dim] % cuts == 0 && (*made)[dim] == whole[dim] / cuts;
    }
    if (fits) return true;
    auto problem = diags.error(
        Code::InvalidGraph, node.where,
        "the `shard_map` of " + named(node) +
            " does not produce the shards that `out_specs` declares");
    for (size_t i = 0; i < local.size(); ++i) {
      problem.fact("a device has " + shape_text(local[i]) + " of `" +
                   graph.values[node.operands[i]].name + "`");
    }
    problem.fact("it computes " + shape_text(*made) + " from them; `" +
                 graph.values[node.result].name + "` is " + shape_text(whole) +
                 " as " + spec_text(spec) + " on " + mesh_text(mesh));
    problem.help("together, the result's shards must make up the whole result");
    return false;
  }
};

}  // namespace

Layout mapped_operand(const Graph& graph, const Mesh& mesh,
                      const GraphNode& node, size_t index) {
  const Shape& shape = graph.values[node.operands[index]].shape;
  Layout layout =
      layout_of(mesh, node.shard_map->in_specs[index], shape.size());
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    AxisNames& axes = layout.spec.dims[dim];
    if (shape[dim] % shard_count(mesh, axes) != 0) axes.clear();
  }
  return layout;
}

Layout mapped_result(const Graph& graph, const Mesh& mesh,
                     const GraphNode& node) {
  Layout layout = layout_of(mesh, node.shard_map->out_spec,
                            graph.values[node.result].shape.size());
  AxisNames summed;
  for (const AxisName& axis : node.shard_map->psum) {
    const AxisNames parts = parts_of(mesh, axis);
    summed.insert(summed.end(), parts.begin(), parts.end());
  }
  for (const AxisName& axis : in_mesh_order(mesh, summed)) {
    if (mesh.size_of(axis) > 1) layout.partial.push_back(axis);
  }
  return layout;
}

FactorAxes mapped_axes(const Mesh& mesh, const GraphNode& node) {
  FactorAxes result(node.rule.factors.size());
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const std::vector<DimFactors>& dims = node.rule.operands[i];
    const Layout layout =
        layout_of(mesh, node.shard_map->in_specs[i], dims.size());
    FactorAxes mine = factor_axes(mesh, node.rule, dims, layout.spec);
    for (size_t dim = 0; dim < dims.size(); ++dim) {
      if (dims[dim].size() != 1) continue;
      nth(mine, dims[dim][0]) = layout.spec.dims[dim];
    }
    for (size_t f = 0; f < mine.size(); ++f) {
      if (result[f].empty()) result[f] = mine[f];
    }
  }
  return result;
}

std::optional<Attributes> mapped_attributes(const GraphNode& node,
                                            std::span<const Shape> local) {
  return node.op->local_attributes == nullptr
             ? node.attributes
             : node.op->local_attributes(node.attributes, node.rule, local);
}

bool check_shard_maps(const Graph& graph, const Mesh& mesh,
                      const AxisNames& declared, Diagnostics& diags) {
  Checker checker{graph, mesh, declared, diags};
  bool fine = true;
  for (const GraphNode& node : graph.nodes) {
    if (node.shard_map) fine = checker.check(node) && fine;
  }
  return fine;
}

}  // namespace shardplan
