// SPDX-License-Identifier: Apache-2.0
// Program: a graph on a mesh, as local operations and collectives.
//
// The second waist of the program: one module executes it, another prices it.
// Plain data, so that tests can break it on purpose. Every instruction has one
// result, a register; a register holds one tensor per device.
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

// How the transfers of a product are interleaved with it.
enum class Overlap : uint8_t { Off, Ring, Bidirectional, Split };

// Why a collective is there.
enum class Cause : uint8_t {
  PartialSum,  // someone needs the whole sum
  WeightUse,   // a weight is gathered before use
  Experts,     // tokens go to their experts, or answers come back
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
  RegisterId result;
  std::vector<RegisterId> operands;
  NodeId node;  // Compute: what; else the node that needs it, none: an output

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
  // Permute: per device, whose shard it gets; empty: as the layouts say.
  std::vector<int> sources;
  Cause cause = Cause::Implicit;
  // Devices hold more of the value in between than before or after.
  bool rematerializes = false;

  // Compute with its collective, an all-gather of operand `overlapped` or a
  // reduce-scatter of the result, in steps: the product of a chunk while the
  // next one travels. `dim` and `axes` are those of the collective.
  Overlap overlap = Overlap::Off;
  std::optional<size_t> overlapped;
};

struct Program {
  Mesh mesh;  // of sub-axes (core/views.h), whose names all axes here are
  const Graph* graph = nullptr;  // outlives the program
  PerRegister<Register> registers = {};
  PerInstruction<Instruction> instructions = {};
  std::vector<RegisterId> outputs = {};  // one per output of the graph
  // The layout in which a value is handed on.
  PerValue<Layout> layouts = {};
};

// Returns, per device, the device whose shard a permute gives it. O(devices).
std::vector<int> permute_sources(const Program& program,
                                 const Instruction& permute);

// For reports: axes of an instruction that serves the node (none: an output),
// or the layout of a value, by the names that users gave: those of the experts'
// view for experts, and those of the mesh for all else. Sub-axes that are only
// a part of an axis keep their own name.
AxisNames reported_axes(const Program& program, const AxisNames& axes,
                        NodeId node);
Layout reported_layout(const Program& program, Layout layout, ValueId value);

}  // namespace shardplan
