// SPDX-License-Identifier: Apache-2.0
// What backward reads of a forward pass, operation by operation.
//
// The gradient of an operation reads some of its operands, its result, or
// neither: that of a product reads both factors, that of a sum nothing. What it
// reads must be kept from forward to backward, or computed again. How much that
// is depends on who runs it, so there are three answers:
//
//   Least  operations that are cheap to repeat (element by element, norms) are
//          repeated from products, as a compiler may do (min-cut partitioner of
//          torch.compile, XLA's rematerialisation)
//   Fused  what kernels for norms, activations and attention keep (Transformer
//          Engine, Apex, torch's own norms): inputs and one number per row
//   Eager  every operation by itself, norms and softmax in float32 (PyTorch
//          without compilation, jax.grad of plain jax.numpy)
//
// A product reads an operand for the gradient of the other one alone, so that
// with a frozen weight its input need not be kept: PyTorch's autograd saves
// what the gradients that are asked for read (should_compute_output), and a
// compiler removes what nobody reads. What the gradient of each operation reads
// is in its row (graph/op.h). FlashAttention (Dao et al., 2022) keeps
// q, k, v, the result and one number per query, whatever the length.
//
// Which values are kept then, under one of these ways and a policy of
// rematerialisation.
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

// A program as the analysis of its memory sees it: what every register takes,
// whose storage it has, and which layer it is of.

struct HeldRegister {
  ValueId value;
  InstructionId maker;
  RegisterId root;                        // whose storage it is
  int segment = 0;                        // that makes it
  bool weight = false;                    // or made of weights alone
  bool output = false;                    // logits, which are counted apart
  bool loaded = false;                    // an input or a parameter
  std::array<Int128, kKeepings> bytes{};  // on a device
  // Of these, what a moment holds that does not keep it: of values of experts
  // that run one at a time, one expert's.
  std::array<Int128, kKeepings> moment{};
  double filled = 1;        // of the places of experts, what tokens take
  InstructionId last_read;  // of all that share its storage
};

// The program must outlive it.
struct ProgramView {
  const Program* program = nullptr;
  // Whether backward gives a gradient of it: of what is trained, and
  // of all that is made of that. Of a model without frozen parameters, all.
  PerValue<bool> flows;
  bool any_frozen = false;
  PerValue<bool> wide;   // in float32 beside narrower products; empty: none
  PerNode<bool> uncast;  // products that autocast leaves alone; empty: none
  PerRegister<HeldRegister> registers;
  // Segments (activations/segments.h): the layer of the graph that each is, -1
  // for what stands around layers; and per instruction which segment it is in,
  // -1 for a load.
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
  // A product with kernels that adapters are added to before it.
  bool merges(InstructionId i) const {
    return computes(i) && (node(i).part == OpPart::MergedProduct ||
                           node(i).part == OpPart::MergedHalf);
  }
  bool skips_cast(InstructionId i) const {
    return !uncast.empty() && uncast[at(i).node];
  }
  // Whether autocast has an instruction read another dtype than an operand's.
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
  // A layer, rather than what stands around layers.
  bool is_layer(int segment) const {
    return layer_of_segment[static_cast<size_t>(segment)] >= 0;
  }
  // A product of two activations.
  bool multiplies_values(InstructionId i) const {
    return computes(i) && shardplan::multiplies_values(graph(), at(i).node);
  }
};

ProgramView view_of(const Program& program, const SegmentOptions& options);

// On a device, of one number each.
Int128 local_elements(const ProgramView& view, RegisterId number);

// Numbers of rows, copies in float32.
struct KeptExtra {
  Int128 bytes = 0;
  ValueId of = {};

  void add(Int128 more, const HeldRegister& reg) {
    bytes += more;
    of = reg.value;
  }
};

// What a forward pass holds, instruction after instruction: a result is there
// from its instruction on; what it read last is let go of behind it, unless it
// stays. Both the forward part of a training step and a forward pass alone are
// this walk; the latter is what the simulator counts as it runs
// (sim/live_bytes.h), to the byte.
//
// Over `instructions`, which are in the order of the program.
//   bytes(reg)  of a register that has storage of its own; 0: not counted
//   stays(reg)  it is not let go of, of such registers
//   extra(i)    bytes that an instruction leaves beside its result
//   visit(i, held)  when it has run, before anything is let go of
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

// What backward of one instruction reads.
struct BackwardReads {
  std::vector<RegisterId> registers;
  KeptExtra extra;
  bool attention = false;  // they are of attention
  // The gradient that it gives takes the place of the one that it reads.
  bool in_place = false;
  bool drops_out = false;  // what the instruction gives
};

struct KeptValues {
  // `alive` registers exist while the backward of their layer runs, `kept` ones
  // from forward to backward. Both have storage of their own.
  PerRegister<bool> alive;
  PerRegister<bool> kept;
  // The first instruction that needs it, if any does.
  PerRegister<InstructionId> needed_by;
  // What backward reads, as it runs; of these numbers of rows and copies, what
  // stays from forward to backward.
  PerInstruction<BackwardReads> reads;
  PerInstruction<KeptExtra> extra_kept;
  // Only its own group sees what an instruction makes.
  PerInstruction<bool> inner;
  // The operands for which the backward computes gradients.
  PerInstruction<std::vector<RegisterId>> differentiates;
  // Whatever was moved since: a product with a weight gives it; attention does.
  PerRegister<bool> products;
  PerRegister<bool> contexts;
};

KeptValues kept_values(const ProgramView& view, const SegmentOptions& options,
                       const Remat& remat, Keeping keeping);

// Modules that a policy computes again by themselves, and no layer has.
std::vector<std::string_view> absent_modules(const ProgramView& view,
                                             const RematPolicy& policy);

// Whether a layer is computed again.
bool is_repeated(const ProgramView& view, const Remat& remat, int segment);

}  // namespace shardplan
