// SPDX-License-Identifier: Apache-2.0
#include "memory/held_state.h"

#include <algorithm>
#include <utility>

#include "memory/zero.h"

namespace shardplan {
namespace {

size_t sum_of(std::vector<LeafSum>& sums, const StateLeaf& leaf) {
  const auto found =
      std::find_if(sums.begin(), sums.end(), [&](const LeafSum& sum) {
        return sum.kind == leaf.kind && sum.role == leaf.role &&
               sum.dtype == leaf.type.dtype;
      });
  if (found != sums.end()) return static_cast<size_t>(found - sums.begin());
  LeafSum sum;
  sum.kind = leaf.kind;
  sum.role = leaf.role;
  sum.dtype = leaf.type.dtype;
  sums.push_back(sum);
  return sums.size() - 1;
}

bool are_one(const FlatBuffer& a, const FlatBuffer& b) {
  return a.kind == b.kind && a.role == b.role && a.weights == b.weights &&
         a.dtype == b.dtype && a.axes == b.axes && a.matrices == b.matrices;
}

size_t buffer_of(std::vector<FlatBuffer>& buffers, DType weights,
                 const Mesh& mesh, const KindLeaf& entry,
                 const StateOptions& options) {
  const StateLeaf& leaf = entry.leaf;
  FlatBuffer buffer;
  buffer.kind = leaf.kind;
  buffer.role = leaf.role;
  buffer.weights = weights;
  buffer.dtype = leaf.type.dtype;
  buffer.axes = free_zero_axes(leaf.spec, mesh, options);
  buffer.matrices =
      options.optimizer == Optimizer::Muon && leaf.type.shape.size() == 2;
  buffer.sum = entry.sum;
  buffer.ranks = leaf.buffer_ranks;
  buffer.shared_by = leaf.zero_ranks;
  const auto found = std::find_if(
      buffers.begin(), buffers.end(),
      [&](const FlatBuffer& other) { return are_one(buffer, other); });
  if (found != buffers.end()) {
    return static_cast<size_t>(found - buffers.begin());
  }
  buffers.push_back(std::move(buffer));
  return buffers.size() - 1;
}

Shape local_at(const StateLeaf& leaf, const Mesh& mesh,
               const std::vector<int64_t>& coordinates) {
  Shape local = leaf.type.shape;
  for (size_t dim = 0; dim < leaf.spec.dims.size(); ++dim) {
    const Slice slice = dimension_slice(mesh, leaf.spec.dims[dim], Cut::Chunked,
                                        local[dim], coordinates);
    local[dim] = slice.end - slice.begin;
  }
  return local;
}

}  // namespace

size_t kind_count(const Plan& plan, const StateSpecs* specs) {
  return specs != nullptr ? specs->kinds.size() : plan.placements.size();
}

const Placement& kind_placement(const Plan& plan, const StateSpecs* specs,
                                size_t kind) {
  return plan
      .placements[specs != nullptr ? specs->kinds[kind].placement : kind];
}

HeldState hold_state(const Plan& plan, const StateOptions& options,
                     const StateSpecs* specs) {
  HeldState held;
  for (size_t kind = 0; kind < kind_count(plan, specs); ++kind) {
    const Placement& placement = kind_placement(plan, specs, kind);
    const RoleSpecs* own =
        specs != nullptr ? &specs->kinds[kind].specs : nullptr;
    const DType weights = stored_type(placement.type, options).dtype;
    for (StateLeaf& leaf : state_leaves(placement, plan.mesh,
                                        plan.on_indivisible, options, own)) {
      KindLeaf entry;
      entry.kind = static_cast<uint32_t>(kind);
      entry.leaf = std::move(leaf);
      entry.sum = sum_of(held.sums, entry.leaf);
      if (entry.leaf.layout == LeafLayout::Buffer) {
        entry.buffer =
            buffer_of(held.buffers, weights, plan.mesh, entry, options);
      }
      if (plan.on_indivisible == OnIndivisible::Chunk) {
        entry.uneven = add_breakpoints(plan.mesh, entry.leaf.type.shape,
                                       entry.leaf.spec, held.breakpoints);
      }
      held.leaves.push_back(std::move(entry));
    }
  }
  return held;
}

void visit_held(const HeldState& held, const Mesh& mesh,
                const StateOptions& options, const std::vector<int64_t>& counts,
                const std::vector<int64_t>& coordinates,
                const std::function<void(size_t, StateKind, Int128)>& add) {
  std::vector<Int128> elements(held.buffers.size());
  for (const KindLeaf& entry : held.leaves) {
    const Int128 count = counts[entry.kind];
    if (count == 0) continue;
    const StateLeaf& leaf = entry.leaf;
    Shape here;
    if (entry.uneven) here = local_at(leaf, mesh, coordinates);
    const Shape& local = entry.uneven ? here : leaf.local_shape;
    if (leaf.layout == LeafLayout::Buffer) {
      const int64_t own = *element_count(local);
      elements[entry.buffer] +=
          count * buffer_elements(own, options.zero_style);
    } else {
      add(entry.sum, leaf.kind,
          count *
              (entry.uneven ? leaf_bytes(leaf, local) : leaf.bytes_per_device));
    }
  }
  for (size_t i = 0; i < held.buffers.size(); ++i) {
    const FlatBuffer& buffer = held.buffers[i];
    add(buffer.sum, buffer.kind,
        buffer_bytes(elements[i], buffer.dtype, options.zero_style,
                     buffer.ranks, buffer.shared_by));
  }
}

}  // namespace shardplan
