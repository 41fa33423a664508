// SPDX-License-Identifier: Apache-2.0
// Regions: operations of a graph that compute one thing together, such as a
// norm or attention, and stay visible as that.
//
// Every composite (graph/composites.h) is one, from when it is expanded.
// Attention and experts, which a graph file spells out, are found once, when
// the graph is built. A region may contain others, which stand before it in the
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
    Experts,    // from where tokens are dealt out to where answers come back
  };
  Kind kind = Kind::Linear;
  // In order, with others between them; but for experts, whose values others
  // may read, the last gives the (last) result.
  std::vector<NodeId> nodes;
  std::vector<ValueId> inputs;   // read from outside, but for weights
  std::vector<ValueId> results;  // several of a split, or a linear layer

  // Norms, softmaxes and attention: the value with the numbers of each row that
  // a kernel keeps, and how many there are. Means and roots, logarithms of
  // sums.
  ValueId row;
  int numbers_per_row = 1;

  // A softmax: the only product of two activations that reads its result,
  // whatever is done with it before. None: it weights no values.
  NodeId weights;

  // Attention: a trained table is added to its scores, whose gradient few
  // kernels give.
  bool has_trained_bias = false;
  // Its products in which several heads of operand 0 share one of operand 1,
  // keys or values, with the dimension of operand 0 that counts them.
  std::map<NodeId, size_t> shared_heads;

  // Experts: how many there are, and the places that each has of a sequence;
  // the tokens of a sequence, and how many experts each of them goes to.
  int64_t experts = 0;
  int64_t places = 0;
  int64_t tokens = 0;
  int64_t choices = 0;
  // The product from which a token's experts follow; none where no product
  // says.
  NodeId router;

  bool is_norm_or_softmax() const {
    return kind == Kind::Norm || kind == Kind::Softmax;
  }
};

// Whether it is a product of two activations.
bool multiplies_values(const Graph& graph, NodeId node);

// Adds a region, whose inputs follow from the rest. REQUIRES: it has nodes.
Region& add_region(Graph& graph, Region region);

// Adds those of attention and experts. REQUIRES: all operations are there.
void find_regions(Graph& graph);

}  // namespace shardplan
