// SPDX-License-Identifier: Apache-2.0
// Quantisation blocks: elements that share a scale.
//
// Facts give the rows and columns of a block, of the last two dimensions of
// every quantised matrix (FP8: 128 x 128; formats that quantise along a row: 1
// x 32 or 1 x 256). A shard must begin where a block begins. MXFP4 checkpoints
// hold a block as 16 bytes in a dimension of its own, the last of `_blocks`.
// Where no facts say it, the scales beside a weight tell its blocks by their
// shapes (quant_scales.h).
//
// The types of GGUF are blocks: 32 or 256 elements of a row are packed with
// their scales, so that no part of a block can be stored at all.
#include <optional>

#include "resolve/quant_scales.h"
#include "resolve/unit_kinds.h"

namespace shardplan {
namespace {

std::optional<Unit> block_unit(size_t dim, int64_t size,
                               std::optional<int64_t> block) {
  if (!block || *block < 2 || size < 1) return std::nullopt;
  // The last block may be smaller; no equal shards begin at blocks then.
  const int64_t count = size % *block == 0 ? size / *block : 1;
  return Unit{static_cast<int>(dim), UnitKind::QuantBlock, count};
}

}  // namespace

std::vector<Unit> block_units(const NamedTensor& tensor,
                              const ModelFacts& facts,
                              const LayoutHints& hints) {
  const Shape& shape = tensor.type.shape;
  const size_t rank = shape.size();
  std::vector<Unit> units;
  const int64_t packed = dtype_block(tensor.type.dtype).elements;
  if (packed > 1) {
    if (rank == 0) return units;
    if (auto unit = block_unit(rank - 1, shape[rank - 1], packed)) {
      unit->stored = true;
      units.push_back(*std::move(unit));
    }
    return units;
  }
  if (tensor.tail.module.ends_with("_blocks") && rank == 4 &&
      tensor.type.dtype == DType::U8) {
    units.push_back({3, UnitKind::QuantBlock, 1, true});
    return units;
  }
  const bool given = facts.quant_rows || facts.quant_columns;
  if (rank < 2 || !is_quantised(tensor.type.dtype) || !given) {
    const QuantBlocks* told = find_blocks(hints.blocks, tensor.name, shape);
    for (size_t dim = 0; told != nullptr && dim < rank; ++dim) {
      const auto unit = block_unit(dim, shape[dim], told->blocks[dim]);
      if (unit) units.push_back(*unit);
    }
    return units;
  }
  for (const auto& unit :
       {block_unit(rank - 2, shape[rank - 2], facts.quant_rows),
        block_unit(rank - 1, shape[rank - 1], facts.quant_columns)}) {
    if (unit) units.push_back(*unit);
  }
  return units;
}

}  // namespace shardplan
