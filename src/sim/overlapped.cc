// SPDX-License-Identifier: Apache-2.0
#include "sim/overlapped.h"

#include <utility>

#include "base/parallel.h"
#include "spmd/groups.h"

namespace shardplan {
namespace {

// An einsum has one factor per dimension.
int factor_at(const std::vector<DimFactors>& dims, int dim) {
  return dims[static_cast<size_t>(dim)][0];
}

Tensor rows_of_factor(const Tensor& tensor, const std::vector<DimFactors>& dims,
                      int factor, const Slice& rows) {
  Tensor part = tensor;
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    if (dims[dim][0] != factor) continue;
    part = slice(part, static_cast<int>(dim), rows.begin, rows.end);
  }
  return part;
}

// The same operation on some rows of one factor.
DevicePart narrowed(const GraphNode& node, const DevicePart& whole, int factor,
                    const Slice& rows) {
  DevicePart part;
  part.context = whole.context;
  const auto f = static_cast<size_t>(factor);
  part.context.range.offsets[f] += rows.begin;
  part.context.range.sizes[f] = rows.end - rows.begin;
  for (size_t i = 0; i < whole.operands.size(); ++i) {
    part.operands.push_back(
        rows_of_factor(whole.operands[i], node.rule.operands[i], factor, rows));
  }
  return part;
}

Tensor empty_result(const GraphNode& node, const DevicePart& part) {
  Shape shape;
  for (const DimFactors& dim : node.rule.result) {
    shape.push_back(part.context.range.sizes[static_cast<size_t>(dim[0])]);
  }
  return make_tensor(element_of(part.context.arithmetic), shape);
}

// The product, chunk by chunk: a chunk's rows of the result, or a term of it.
Tensor multiply_in_order(const GraphNode& node, const DevicePart& part,
                         int factor, const std::vector<Slice>& order,
                         int64_t& flops) {
  bool in_result = false;
  for (const DimFactors& dim : node.rule.result) {
    in_result = in_result || dim[0] == factor;
  }
  Tensor result = empty_result(node, part);
  bool first = true;
  for (const Slice& rows : order) {
    const Tensor chunk =
        run_part(node, narrowed(node, part, factor, rows), flops);
    if (in_result) {
      copy_into(rows_of_factor(result, node.rule.result, factor, rows), chunk);
    } else if (first) {
      copy_into(result, chunk);
    } else {
      add_into(result, chunk, part.context.arithmetic);
    }
    first = false;
  }
  return result;
}

class Overlapped {
 public:
  Overlapped(const Mesh& mesh, const Instruction& at, const GraphNode& node,
             const TransferTypes& types, std::vector<DevicePart>& parts)
      : mesh_(mesh), at_(at), node_(node), types_(types), parts_(parts) {}

  // Gathers the operand, a group at a time; then every device multiplies.
  DeviceTensors gather_first(int threads, std::vector<int64_t>& flops,
                             std::vector<int64_t>& sent) {
    const auto operand = static_cast<size_t>(at_.overlapped);
    const int factor = factor_at(node_.rule.operands[operand], at_.dim);
    each_group([&](const std::vector<int>& group) {
      std::vector<Tensor> chunks;
      for (const int device : group) {
        chunks.push_back(part(device).operands[operand]);
      }
      std::vector<int64_t> bytes(group.size());
      const std::vector<Tensor> gathered =
          gather(*at_.algorithm, ranks_along(mesh_, at_.axes), at_.dim, chunks,
                 types_, threads, bytes);
      for (size_t r = 0; r < group.size(); ++r) {
        part(group[r]).operands[operand] = gathered[r];
        sent[static_cast<size_t>(group[r])] += bytes[r];
      }
    });
    const int64_t count = shard_count(mesh_, at_.axes);
    return each_device(threads, [&](size_t device) {
      const int64_t rank = rank_of(device);
      const Tensor& whole = parts_[device].operands[operand];
      const std::vector<Slice> order = arrival_order(
          at_.overlap, rank, count, whole.shape[static_cast<size_t>(at_.dim)]);
      const Tensor product = multiply_in_order(node_, parts_[device], factor,
                                               order, flops[device]);
      keep(product, types_.arithmetic, types_.result);
      return product;
    });
  }

