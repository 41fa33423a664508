// SPDX-License-Identifier: Apache-2.0
// A program as the analysis of its memory sees it: what every register takes,
// whose storage it has, and which layer it is of.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "activations/backward.h"
#include "base/checked.h"
#include "spmd/program.h"

namespace shardplan {

inline constexpr int64_t kFloatBytes = 4;  // of float32

struct HeldRegister {
  int value = 0;
  int maker = -1;                         // instruction
  int root = 0;                           // the register whose storage it is
  int segment = 0;                        // that makes it
  bool weight = false;                    // or made of weights alone
  bool output = false;                    // logits, which are counted apart
  bool loaded = false;                    // an input or a parameter
  std::array<Int128, kKeepings> bytes{};  // on a device
  int last_read = -1;  // instruction; of all that share its storage
};

// The program must outlive it.
struct ProgramView {
  const Program* program = nullptr;
  std::vector<bool> weights;   // per value
  std::vector<bool> integers;  // per value
  std::vector<HeldRegister> registers;
  // Segments (activations/segments.h): what they are called, and per
  // instruction which it is in; -1: a load.
  std::vector<std::string> labels;
  std::vector<int> segment_of;

  int instructions() const {
    return static_cast<int>(program->instructions.size());
  }
  const Instruction& at(int i) const {
    return program->instructions[static_cast<size_t>(i)];
  }
  const GraphNode& node(int i) const {
    return program->graph->nodes[static_cast<size_t>(at(i).node)];
  }
  std::string_view op(int i) const { return node(i).op->name; }
  bool computes(int i) const {
    return at(i).kind == Instruction::Kind::Compute;
  }
  const HeldRegister& reg(int number) const {
    return registers[static_cast<size_t>(number)];
  }
  const HeldRegister& root(int number) const { return reg(reg(number).root); }
  const std::string& name(int number) const {
    return program->graph->values[static_cast<size_t>(reg(number).value)].name;
  }
  int segment(int i) const { return segment_of[static_cast<size_t>(i)]; }
  // A layer, rather than what stands around layers.
  bool is_layer(int segment) const;
  // A product of two activations.
  bool multiplies_values(int i) const;
};

ProgramView view_of(const Program& program, const SegmentOptions& options);

// On a device, of one number each.
Int128 local_elements(const ProgramView& view, int number);

// A value's name within its layer, without what is done on the way to it:
// "attn.query" of "layers.3.attn.query:projected".
std::string_view part_name(std::string_view name);
// "encoder.layers.3" of "encoder.layers.3.mlp.gate"; "" outside of layers.
std::string layer_prefix(std::string_view name);

}  // namespace shardplan
