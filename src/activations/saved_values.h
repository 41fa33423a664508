// SPDX-License-Identifier: Apache-2.0
// Saved values: what backward reads of a forward pass, operation by operation,
// and which values are saved for that.
//
// The gradient of an operation reads some of its operands, its result, or
// neither: that of a product reads both factors, that of a sum nothing. What it
// reads must be saved from forward to backward, or recomputed. How much that is
// depends on the implementation, so there are three modes of saving:
//
//   Least  operations that are cheap to repeat (elementwise ones, norms) are
//          recomputed from products, as a compiler may do (min-cut partitioner
//          of torch.compile, XLA's rematerialisation)
//   Fused  what kernels for norms, activations and attention save (Transformer
//          Engine, Apex, torch's own norms): inputs and per-row statistics
//   Eager  every operation separately, norms and softmax in float32 (PyTorch
//          without compilation, jax.grad of plain jax.numpy)
//
// A product reads an operand only for the gradient of the other one, so with a
// frozen weight its input need not be saved: PyTorch's autograd saves only what
// the requested gradients read (should_compute_output), and a compiler removes
// what nothing reads. What the gradient of each operation reads is in its row
// (graph/op.h). FlashAttention (Dao et al., 2022) saves q, k, v, the result and
// one number per query, whatever the length.
//
// SavedValues lists the values that are saved in one of these modes under a
// policy of rematerialisation.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "activations/bracket.h"
#include "activations/options.h"
#include "activations/remat.h"
#include "base/checked.h"
#include "spmd/program.h"

namespace shardplan {

// A program as the analysis of its memory sees it: the bytes and the storage of
// every register, and the layer that the register belongs to.

struct HeldRegister {
  ValueId value;
  InstructionId maker;
  RegisterId root;      // the register whose storage it shares
  int segment = 0;      // the segment that makes it
  bool weight = false;  // a weight, or made of weights alone
  bool output = false;  // logits, which are counted separately
  bool loaded = false;  // an input or a parameter
  std::array<Int128, kSavingModes> bytes{};  // on a device
  // The part of `bytes` that a moment holds if the value is not saved: for
  // values of experts that run one at a time, one expert's.
  std::array<Int128, kSavingModes> moment{};
  double filled = 1;        // the fraction of expert slots that tokens fill
  InstructionId last_read;  // the last read of any register with its storage
};

// A program with what the analysis knows of it. The program must outlive it.
struct ProgramView {
  const Program* program = nullptr;
  // Whether backward computes a gradient of the value: true for trained
  // parameters and everything that depends on one. In a model without frozen
  // parameters, true for all values.
  PerValue<bool> flows;
  bool any_frozen = false;
  PerValue<bool> wide;   // float32 where products are narrower; empty: none
  PerNode<bool> uncast;  // products that autocast leaves alone; empty: none
  PerRegister<HeldRegister> registers;
  // Segments (activations/segments.h): the layer of the graph that each one is,
  // or -1 if it is not a layer; and the segment of each instruction, or -1 for
  // a load.
  std::vector<int> layer_of_segment;
  PerInstruction<int> segment_of;

