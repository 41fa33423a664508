// SPDX-License-Identifier: Apache-2.0
#include "tests/support/faults.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "base/words.h"
#include "spmd/layout.h"

namespace shardplan::testing {
namespace {

// Rows along `dim`, each in the place of the one before.
Tensor roll(std::span<const Tensor> operands, const Attributes& attributes,
            const RunContext& /*context*/) {
  const Tensor& from = operands[0];
  const auto dim = static_cast<int>(number_of(attributes, "dim", 0));
  const int64_t size = from.shape[static_cast<size_t>(dim)];
  const Tensor to = make_tensor(from.element, from.shape);
  copy_into(slice(to, dim, 0, size - 1), slice(from, dim, 1, size));
  copy_into(slice(to, dim, size - 1, size), slice(from, dim, 0, 1));
  return to;
}

const OpDef& roll_op() {
  static const OpDef op = [] {
    OpDef made;
    made.name = "roll";
    made.flops = [](std::span<const Shape>, const Shape&, const Attributes&) {
      return int64_t{0};
    };
    made.run = roll;
    return made;
  }();
  return op;
}

// A factor per dimension, none of which is sharded.
ShardingRule whole_rule(size_t rank, const Shape& shape) {
  ShardingRule rule;
  rule.operands.resize(1);
  for (size_t dim = 0; dim < rank; ++dim) {
    rule.factors.push_back({shape[dim], FactorKind::Whole});
    rule.operands[0].push_back({static_cast<int>(dim)});
    rule.result.push_back({static_cast<int>(dim)});
  }
  return rule;
}

bool is_collective(const Instruction& at, CollectiveKind kind) {
  return at.kind == Instruction::Kind::Collective && at.collective == kind;
}
bool is_reduction(const Instruction& at) {
  return is_collective(at, CollectiveKind::AllReduce) ||
         is_collective(at, CollectiveKind::ReduceScatter);
}

class Injector {
 public:
  Injector(const Program& program, Random& random)
      : random_(random),
        fault_{std::make_unique<Graph>(*program.graph), program} {
    fault_.program.graph = fault_.graph.get();
  }

  std::optional<FaultyProgram> inject(FaultKind kind) {
    std::vector<InstructionId> places;
    const PerInstruction<bool> live = live_instructions();
    for (const InstructionId i : live.ids()) {
      if (live[i]) places.push_back(i);
    }
    while (!places.empty()) {
      const size_t n = static_cast<size_t>(
          draw(random_, 0, static_cast<int64_t>(places.size()) - 1));
      const InstructionId i = places[n];
      places.erase(places.begin() + static_cast<ptrdiff_t>(n));
      fault_.faulty = instruction(i).result;
      if (inject_at(kind, i)) return std::move(fault_);
    }
    return std::nullopt;
  }

 private:
  Instruction& instruction(InstructionId i) {
    return fault_.program.instructions[i];
  }
  Register& register_at(RegisterId number) {
    return fault_.program.registers[number];
  }
  static InstructionId next(InstructionId i) {
    return InstructionId(i.number + 1);
  }
  const Mesh& mesh() const { return fault_.program.mesh; }

  PerInstruction<bool> live_instructions() {
    PerRegister<bool> needed(fault_.program.registers.size());
    for (const RegisterId number : fault_.program.outputs) {
      needed[number] = true;
    }
    PerInstruction<bool> live(fault_.program.instructions.size());
    for (InstructionId i(live.size()); i.number-- > 0;) {
      const Instruction& at = instruction(i);
      live[i] = needed[at.result];
      if (!live[i]) continue;
      for (const RegisterId operand : at.operands) {
        needed[operand] = true;
      }
    }
    return live;
  }

