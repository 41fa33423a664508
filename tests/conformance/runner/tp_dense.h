// SPDX-License-Identifier: Apache-2.0
// Tensor-parallel layers of xlstm-jax as a whole: their modes, and how the
// pieces on the devices form one dense kernel.
//
// There are n devices; device numbers are modulo n. The layers themselves are
// graphs (rules/graphs/); this file contains no communication.
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

// Returns the mode of a name. On one device every name, even an unknown one, is
// None, as in TPDense. Reports SP015 for an unknown name.
std::optional<TensorParallelMode> tensor_parallel_mode(std::string_view name,
                                                       int64_t devices,
                                                       Diagnostics& diags);

// How a TPAsyncDense uses its n pieces of shape [in/n, out/n] per device.
enum class AsyncLayout : uint8_t {
  // Piece i of device d multiplies the input of device d - i.
  Gather,
  // The product of piece i of device d is added on device d - 1 - i.
  Scatter,
  // The product of the first half of a piece is added as for Scatter, that of
  // the second half on device d + 1 + i. The first half has floor(columns / 2)
  // columns.
  SplitScatter,
};

// Returns the dense kernel [in, out] that pieces[device][i] form.
//
// REQUIRES: n x n pieces of one shape and element type.
Tensor dense_kernel(AsyncLayout layout,
                    std::span<const std::vector<Tensor>> pieces);
// Returns the dense bias [out] that the biases of the devices' `shard_0` form.
//
// REQUIRES: n vectors of one size and element type.
Tensor dense_bias(AsyncLayout layout, std::span<const Tensor> biases);

}  // namespace shardplan
