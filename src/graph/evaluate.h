// SPDX-License-Identifier: Apache-2.0
// The unsharded run of a graph: what every sharded one is compared with.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "graph/tensor.h"

namespace shardplan {

// Gives a whole input or parameter, in elements of the run that asks. The same
// value may be asked for again rather than kept.
using ReadWhole = std::function<Tensor(int value)>;

// A run, one node after the other, whose caller says what may be forgotten.
struct Evaluation {
  const Graph* graph = nullptr;
  ReadWhole read;
  Arithmetic arithmetic = Arithmetic::F32;
  int threads = 1;
  std::vector<Tensor> results = {};  // by value; no storage where there is none
};

// Puts its result into `results`. REQUIRES: its operands are there.
void evaluate_node(Evaluation& run, int node);
// A result that is there, or an input or parameter, which is read.
Tensor whole_of(const Evaluation& run, int value);

// All values of the graph, by number. `given` holds inputs and parameters by
// their numbers; what it holds in the place of results is not looked at.
// REQUIRES: every input and parameter is given in its shape, with elements of
// `arithmetic`.
std::vector<Tensor> evaluate(const Graph& graph, std::span<const Tensor> given,
                             Arithmetic arithmetic, int threads = 1);

// Per value, whether it holds integers that are no measurements, such as token
// ids and choices, or only moves them: these are not rounded.
std::vector<bool> integer_values(const Graph& graph);

}  // namespace shardplan