  RegisterId new_register(const Register& like) {
    return fault_.program.registers.push_back(like);
  }
  void insert(InstructionId i, Instruction added) {
    auto& all = fault_.program.instructions;
    all.insert(all.begin() + i.number, std::move(added));
  }
  // `added` takes over the result of instruction i, which makes what `added`
  // reads.
  void insert_after(InstructionId i, Instruction added) {
    added.result = instruction(i).result;
    instruction(i).result = new_register(register_at(added.result));
    added.operands = {instruction(i).result};
    insert(next(i), std::move(added));
  }
  // `added` makes what instruction i reads.
  void insert_before(InstructionId i, Instruction added) {
    added.operands = instruction(i).operands;
    added.result = new_register(register_at(added.operands[0]));
    instruction(i).operands = {added.result};
    insert(i, std::move(added));
  }
  static Instruction copy_instruction() {
    Instruction copy;
    copy.kind = Instruction::Kind::Slice;
    return copy;
  }
  Instruction permutation(std::vector<int> sources) {
    Instruction move;
    move.kind = Instruction::Kind::Collective;
    move.collective = CollectiveKind::Permute;
    move.sources = std::move(sources);
    return move;
  }
  std::vector<int> nobody_moves() const {
    std::vector<int> sources(static_cast<size_t>(mesh().devices()));
    std::iota(sources.begin(), sources.end(), 0);
    return sources;
  }

  bool inject_at(FaultKind kind, InstructionId i) {
    switch (kind) {
      case FaultKind::DroppedReduction:
        return drop(i);
      case FaultKind::DoubledReduction:
        return repeat(i);
      case FaultKind::SwappedShards:
        return swap(i);
      case FaultKind::WrongAxis:
        return instruction(i).kind == Instruction::Kind::Load
                   ? load_along_other_axes(i)
                   : move_along_other_axes(i);
      case FaultKind::WrongHalf:
        return take_next(i);
      case FaultKind::EarlyAddition:
        return add_early(i);
      case FaultKind::SumForMaximum:
        return add_up(i);
      case FaultKind::ChoiceOfPart:
        return choose_of_part(i);
      default:
        return shift(i);
    }
  }

  bool drop(InstructionId i) {
    Instruction& at = instruction(i);
    if (!is_reduction(at)) return false;
    at.kind = Instruction::Kind::Slice;
    if (at.collective == CollectiveKind::AllReduce) at.axes.clear();
    return true;
  }

  bool repeat(InstructionId i) {
    const Instruction at = instruction(i);
    if (!is_reduction(at)) return false;
    insert_after(i, at);
    if (at.collective == CollectiveKind::AllReduce) return true;
    Instruction gather = at;
    gather.collective = CollectiveKind::AllGather;
    gather.algorithm = &algorithm_for(CollectiveKind::AllGather,
                                      ranks_along(mesh(), at.axes), nullptr);
    insert_before(next(i), gather);
    register_at(instruction(next(i)).result) = register_at(at.operands[0]);
    return true;
  }

  bool swap(InstructionId i) {
    const Layout& layout = register_at(instruction(i).result).layout;
    if (!layout.partial.empty()) return false;
    const int64_t last = mesh().devices() - 1;
    for (int attempt = 0; attempt < 8; ++attempt) {
      const int64_t a = draw(random_, 0, last);
      const int64_t b = draw(random_, 0, last);
      if (shard_indices(mesh(), layout, a) == shard_indices(mesh(), layout, b))
        continue;
      std::vector<int> sources = nobody_moves();
      std::swap(sources[static_cast<size_t>(a)],
                sources[static_cast<size_t>(b)]);
      insert_after(i, permutation(std::move(sources)));
      return true;
    }
    return false;
  }

  // Another axis of the same size, if there is one.
  std::optional<AxisName> other_axis(const AxisName& axis) {
    AxisNames others;
    for (const Axis& other : mesh().axes()) {
      if (other.name != axis && other.size == mesh().size_of(axis)) {
        others.push_back(other.name);
      }
    }
    if (others.empty()) return std::nullopt;
    return pick(random_, others);
  }

