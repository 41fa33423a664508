// SPDX-License-Identifier: Apache-2.0
#include "resolve/stored.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "base/checked.h"
#include "resolve/units.h"
#include "resolve/vocab.h"

namespace shardplan {
namespace {

AxisNames axes_of(const PartitionSpec& spec, size_t dim) {
  return dim < spec.dims.size() ? spec.dims[dim] : AxisNames();
}

// The smallest multiple of both `multiple` and `shards` that holds `size`.
std::optional<int64_t> padded(int64_t size, int64_t multiple, int64_t shards) {
  const auto both = checked_mul(multiple / std::gcd(multiple, shards), shards);
  if (!both) return std::nullopt;
  return checked_mul(ceil_div(size, *both), *both);
}

std::optional<StoredDim> stored_vocab(
    std::string_view name, const TensorType& type, const PartitionSpec& spec,
    const Mesh& mesh, const Declarations& declared, const UnitFacts& known) {
  if (declared.pad_vocab == 0) return std::nullopt;
  const auto dim = vocab_dim(name, type, known.facts);
  if (!dim) return std::nullopt;
  const int64_t size = type.shape[*dim];
  const int64_t shards = shard_count(mesh, axes_of(spec, *dim));
  const auto stored = padded(size, declared.pad_vocab, shards);
  if (!stored || *stored == size) return std::nullopt;
  std::string why =
      "pad-vocab=" + std::to_string(declared.pad_vocab) + ": smallest multiple";
  if (shards > 1) why += " that " + std::to_string(shards) + " shards divide";
  return StoredDim{static_cast<int>(*dim), *stored, std::move(why)};
}

}  // namespace

std::vector<StoredDim> stored_dims(std::string_view name,
                                   const TensorType& type,
                                   const PartitionSpec& spec, const Mesh& mesh,
                                   const Declarations& declared,
                                   const UnitFacts& known) {
  std::vector<StoredDim> result;
  if (!declared.any()) return result;
  if (auto vocab = stored_vocab(name, type, spec, mesh, declared, known)) {
    result.push_back(*std::move(vocab));
  }
  for (const Unit& unit : units_of(name, type, known.facts, known.hints)) {
    const auto dim = static_cast<size_t>(unit.dim);
    const int64_t shards =
        shard_count(mesh, cutting_axes(unit, axes_of(spec, dim)));
    StoredSize stored = stored_size(unit, type.shape[dim], shards, declared);
    if (stored.why.empty()) continue;
    result.push_back({unit.dim, stored.size, std::move(stored.why)});
  }
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace shardplan
