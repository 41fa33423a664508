// SPDX-License-Identifier: Apache-2.0
#include "io/orbax/written_shapes.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/checked.h"
#include "base/words.h"
#include "io/orbax/checkpoint.h"
#include "syntax/document.h"

namespace shardplan {
namespace {

// Returns `part` x `counts`, where dimension `split` is also split among the
// replicas.
std::optional<Shape> whole(Shape part, const ShardCounts& counts,
                           std::optional<size_t> split) {
  for (size_t i = 0; i < part.size(); ++i) {
    auto size = checked_mul(part[i], counts.per_dim[i]);
    if (size && split == i) size = checked_mul(*size, counts.replicas);
    if (!size) return std::nullopt;
    part[i] = *size;
  }
  return part;
}

// Parses "<f4", "|b1" or "bfloat16": zarr 2 uses NumPy's names.
std::optional<DType> numpy_dtype(std::string_view text) {
  if (text.size() < 2 ||
      std::string_view("<>|=").find(text[0]) == std::string_view::npos) {
    return find_dtype(text);
  }
  constexpr std::pair<std::string_view, DType> kKinds[] = {
      {"b1", DType::Bool}, {"f8", DType::F64},   {"f4", DType::F32},
      {"f2", DType::F16},  {"i8", DType::I64},   {"i4", DType::I32},
      {"i2", DType::I16},  {"i1", DType::I8},    {"u8", DType::U64},
      {"u4", DType::U32},  {"u2", DType::U16},   {"u1", DType::U8},
      {"c8", DType::C64},  {"c16", DType::C128},
  };
  for (const auto& [kind, dtype] : kKinds) {
    if (text.substr(1) == kind) return dtype;
  }
  return std::nullopt;
}

}  // namespace

std::optional<ShardCounts> shard_counts(const RecordedSharding& sharding,
                                        size_t rank) {
  if (sharding.spec.dims.size() > rank) return std::nullopt;
  ShardCounts counts;
  counts.per_dim.assign(rank, 1);
  int64_t devices = 1;
  for (const AxisRequest& axis : sharding.mesh) {
    const auto product = checked_mul(devices, axis.size);
    if (!product || *product < 1) return std::nullopt;
    devices = *product;
  }
  int64_t shards = 1;
  for (size_t i = 0; i < sharding.spec.dims.size(); ++i) {
    for (const AxisName& name : sharding.spec.dims[i]) {
      const AxisRequest* const axis = find_named(sharding.mesh, name);
      const int64_t size = axis == nullptr ? 1 : axis->size;
      const auto here = checked_mul(counts.per_dim[i], size);
      const auto all = checked_mul(shards, size);
      if (!here || !all) return std::nullopt;
      counts.per_dim[i] = *here;
      shards = *all;
    }
  }
  counts.replicas = std::max<int64_t>(1, devices / shards);
  return counts;
}

std::vector<Shape> possible_shapes(const Shape& write_shape,
                                   const ShardCounts& counts) {
  std::vector<Shape> shapes;
  const auto add = [&](std::optional<size_t> split) {
    auto shape = whole(write_shape, counts, split);
    if (shape) shapes.push_back(*std::move(shape));
  };
  const bool is_empty = contains(write_shape, 0);
  if (counts.replicas > 1 && !is_empty) {
    // A dimension is split only if no earlier one could be.
    for (size_t i = 0; i < write_shape.size(); ++i) {
      add(i);
      if (write_shape[i] % counts.replicas == 0) break;
    }
  }
  add(std::nullopt);
  return shapes;
}

bool is_open(const Shape& write_shape, const ShardCounts& counts) {
  return counts.replicas > 1 && !write_shape.empty() &&
         write_shape.front() % counts.replicas != 0;
}

std::vector<Shape> shared_shapes(const Shape& write_shape,
                                 const ShardCounts& counts) {
  std::vector<Shape> shapes = possible_shapes(write_shape, counts);
  const bool divides = std::ranges::any_of(
      write_shape, [&](int64_t size) { return size % counts.replicas == 0; });
  // If replicas could share the writing, one alone did not write it all.
  if (divides && shapes.size() > 1) shapes.pop_back();
  return shapes;
}

std::optional<Shape> best_supported(
    const std::vector<Shape>& shapes,
    const std::function<int(int64_t size)>& support) {
  std::optional<Shape> best;
  int most = -1;
  for (const Shape& shape : shapes) {
    int sum = 0;
    for (const int64_t size : shape) sum += support(size);
    if (sum == most) best.reset();
    if (sum <= most) continue;
    most = sum;
    best = shape;
  }
  return best;
}

const Shape& likeliest(const std::vector<Shape>& shapes,
                       const std::set<int64_t>& known_sizes) {
  for (const Shape& shape : shapes) {
    if (std::ranges::all_of(shape, [&](int64_t size) {
          return known_sizes.count(size) != 0;
        })) {
      return shape;
    }
  }
  return shapes.front();
}

std::optional<TensorType> zarr_type(const SourcePtr& file) {
  Diagnostics problems;
  const auto document = parse_document(file, problems);
  if (!document || !document->root().is_map()) return std::nullopt;
  const Node root = document->root();
  const auto shape = root.find("shape");
  auto dtype = root.find("dtype");
  if (!dtype) dtype = root.find("data_type");
  if (!shape || !dtype || !dtype->is_string()) return std::nullopt;
  const auto number_type = numpy_dtype(dtype->text());
  auto sizes = read_sizes(*shape);
  if (!number_type || !sizes) return std::nullopt;
  return TensorType{*number_type, *std::move(sizes)};
}

}  // namespace shardplan