  // Along axes of the same sizes: one is another one, or two change places.
  bool move_along_other_axes(InstructionId i) {
    Instruction& at = instruction(i);
    if (at.axes.empty() || at.kind == Instruction::Kind::Compute ||
        is_collective(at, CollectiveKind::Permute)) {
      return false;
    }
    AxisName& axis = at.axes[static_cast<size_t>(
        draw(random_, 0, static_cast<int64_t>(at.axes.size()) - 1))];
    const std::optional<AxisName> other = other_axis(axis);
    if (!other) return false;
    const auto there = std::find(at.axes.begin(), at.axes.end(), *other);
    if (there != at.axes.end()) *there = axis;
    axis = *other;
    return true;
  }

  bool load_along_other_axes(InstructionId i) {
    const Layout& layout = register_at(instruction(i).result).layout;
    AxisNames used = axes_in_use(layout);
    if (used.empty()) return false;
    const AxisName axis = pick(random_, used);
    const std::optional<AxisName> other = other_axis(axis);
    if (!other) return false;
    insert_after(i, copy_instruction());
    for (AxisNames& dim : register_at(instruction(i).result).layout.spec.dims) {
      for (AxisName& name : dim) {
        if (name == axis) {
          name = *other;
        } else if (name == *other) {
          name = axis;
        }
      }
    }
    return true;
  }

  bool take_next(InstructionId i) {
    const Instruction& at = instruction(i);
    const bool cut = at.kind == Instruction::Kind::Slice;
    if (!cut && !is_collective(at, CollectiveKind::AllGather)) return false;
    std::vector<int> sources(static_cast<size_t>(mesh().devices()));
    for (const std::vector<int>& group : device_groups(mesh(), at.axes)) {
      for (size_t r = 0; r < group.size(); ++r) {
        sources[static_cast<size_t>(group[r])] = group[(r + 1) % group.size()];
      }
    }
    if (cut) {
      insert_after(i, permutation(std::move(sources)));
    } else {
      insert_before(i, permutation(std::move(sources)));
    }
    return true;
  }

  // sum(parts) + b becomes sum(parts + b).
  bool add_early(InstructionId i) {
    const Instruction add = instruction(i);
    if (add.kind != Instruction::Kind::Compute) return false;
    const std::string_view op = fault_.graph->nodes[add.node].op->name;
    if (op != "add" && op != "subtract") return false;
    for (size_t o = 0; o < add.operands.size(); ++o) {
      for (InstructionId s(0); s < i; ++s.number) {
        const Instruction sum = instruction(s);
        if (sum.result != add.operands[o] ||
            !is_collective(sum, CollectiveKind::AllReduce) ||
            register_at(sum.operands[0]).local_shape !=
                register_at(add.result).local_shape) {
          continue;
        }
        insert_after(i, sum);
        instruction(i).operands[o] = sum.operands[0];
        register_at(instruction(i).result).layout =
            register_at(sum.operands[0]).layout;
        return true;
      }
    }
    return false;
  }

  bool add_up(InstructionId i) {
    Instruction& at = instruction(i);
    if (!is_reduction(at) || at.reduction != Reduction::Max) return false;
    at.reduction = Reduction::Sum;
    return true;
  }

  // As a router does that is written for one device: it takes the experts that
  // it has for all of them.
  bool choose_of_part(InstructionId i) {
    const Instruction at = instruction(i);
    if (at.kind != Instruction::Kind::Compute) return false;
    const GraphNode& node = fault_.graph->nodes[at.node];
    if (!node.op->is_decision) return false;
    const Register scores = register_at(at.operands[0]);
    const int64_t k = register_at(at.result).local_shape.back();
    const auto used = axes_in_use(scores.layout);
    for (const Axis& axis : mesh().axes()) {
      const int64_t size = scores.local_shape.back();
      if (axis.size == 1 || contains(used, axis.name) ||
          size % axis.size != 0 || size / axis.size < k) {
        continue;
      }
      Instruction part = copy_instruction();
      part.dim = static_cast<int>(scores.local_shape.size()) - 1;
      part.axes = {axis.name};
      insert_before(i, part);
      Register& cut = register_at(instruction(next(i)).operands[0]);
      cut.layout.spec.dims.back() = {axis.name};
      cut.local_shape.back() /= axis.size;
      return true;
    }
    return false;
  }

