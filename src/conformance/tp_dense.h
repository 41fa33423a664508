// SPDX-License-Identifier: Apache-2.0
// Tensor-parallel layers of xlstm-jax seen as a whole: what their modes are,
// and how the pieces that its devices hold make one dense kernel.
//
// n devices, numbers of devices modulo n. The layers themselves are graphs
// (rules/graphs/); nothing here knows of communication.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "graph/tensor.h"

namespace shardplan {

enum class TensorParallelMode : uint8_t { None, Gather, Scatter };

// The mode of a name; on one device every name is None and none is refused, as
// in TPDense. SP015 for an unknown one.
std::optional<TensorParallelMode> tensor_parallel_mode(std::string_view name,
                                                       int64_t devices,
                                                       Diagnostics& diags);

// How a TPAsyncDense uses its pieces, n of shape [in/n, out/n] per device:
enum class AsyncLayout : uint8_t {
  // Piece i of device d multiplies the input of device d - i.
  Gather,
  // The product of piece i of device d is added on device d - 1 - i.
  Scatter,
  // So is its first half; the second half on device d + 1 + i. The first half
  // is floor(columns / 2).
  SplitScatter,
};

// The dense kernel [in, out] of pieces[device][i].
// REQUIRES: n x n pieces of one shape and element type.
Tensor dense_kernel(AsyncLayout layout,
                    std::span<const std::vector<Tensor>> pieces);
// The dense bias [out] of the biases that the devices' `shard_0` hold.
// REQUIRES: n vectors of one size and element type.
Tensor dense_bias(AsyncLayout layout, std::span<const Tensor> biases);

}  // namespace shardplan
