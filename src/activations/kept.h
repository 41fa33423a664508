// SPDX-License-Identifier: Apache-2.0
// Which values are kept for backward, under one way of keeping and a policy of
// rematerialisation.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "activations/backward.h"
#include "activations/options.h"
#include "activations/remat.h"
#include "base/checked.h"
#include "spmd/program.h"

namespace shardplan {

// A program as the analysis of its memory sees it: what every register takes,
// whose storage it has, and which layer it is of.

struct HeldRegister {
  int value = 0;
  int maker = -1;                         // instruction
  int root = 0;                           // the register whose storage it is
  int segment = 0;                        // that makes it
  bool weight = false;                    // or made of weights alone
  bool output = false;                    // logits, which are counted apart
  bool loaded = false;                    // an input or a parameter
  std::array<Int128, kKeepings> bytes{};  // on a device
  // Of these, what a moment holds that does not keep it: of values of experts
  // that run one at a time, one expert's.
  std::array<Int128, kKeepings> moment{};
  int last_read = -1;  // instruction; of all that share its storage
};

// The program must outlive it.
struct ProgramView {
  const Program* program = nullptr;
  std::vector<bool> weights;  // per value
  // Per value, whether backward gives a gradient of it: of what is trained, and
  // of all that is made of that. Of a model without frozen parameters, all.
  std::vector<bool> flows;
  bool any_frozen = false;
  std::vector<HeldRegister> registers;
  // Segments (activations/segments.h): the layer of the graph that each is, -1
  // for what stands around layers; and per instruction which segment it is in,
  // -1 for a load.
  std::vector<int> layer_of_segment;
  std::vector<int> segment_of;

  int instructions() const {
    return static_cast<int>(program->instructions.size());
  }
  const Graph& graph() const { return *program->graph; }
  const Instruction& at(int i) const {
    return program->instructions[static_cast<size_t>(i)];
  }
  const GraphNode& node(int i) const {
    return program->graph->nodes[static_cast<size_t>(at(i).node)];
  }
  const OpDef& op(int i) const { return *node(i).op; }
  bool computes(int i) const {
    return at(i).kind == Instruction::Kind::Compute;
  }
  const HeldRegister& reg(int number) const {
    return registers[static_cast<size_t>(number)];
  }
  const HeldRegister& root(int number) const { return reg(reg(number).root); }
  bool has_gradient(int number) const {
    return flows[static_cast<size_t>(reg(number).value)];
  }
  const Value& value(int number) const {
    return graph().values[static_cast<size_t>(reg(number).value)];
  }
  // The name of the register's value without its layer.
  std::string_view part_name(int number) const;
  int segment(int i) const { return segment_of[static_cast<size_t>(i)]; }
  // A layer, rather than what stands around layers.
  bool is_layer(int segment) const {
    return layer_of_segment[static_cast<size_t>(segment)] >= 0;
  }
  // A product of two activations.
  bool multiplies_values(int i) const;
};

ProgramView view_of(const Program& program, const SegmentOptions& options);

// On a device, of one number each.
Int128 local_elements(const ProgramView& view, int number);

// A value's name within its layer, without what is done on the way to it:
// "attn.query" of "layers.3.attn.query:projected".
std::string_view part_name(const Graph& graph, int value);

// What backward of one instruction reads.
struct BackwardReads {
  std::vector<int> registers;
  Int128 extra = 0;        // bytes: numbers of rows, copies in float32
  int extra_of = -1;       // of which value
  bool attention = false;  // they are of attention
  // The gradient that it gives takes the place of the one that it reads.
  bool in_place = false;
};

struct KeptExtra {
  Int128 bytes = 0;
  int of = -1;  // of which value
};

struct KeptValues {
  // Per register (of those that have storage of their own): there while the
  // backward of its layer runs; there from forward to backward.
  std::vector<bool> alive;
  std::vector<bool> kept;
  // Per register, the first instruction that needs it; -1: none.
  std::vector<int> needed_by;
  // Per instruction: what its backward reads, as it runs; of these numbers of
  // rows and copies, what stays from forward to backward.
  std::vector<BackwardReads> reads;
  std::vector<KeptExtra> extra_kept;
  // Per instruction: only its own group sees what it makes.
  std::vector<bool> inner;
  // Per instruction, of whose operands its backward gives gradients.
  std::vector<std::vector<int>> differentiates;
  // Per register, whatever was moved since: a product with a weight gives it;
  // attention does.
  std::vector<bool> products;
  std::vector<bool> contexts;
};

KeptValues kept_values(const ProgramView& view, const SegmentOptions& options,
                       const Remat& remat, Keeping keeping);

// Modules that a policy computes again by themselves, and no layer has.
std::vector<std::string_view> absent_modules(const ProgramView& view,
                                             const RematPolicy& policy);

// Whether a layer is computed again.
bool is_repeated(const ProgramView& view, const Remat& remat, int segment);

}  // namespace shardplan