  IdRange<InstructionId> instructions() const {
    return program->instructions.ids();
  }
  const Graph& graph() const { return *program->graph; }
  const Instruction& at(InstructionId i) const {
    return program->instructions[i];
  }
  const GraphNode& node(InstructionId i) const {
    return program->graph->nodes[at(i).node];
  }
  const OpDef& op(InstructionId i) const { return *node(i).op; }
  bool computes(InstructionId i) const {
    return at(i).kind == Instruction::Kind::Compute;
  }
  const HeldRegister& reg(RegisterId number) const { return registers[number]; }
  const HeldRegister& root(RegisterId number) const {
    return reg(reg(number).root);
  }
  // Returns whether adapters are merged into the kernels of a product before it
  // runs.
  bool merges(InstructionId i) const {
    return computes(i) && (node(i).part == OpPart::MergedProduct ||
                           node(i).part == OpPart::MergedHalf);
  }
  bool skips_cast(InstructionId i) const {
    return !uncast.empty() && uncast[at(i).node];
  }
  // Returns whether autocast makes an instruction read an operand in another
  // dtype.
  bool reads_cast(InstructionId i, RegisterId operand) const;
  bool is_wide(ValueId value) const { return wide.has(value) && wide[value]; }
  bool has_gradient(RegisterId number) const {
    return flows[reg(number).value];
  }
  const Value& value(RegisterId number) const {
    return graph().values[reg(number).value];
  }
  std::string_view part(RegisterId number) const {
    return value(number).part();
  }
  int segment(InstructionId i) const { return segment_of[i]; }
  // Returns whether a segment is a layer.
  bool is_layer(int segment) const {
    return nth(layer_of_segment, segment) >= 0;
  }
  // Returns whether an instruction is a product of two activations.
  bool multiplies_values(InstructionId i) const {
    return computes(i) && shardplan::multiplies_values(graph(), at(i).node);
  }
};

ProgramView view_of(const Program& program, const SegmentOptions& options);

// Returns the elements of a register on a device.
Int128 local_elements(const ProgramView& view, RegisterId number);

// Bytes that are saved besides values: per-row statistics and float32 copies.
struct SavedExtra {
  Int128 bytes = 0;
  ValueId of = {};
};

// Walks a forward pass, instruction after instruction, and tracks the bytes
// that it holds: a result exists from its instruction on, and a value is freed
// after its last reader unless it stays. Both the forward part of a training
// step and a forward pass alone are this walk. For the latter, a test counts
// exactly these bytes as the simulator runs it.
//
// `instructions` are in the order of the program.
//   bytes(reg)  the bytes of a register with its own storage; 0: not counted
//   stays(reg)  whether such a register is never freed
//   extra(i)    the bytes that an instruction leaves besides its result
//   visit(i, held)  called when an instruction has run, before anything is
//                   freed
template <typename Bytes, typename Stays, typename Extra, typename Visit>
void walk_forward(const ProgramView& view,
                  std::span<const InstructionId> instructions, Bytes bytes,
                  Stays stays, Extra extra, Visit visit) {
  Int128 held = 0;
  for (const InstructionId i : instructions) {
    const RegisterId result = view.at(i).result;
    if (view.reg(result).root == result) held += bytes(result);
    held += extra(i);
    visit(i, held);
    std::set<RegisterId> read;
    for (const RegisterId operand : view.at(i).operands) {
      read.insert(view.reg(operand).root);
    }
    for (const RegisterId root : read) {
      if (view.reg(root).last_read == i && !stays(root)) held -= bytes(root);
    }
  }
}

// The reads of one instruction's backward.
struct BackwardReads {
  std::vector<RegisterId> registers;
  SavedExtra extra;
  bool attention = false;  // the reads are those of attention
  // The gradient that it computes overwrites the one that it reads.
  bool in_place = false;
  bool drops_out = false;  // dropout applies to the instruction's result
};

struct SavedValues {
  // `alive` registers exist while the backward of their layer runs, `saved`
  // ones from forward to backward. Both have storage of their own.
  PerRegister<bool> alive;
  PerRegister<bool> saved;
  // The first instruction whose backward needs the register, if there is one.
  PerRegister<InstructionId> needed_by;
  // The reads of backward while it runs, and the part of their per-row
  // statistics and copies that is saved from forward to backward.
  PerInstruction<BackwardReads> reads;
  PerInstruction<SavedExtra> saved_extra;
  // Only the instruction's own region reads its result.
  PerInstruction<bool> inner;
  // The operands for which backward computes gradients.
  PerInstruction<std::vector<RegisterId>> differentiates;
  // Whether the register comes from a product with a weight, or from attention,
  // through any number of moves.
  PerRegister<bool> products;
  PerRegister<bool> contexts;
};

SavedValues saved_values(const ProgramView& view, const SegmentOptions& options,
                         const Remat& remat, SavingMode mode);

// Returns the modules that a policy recomputes separately but that no layer
// has.
std::vector<std::string_view> absent_modules(const ProgramView& view,
                                             const RematPolicy& policy);

// Returns whether a layer is recomputed.
bool is_recomputed(const ProgramView& view, const Remat& remat, int segment);

}  // namespace shardplan
