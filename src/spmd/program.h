// SPDX-License-Identifier: Apache-2.0
// Program: a graph on a mesh, as local operations and collectives.
//
// The second waist of the program: one module executes it, another prices it.
// Plain data, so that tests can break it on purpose. Every instruction has one
// result, a register; a register holds one tensor per device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/collective.h"
#include "core/mesh.h"
#include "graph/graph.h"
#include "spmd/layout.h"

namespace shardplan {

struct Register {
  int value = 0;  // of the graph
  Layout layout;
  Shape local_shape;
};

// How the transfers of a product are interleaved with it.
enum class Overlap : uint8_t { Off, Ring, Bidirectional, Split };

// Why a collective is there.
enum class Cause : uint8_t {
  PartialSum,  // someone needs the whole sum
  WeightUse,   // a weight is gathered before use
  Declared,    // a spec or constraint asks for the layout
  Implicit,    // operands disagree, and nothing says what is meant
};

struct Instruction {
  enum class Kind : uint8_t {
    Load,        // an input or parameter, as its layout says
    Compute,     // `node` on local operands
    Slice,       // keep the own part of dimension `dim` along `axes`
    Collective,  // `collective` over `axes`
  };
  Kind kind = Kind::Compute;
  int result = 0;             // register
  std::vector<int> operands;  // registers
  int node = -1;  // Compute: what; else the node that needs it, -1: an output

  // Compute: the axes of every factor of the node.
  std::vector<AxisNames> factor_axes;

  // Slice and Collective.
  CollectiveKind collective = CollectiveKind::AllGather;
  AxisNames axes;  // major to minor: the order of ranks
  // all-gather: the dimension that grows; reduce-scatter and slice: that
  // shrinks; all-to-all: that is cut, where `grown` is put together.
  int dim = 0;
  int grown = 0;
  Reduction reduction = Reduction::Sum;
  const Algorithm* algorithm = nullptr;  // none for permute
  std::vector<int> sources;  // permute: per device, whose shard it gets
  Cause cause = Cause::Implicit;
  // Devices hold more of the value in between than before or after.
  bool rematerializes = false;

  // Compute with its collective, an all-gather of operand `overlapped` or a
  // reduce-scatter of the result, in steps: the product of a chunk while the
  // next one travels. `dim` and `axes` are those of the collective.
  Overlap overlap = Overlap::Off;
  int overlapped = -1;
};

struct Program {
  Mesh mesh;
  const Graph* graph = nullptr;  // outlives the program
  std::vector<Register> registers = {};
  std::vector<Instruction> instructions = {};
  std::vector<int> outputs = {};  // registers, one per output of the graph
  // Per value of the graph, the layout in which it is handed on.
  std::vector<Layout> layouts = {};
  // Per value, whether it follows from parameters alone (find_weights).
  std::vector<bool> weights = {};
};

}  // namespace shardplan
