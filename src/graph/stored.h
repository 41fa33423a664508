// SPDX-License-Identifier: Apache-2.0
// Numbers of a checkpoint as a tensor to compute with.
#pragma once

#include "core/stored_tensor.h"
#include "graph/tensor.h"

namespace shardplan {

// Whether numbers of that type can be computed with: F64, F32, F16, BF16.
bool is_computable(DType dtype);

// A copy in float32 or double, every number exact but for F64 as float32 (round
// to nearest). An F32 tensor that is aligned is no copy but a view of the file.
// REQUIRES: is_computable, and there are numbers.
Tensor load(const StoredTensor& stored, Element element);

}  // namespace shardplan
