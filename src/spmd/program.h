// SPDX-License-Identifier: Apache-2.0
// Program: a graph on a mesh, as local operations and collectives.
//
// The partitioner writes it, one module executes it, and another prices it. It
// is plain data, so that tests can break it on purpose. Every instruction has
// one result, a register; a register holds one tensor per device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/collective.h"
#include "core/mesh.h"
#include "graph/graph.h"
#include "spmd/layout.h"

namespace shardplan {

using RegisterId = Id<struct Register>;
using InstructionId = Id<struct Instruction>;
template <typename T>
using PerRegister = IdVector<RegisterId, T>;
template <typename T>
using PerInstruction = IdVector<InstructionId, T>;

struct Register {
  ValueId value;
  Layout layout;
  Shape local_shape;
};

// How the transfers of a product's collective are interleaved with the product.
enum class Overlap : uint8_t { Off, Ring, Bidirectional, Split };

// The reason for a collective.
enum class Cause : uint8_t {
  PartialSum,  // an operation needs the whole sum
  WeightUse,   // a weight is gathered before use
  Experts,     // tokens go to their experts, or answers come back
  Declared,    // a spec or constraint asks for the layout
  Implicit,    // operands disagree, and nothing says what is meant
};

struct Instruction {
  enum class Kind : uint8_t {
    Load,        // reads an input or parameter in its layout
    Compute,     // runs `node` on local operands
    Slice,       // keeps the own part of dimension `dim` along `axes`
    Collective,  // runs `collective` over `axes`
  };
  Kind kind = Kind::Compute;
  RegisterId result = {};
  std::vector<RegisterId> operands = {};
  NodeId node = {};  // Compute: the operation; else its reader; none: an output

  // Compute: the axes of every factor of the node.
  std::vector<AxisNames> factor_axes = {};

  // Only for Slice and Collective.
  CollectiveKind collective = CollectiveKind::AllGather;
  AxisNames axes = {};  // major to minor: the order of ranks
  // The dimension that an all-gather grows, that a reduce-scatter or slice
  // shrinks, or that an all-to-all cuts while it grows `grown`.
  int dim = 0;
  int grown = 0;
  Reduction reduction = Reduction::Sum;
  const Algorithm* algorithm = nullptr;  // null for permute
  // Permute: the device whose shard each device gets; empty: as the layouts
  // imply.
  std::vector<int> sources = {};
  Cause cause = Cause::Implicit;
  // The step leaves devices with more of the value than they hold before and
  // after the whole conversion.
  bool rematerializes = false;

  // A Compute that is joined with its collective, an all-gather of operand
  // `overlapped` or a reduce-scatter of the result: it multiplies one chunk
  // while the next one is sent. `dim` and `axes` are those of the collective.
  Overlap overlap = Overlap::Off;
  std::optional<size_t> overlapped = {};
};

struct Program {
  Mesh mesh;  // has sub-axes (core/views.h), the only axes used here
  const Graph* graph = nullptr;  // outlives the program
  PerRegister<Register> registers = {};
  PerInstruction<Instruction> instructions = {};
  std::vector<RegisterId> outputs = {};  // one per output of the graph
  // The layout in which a value is handed on to its readers.
  PerValue<Layout> layouts = {};
};

// Returns, per device, the device whose shard a permute gives it. O(devices).
std::vector<int> permute_sources(const Program& program,
                                 const Instruction& permute);

// For reports: return the axes of an instruction that serves the node (none: an
// output), or the layout of a value, by the names that users gave: those of the
// experts' view for experts, those of the mesh for everything else. A sub-axis
// that is only part of an axis keeps its own name.
AxisNames reported_axes(const Program& program, const AxisNames& axes,
                        NodeId node);
Layout reported_layout(const Program& program, Layout layout, ValueId value);

}  // namespace shardplan
