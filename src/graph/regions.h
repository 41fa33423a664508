// SPDX-License-Identifier: Apache-2.0
// Regions: operations of a graph that together compute one thing, such as a
// norm or attention, and remain recognizable as that.
//
// Every composite (graph/composites.h) becomes a region when it is expanded.
// Attention and experts, which a graph file spells out, are found once, when
// the graph is built. A region may contain others, which precede it in the
// graph: attention contains its softmax.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "graph/ids.h"

namespace shardplan {

struct Graph;

struct Region {
  enum class Kind : uint8_t {
    Linear,
    Product,
    Norm,
    Softmax,
    Split,
    Attention,  // from products of queries and keys to the product with values
    Experts,    // from sending tokens to experts to combining their answers
  };
  Kind kind = Kind::Linear;
  // In the order of the graph, with other nodes in between. The last node
  // computes the (last) result, except for experts, whose values other nodes
  // may read.
  std::vector<NodeId> nodes = {};
  std::vector<ValueId> inputs = {};  // values read from outside, except weights
  std::vector<ValueId> results = {};  // several for a split or a linear layer

  // Norms, softmaxes and attention: the value with the per-row statistics that
  // a kernel saves, and how many there are per row. They are means and roots,
  // or logarithms of sums.
  ValueId row = {};
  int numbers_per_row = 1;

  // A softmax: the only product of two activations that reads its result, after
  // any other operations on it. Not set: the softmax weights no values.
  NodeId weights = {};

  // Attention: a trained table is added to the scores. Few kernels compute its
  // gradient.
  bool has_trained_bias = false;
  // Attention: its products in which several heads of operand 0 share one head
  // of operand 1 (keys or values), with the dimension of operand 0 that counts
  // them.
  std::map<NodeId, size_t> shared_heads = {};

  // Experts: how many there are, the slots that each has per sequence, the
  // tokens of a sequence, and the experts that each token goes to.
  int64_t experts = 0;
  int64_t places = 0;
  int64_t tokens = 0;
  int64_t choices = 0;
  // The product from which a token's experts follow; not set if there is none.
  NodeId router = {};

  bool is_norm_or_softmax() const {
    return kind == Kind::Norm || kind == Kind::Softmax;
  }
};

// Returns whether the node is a product of two activations.
bool multiplies_values(const Graph& graph, NodeId node);

// Adds a region, whose inputs follow from its nodes. REQUIRES: it has nodes.
Region& add_region(Graph& graph, Region region);

// Adds the regions of attention and experts. REQUIRES: all operations are
// there.
void find_regions(Graph& graph);

}  // namespace shardplan