  // Every device multiplies for every rank; then the terms are summed.
  DeviceTensors scatter_after(int threads, std::vector<int64_t>& flops,
                              std::vector<int64_t>& sent) {
    const int factor = factor_at(node_.rule.result, at_.dim);
    const int64_t count = shard_count(mesh_, at_.axes);
    DeviceTensors terms = each_device(threads, [&](size_t device) {
      const DevicePart& mine = parts_[device];
      const int64_t size =
          mine.context.range.sizes[static_cast<size_t>(factor)];
      std::vector<Slice> order;
      for (int64_t r = 0; r < count; ++r) {
        order.push_back(part_of(size, r, count));
      }
      return multiply_in_order(node_, mine, factor, order, flops[device]);
    });
    DeviceTensors result(terms.size());
    each_group([&](const std::vector<int>& group) {
      std::vector<Tensor> mine;
      for (const int device : group) {
        mine.push_back(std::move(terms[static_cast<size_t>(device)]));
      }
      std::vector<int64_t> bytes(group.size());
      std::vector<Tensor> sums =
          scatter(*at_.algorithm, ranks_along(mesh_, at_.axes), at_.dim,
                  std::move(mine), Reduction::Sum, types_, threads, bytes);
      for (size_t r = 0; r < group.size(); ++r) {
        result[static_cast<size_t>(group[r])] = std::move(sums[r]);
        sent[static_cast<size_t>(group[r])] += bytes[r];
      }
    });
    return result;
  }

 private:
  DevicePart& part(int device) { return parts_[static_cast<size_t>(device)]; }
  int64_t rank_of(size_t device) const {
    return shard_index(mesh_, at_.axes,
                       mesh_.coordinates(static_cast<int64_t>(device)));
  }

  template <typename Work>
  void each_group(const Work& work) {
    for (const std::vector<int>& group : device_groups(mesh_, at_.axes)) {
      work(group);
    }
  }
  template <typename Work>
  DeviceTensors each_device(int threads, const Work& work) {
    DeviceTensors result(parts_.size());
    parallel_for(static_cast<int64_t>(parts_.size()), threads, [&](int64_t d) {
      result[static_cast<size_t>(d)] = work(static_cast<size_t>(d));
    });
    return result;
  }

  const Mesh& mesh_;
  const Instruction& at_;
  const GraphNode& node_;
  const TransferTypes& types_;
  std::vector<DevicePart>& parts_;
};

}  // namespace

DeviceTensors run_overlapped(const Mesh& mesh, const Instruction& instruction,
                             const GraphNode& node,
                             std::vector<DevicePart>& parts,
                             const TransferTypes& types, int threads,
                             std::vector<int64_t>& flops,
                             std::vector<int64_t>& sent) {
  Overlapped run(mesh, instruction, node, types, parts);
  return instruction.collective == CollectiveKind::AllGather
             ? run.gather_first(threads, flops, sent)
             : run.scatter_after(threads, flops, sent);
}

std::vector<Slice> arrival_order(Overlap overlap, int64_t rank, int64_t count,
                                 int64_t size) {
  std::vector<Slice> order;
  const bool split = overlap == Overlap::Split;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t from = (rank - i + count) % count;
    Slice rows = part_of(size, from, count);
    if (split) rows.end = rows.begin + (rows.end - rows.begin) / 2;
    order.push_back(rows);
  }
  for (int64_t i = 0; split && i < count; ++i) {
    Slice rows = part_of(size, (rank + i) % count, count);
    rows.begin += (rows.end - rows.begin) / 2;
    order.push_back(rows);
  }
  return order;
}

}  // namespace shardplan
