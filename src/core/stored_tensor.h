// SPDX-License-Identifier: Apache-2.0
// StoredTensor: numbers as a checkpoint holds them, in a mapped file.
//
// Nothing is read before it is looked at, and nothing is copied: a tensor of
// 100 GB costs address space.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/types.h"

namespace shardplan {

struct StoredTensor {
  DType dtype = DType::F32;
  Shape shape;
  // Row-major, little endian, not aligned; null where there are no numbers.
  const std::byte* data = nullptr;
  std::shared_ptr<const void> owner = {};  // keeps the file mapped
};

// The numbers of a model: one tensor per parameter of its manifest.
using StoredTensors = std::vector<StoredTensor>;

}  // namespace shardplan
