// SPDX-License-Identifier: Apache-2.0
#include "graph/layers.h"

#include <algorithm>
#include <string>

#include "base/text.h"

namespace shardplan {
namespace {

int64_t modulo(int64_t number, int64_t n) { return ((number % n) + n) % n; }

// Part of the columns of a piece, and the device whose part of the result they
// belong to.
struct Columns {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t device = 0;
};

std::vector<Columns> columns_of(AsyncLayout layout, int64_t device,
                                int64_t piece, int64_t n, int64_t width) {
  const int64_t up = modulo(device - 1 - piece, n);
  switch (layout) {
    case AsyncLayout::Gather:
      return {{0, width, device}};
    case AsyncLayout::Scatter:
      return {{0, width, up}};
    case AsyncLayout::SplitScatter:
      return {{0, width / 2, up},
              {width / 2, width, modulo(device + 1 + piece, n)}};
  }
  return {};
}

Tensor block(const Tensor& whole, int dim, int64_t begin, int64_t size) {
  return slice(whole, dim, begin, begin + size);
}

}  // namespace

std::optional<TensorParallelMode> tensor_parallel_mode(std::string_view name,
                                                       int64_t devices,
                                                       Diagnostics& diags) {
  if (devices <= 1 || name == "none") return TensorParallelMode::None;
  if (name == "gather") return TensorParallelMode::Gather;
  if (name == "scatter") return TensorParallelMode::Scatter;
  return diags
      .error(Code::InvalidGraph, {},
             "unknown tensor parallel mode `" + printable(name) + "`")
      .help("it is `none`, `gather` or `scatter`");
}

Tensor dense_kernel(AsyncLayout layout,
                    std::span<const std::vector<Tensor>> pieces) {
  const auto n = static_cast<int64_t>(pieces.size());
  const Tensor& first = pieces.front().front();
  const int64_t rows = first.shape[0];
  const int64_t width = first.shape[1];
  Tensor kernel = make_tensor(first.element, {n * rows, n * width});
  for (int64_t device = 0; device < n; ++device) {
    for (int64_t i = 0; i < n; ++i) {
      const Tensor& piece =
          pieces[static_cast<size_t>(device)][static_cast<size_t>(i)];
      const int64_t source =
          layout == AsyncLayout::Gather ? modulo(device - i, n) : device;
      const Tensor of_source = block(kernel, 0, source * rows, rows);
      for (const Columns& part : columns_of(layout, device, i, n, width)) {
        const int64_t size = part.end - part.begin;
        copy_into(block(of_source, 1, part.device * width + part.begin, size),
                  block(piece, 1, part.begin, size));
      }
    }
  }
  return kernel;
}

Tensor dense_bias(AsyncLayout layout, std::span<const Tensor> biases) {
  const auto n = static_cast<int64_t>(biases.size());
  const int64_t width = biases.front().shape[0];
  Tensor dense = make_tensor(biases.front().element, {n * width});
  for (int64_t device = 0; device < n; ++device) {
    // A bias travels with the product of `shard_0`.
    for (const Columns& part : columns_of(layout, device, 0, n, width)) {
      const int64_t size = part.end - part.begin;
      copy_into(
          block(dense, 0, part.device * width + part.begin, size),
          block(biases[static_cast<size_t>(device)], 0, part.begin, size));
    }
  }
  return dense;
}

}  // namespace shardplan
