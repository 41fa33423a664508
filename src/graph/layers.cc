// SPDX-License-Identifier: Apache-2.0
#include "graph/layers.h"

#include <algorithm>
#include <string>

#include "base/text.h"

namespace shardplan {
namespace {

// How far back from an addition its product and its bias are looked for: no
// layer has more between them, and a graph of a million additions takes no
// time.
constexpr int kMaxSteps = 8;

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

const GraphNode* maker(const Graph& graph, int value) {
  const int node = graph.values[static_cast<size_t>(value)].node;
  return node < 0 ? nullptr : &graph.nodes[static_cast<size_t>(node)];
}

bool is_parameter(const Graph& graph, int value) {
  return graph.values[static_cast<size_t>(value)].kind ==
         Value::Kind::Parameter;
}

// The bias that `value` is the sum of, over its first dimension; else nothing.
std::optional<int> summed_bias(const Graph& graph, int value) {
  const GraphNode* node = maker(graph, value);
  for (int step = 0; step < kMaxSteps && node != nullptr; ++step) {
    if (node->op->name != "reshape" && node->op->name != "constraint") break;
    node = maker(graph, node->operands.front());
  }
  if (node == nullptr || node->op->name != "sum") return std::nullopt;
  const int bias = node->operands.front();
  const auto dims = integers_of(node->attributes, "dims");
  const Shape& shape = graph.values[static_cast<size_t>(bias)].shape;
  if (!is_parameter(graph, bias) || shape.size() < 2 || dims.size() != 1) {
    return std::nullopt;
  }
  const auto rank = static_cast<int64_t>(shape.size());
  if (dims.front() != 0 && dims.front() != -rank) return std::nullopt;
  return bias;
}

bool contracts_first_dim(const Graph& graph, const GraphNode& einsum,
                         int64_t size) {
  for (size_t i = 0; i < einsum.operands.size(); ++i) {
    const auto& dims = einsum.rule.operands[i];
    if (!is_parameter(graph, einsum.operands[i]) || dims.empty() ||
        dims.front().size() != 1) {
      continue;
    }
    const Factor& factor =
        einsum.rule.factors[static_cast<size_t>(dims.front().front())];
    if (factor.kind == FactorKind::Sum && factor.size == size) return true;
  }
  return false;
}

// Whether `value` is such a product, perhaps scaled or with more added to it.
bool is_product_over(const Graph& graph, int value, int64_t size) {
  const GraphNode* node = maker(graph, value);
  for (int step = 0; step < kMaxSteps && node != nullptr; ++step) {
    const std::string_view name = node->op->name;
    if (name == "einsum") return contracts_first_dim(graph, *node, size);
    if (name != "scale" && name != "add" && name != "reshape" &&
        name != "constraint") {
      return false;
    }
    node = maker(graph, node->operands.front());
  }
  return false;
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

std::vector<int> repeated_biases(const Graph& graph) {
  std::vector<int> found;
  for (const GraphNode& node : graph.nodes) {
    if (node.op->name != "add") continue;
    for (const size_t side : {size_t{0}, size_t{1}}) {
      const auto bias = summed_bias(graph, node.operands[side]);
      if (!bias ||
          std::find(found.begin(), found.end(), *bias) != found.end()) {
        continue;
      }
      const int64_t size =
          graph.values[static_cast<size_t>(*bias)].shape.front();
      if (is_product_over(graph, node.operands[1 - side], size)) {
        found.push_back(*bias);
      }
    }
  }
  return found;
}

}  // namespace shardplan