  NodeId roll_node(ValueId value, int dim) {
    Value rolled = fault_.graph->values[value];
    rolled.kind = Value::Kind::Result;
    rolled.node = NodeId(fault_.graph->nodes.size());
    GraphNode node;
    node.op = &roll_op();
    node.attributes = {{"dim", static_cast<double>(dim)}};
    node.operands = {value};
    node.result = ValueId(fault_.graph->values.size());
    node.rule = whole_rule(rolled.shape.size(), rolled.shape);
    fault_.program.layouts.push_back(replicated(rolled.shape.size()));
    fault_.graph->values.push_back(std::move(rolled));
    return fault_.graph->nodes.push_back(std::move(node));
  }
  Instruction rolling(ValueId value, int dim) {
    Instruction compute;
    compute.kind = Instruction::Kind::Compute;
    compute.node = roll_node(value, dim);
    compute.factor_axes.resize(fault_.graph->values[value].shape.size());
    return compute;
  }

  bool shift(InstructionId i) {
    const Instruction at = instruction(i);
    const Register made = register_at(at.result);
    if (at.kind == Instruction::Kind::Slice) {
      insert_before(i, rolling(made.value, at.dim));
      return true;
    }
    if (at.kind != Instruction::Kind::Load) return false;
    std::vector<int> cut;
    for (size_t d = 0; d < made.layout.spec.dims.size(); ++d) {
      if (!made.layout.spec.dims[d].empty()) cut.push_back(static_cast<int>(d));
    }
    if (cut.empty()) return false;
    const int dim = pick(random_, cut);
    const auto d = static_cast<size_t>(dim);
    Instruction part = copy_instruction();
    part.dim = dim;
    part.axes = made.layout.spec.dims[d];
    insert_after(i, part);
    Register& whole = register_at(instruction(i).result);
    whole.layout.spec.dims[d].clear();
    whole.local_shape = local_shape(mesh(), whole.layout,
                                    fault_.graph->values[made.value].shape);
    insert_after(i, rolling(made.value, dim));
    return true;
  }

  Random& random_;
  FaultyProgram fault_;
};

}  // namespace

std::string_view fault_name(FaultKind kind) {
  static constexpr std::string_view kNames[] = {
      "dropped reduction", "doubled reduction", "swapped shards",
      "wrong axis",        "wrong half",        "early addition",
      "shifted rows",      "sum for a maximum", "choice of a part"};
  return kNames[static_cast<size_t>(kind)];
}

std::optional<FaultyProgram> inject(FaultKind kind, const Program& program,
                                    Random& random) {
  return Injector(program, random).inject(kind);
}

std::vector<ValueId> values_near(const FaultyProgram& fault) {
  const Program& program = fault.program;
  // Registers that have the fault, as parts and as wholes.
  std::set<RegisterId> parts;
  std::set<RegisterId> wholes;
  std::set<ValueId> values;
  const auto reach = [&](RegisterId number) {
    const Register& r = program.registers[number];
    (r.layout.partial.empty() ? wholes : parts).insert(number);
    values.insert(r.value);
  };
  reach(fault.faulty);
  for (const Instruction& at : program.instructions) {
    for (const RegisterId operand : at.operands) {
      if (parts.count(operand) > 0) reach(at.result);
      if (wholes.count(operand) == 0) continue;
      values.insert(program.registers[at.result].value);
    }
  }
  return {values.begin(), values.end()};
}

}  // namespace shardplan::testing
