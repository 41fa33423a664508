// SPDX-License-Identifier: Apache-2.0
#include "cost/pass_time.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "cost/local_shapes.h"
#include "cost/recomputed_instructions.h"
#include "graph/op.h"
#include "graph/regions.h"

namespace shardplan {
namespace {

void join(AxisNames& axes, const AxisNames& more) {
  for (const AxisName& axis : more) {
    if (!contains(axes, axis)) axes.push_back(axis);
  }
}

// Returns the steps in which a framework computes an operation, each of which
// reads and writes a tensor: those of transformers' classes in PyTorch
// (apply_rotary_pos_emb: two products, a sum, a negation and a concatenation;
// NewGELUActivation: a cube, three products, two sums and a tanh).
double steps_of(InnerSteps steps, bool gelu_is_several) {
  switch (steps) {
    case InnerSteps::Angles:
      return 5;
    case InnerSteps::Tanh:
      return gelu_is_several ? 8 : 1;
    default:
      return 1;
  }
}

class PassPricer {
 public:
  PassPricer(const PassPricing& of, SavingMode mode)
      : of_(of),
        view_(of.view),
        mode_(mode),
        saved_(saved_values(of.view, of.options, of.remat, mode)),
        region_of_(of.view.graph().nodes.size()),
        result_of_(of.view.graph().nodes.size()),
        in_norm_(of.view.graph().nodes.size()),
        spread_(of.view.registers.size()),
        readers_(of.view.registers.size()),
        needed_(recomputed_instructions(of.view, saved_, of.remat)),
        times_(of.view.layer_of_segment.size()) {
    find_regions_of_nodes();
    find_readers();
  }

  std::vector<SegmentTime> run(std::string& why) {
    if (!memory_time(of_.card, 1)) {
      why = "the profile " + in_backticks(of_.card.name) +
            " has no memory bandwidth";
      return {};
    }
    for (const InstructionId i : view_.instructions()) {
      if (view_.at(i).kind == Instruction::Kind::Load) continue;
      SegmentTime& time = at(i);
      price_forward(i, time.forward);
      price_loss(i, time);
      time.flops += model_flops(view_, i, of_.options.expert_factor);
    }
    for (const InstructionId i : view_.instructions()) {
      if (needed_[i]) price_forward(i, at(i).recompute);
    }
    price_backward();
    if (unknown_) {
      why = "the profile " + in_backticks(of_.card.name) +
            " has no matmul rate in " +
            std::string(nth(kPrecisionNames, *unknown_));
      return {};
    }
    return std::move(times_);
  }

 private:
  SegmentTime& at(InstructionId i) {
    return nth(times_, std::max(view_.segment(i), 0));
  }
  double bytes(RegisterId reg) const {
    return static_cast<double>(view_.reg(reg).bytes[to_size(mode_)]);
  }
  double numbers(RegisterId reg) const {
    return static_cast<double>(local_elements(view_, reg)) *
           view_.reg(reg).filled;
  }
  bool is_eager() const { return mode_ == SavingMode::Eager; }

  void find_regions_of_nodes() {
    std::set<NodeId> inner;
    for (const InstructionId i : view_.instructions()) {
      if (!view_.computes(i)) continue;
      result_of_[view_.at(i).node] = view_.at(i).result;
      if (saved_.inner[i]) inner.insert(view_.at(i).node);
    }
    // A region that contains others comes after them.
    for (const Region& region : view_.graph().regions) {
      const bool is_kernel = std::ranges::any_of(
          region.nodes, [&](NodeId n) { return inner.contains(n); });
      for (const NodeId n : region.nodes) {
        if (region.kind == Region::Kind::Norm) in_norm_[n] = true;
        if (is_kernel) region_of_[n] = &region;
      }
    }
  }
  // Returns the region that runs as one kernel and ends with this instruction;
  // null if there is none.
  const Region* kernel_of(InstructionId i) const {
    if (!view_.computes(i)) return nullptr;
    const Region* region = region_of_[view_.at(i).node];
    return region != nullptr && region->nodes.back() == view_.at(i).node
               ? region
               : nullptr;
  }

  void find_readers() {
    for (const InstructionId i : view_.instructions()) {
      std::set<RegisterId> once(view_.at(i).operands.begin(),
                                view_.at(i).operands.end());
      for (const RegisterId r : once) readers_[r].push_back(i);
    }
  }

  // Returns whether an instruction works element by element, outside a kernel.
  bool is_pointwise(InstructionId i) const {
    return view_.computes(i) && region_of_[view_.at(i).node] == nullptr &&
           is_cheap(view_.op(i).recompute_cost);
  }
  // Returns whether a register is read from memory, not made by the same
  // kernel.
  bool comes_from_memory(RegisterId reg) const {
    return !of_.fuses || !is_pointwise(view_.root(reg).maker);
  }
  bool goes_to_memory(RegisterId reg) const {
    const RegisterId root = view_.reg(reg).root;
    return view_.reg(root).output || saved_.saved[root] ||
           gradient_comes_from_memory(reg);
  }
  bool gradient_comes_from_memory(RegisterId reg) const {
    return !of_.fuses ||
           std::ranges::any_of(readers_[reg], [&](InstructionId reader) {
             return !is_pointwise(reader);
           });
  }

  // Forward.

  void price_forward(InstructionId i, PassTime& time) {
    const Instruction& made = view_.at(i);
    if (made.kind == Instruction::Kind::Collective) return send(i, time);
    if (!view_.computes(i)) return;
    if (view_.reg(made.result).weight) return cast_weight(i, time);
    if (const Region* region = kernel_of(i)) {
      return price_kernel(i, *region, time);
    }
    if (saved_.inner[i]) return;
    const OpDef& op = view_.op(i);
    if (op.recompute_cost == RecomputeCost::View) return;
    if (saved_.reads[i].drops_out) drop_out(i, time);
    cast_operands(i, time);
    if (op.is_product) {
      multiply(i, local_product(view_, i).shape, time);
      if (merges(i)) {
        add_unbound(time, [&](PassTime& own) {
          pass_over(3 * bytes(made.operands[1]), 1, own);
        });
      }
      return;
    }
    if (adds_bias(i)) return;
    double moved = goes_to_memory(made.result) ? bytes(made.result) : 0;
    for (size_t o = 0; o < made.operands.size(); ++o) {
      if (!comes_from_memory(made.operands[o])) continue;
      // A lookup reads rows of a table, not all of it.
      moved +=
          op.is_lookup && o == 0 ? bytes(made.result) : bytes(made.operands[o]);
    }
    if (is_of_rows(i)) moved *= kRowsSlowdown;
    const double steps = steps_in_kernels(i);
    pass_over(moved * steps, steps, time);
    if (is_eager() && op.exchange != TokenExchange::None) {
      time.kernels += kExchangeKernels;
    }
    if (is_recurrent(op)) {
      add(time.memory, recurrence_time(view_, i, of_.card, of_.precision),
          1 / of_.shared.parts());
    }
  }

  // Reads and writes what is dropped out, and a byte per number for the mask.
  void drop_out(InstructionId i, PassTime& time) const {
    const RegisterId result = view_.at(i).result;
    pass_over(2 * bytes(result) + numbers(result), 1, time);
  }

  double steps_in_kernels(InstructionId i) const {
    if (!is_eager()) return 1;
    if (view_.op(i).exchange != TokenExchange::None) return kExchangeSteps;
    return steps_of(view_.op(i).inner_steps(view_.node(i).attributes),
                    of_.options.gelu_steps > 0);
  }

  // Tokens are sorted by expert and counted, then gathered (transformers'
  // grouped_mm experts); answers are weighted, put back and added up.
  static constexpr double kExchangeSteps = 3;
  static constexpr double kExchangeKernels = 8;  // small ones, besides these
  // Sums over rows reach two thirds of the rate of copies: torch's rms_norm of
  // 8,192 rows of 4,096 and 8,192 numbers on an H100.
  static constexpr double kRowsSlowdown = 1.5;

  // Returns whether an instruction sums over rows, runs beside such sums in a
  // norm, or rotates heads, whose rows are apart.
  bool is_of_rows(InstructionId i) const {
    return view_.op(i).is_reduction || in_norm_[view_.at(i).node] ||
           view_.op(i).inner_steps(view_.node(i).attributes) ==
               InnerSteps::Angles;
  }

  // Returns whether it adds a bias, which the kernel of the product before it
  // does.
  bool adds_bias(InstructionId i) const {
    const auto& operands = view_.at(i).operands;
    return view_.op(i).second_sign == 1 && view_.reg(operands[1]).weight &&
           view_.computes(view_.root(operands[0]).maker) &&
           view_.op(view_.root(operands[0]).maker).is_product;
  }

  static bool is_recurrent(const OpDef& op) {
    return op.recompute_cost == RecomputeCost::Expensive && !op.is_product &&
           !op.is_lookup && op.exchange == TokenExchange::None &&
           !op.is_decision;
  }

  // Operation by operation, a change of dtype is a kernel of its own.
  void cast_operands(InstructionId i, PassTime& time) {
    if (!is_eager()) return;
    const NumberType made = view_.value(view_.at(i).result).type;
    for (const RegisterId reg : view_.at(i).operands) {
      const HeldRegister& operand = view_.reg(reg);
      if (view_.value(reg).is_integer()) continue;
      const bool is_internal = view_.value(reg).type == NumberType::Internal;
      const bool crosses = of_.options.element_bytes < kFloatBytes &&
                           is_internal != (made == NumberType::Internal) &&
                           !operand.weight && !of_.options.autocast;
      const bool casts = view_.reads_cast(i, reg);
      if (operand.weight && casts && cast_.count(operand.root) > 0) continue;
      if (!crosses && !casts) continue;
      if (operand.weight) cast_.insert(operand.root);
      convert(reg, time);
    }
  }
  // Prices a kernel that converts a register to float32, or from it.
  void convert(RegisterId reg, PassTime& time) const {
    const auto both =
        static_cast<double>(of_.options.element_bytes + kFloatBytes);
    pass_over(numbers(reg) * both, 1, time);
  }

  // Prices weights that are made of weights, such as casts. Fused kernels make
  // them in place.
  void cast_weight(InstructionId i, PassTime& time) const {
    if (!is_eager() || view_.op(i).recompute_cost == RecomputeCost::View)
      return;
    pass_over(2 * bytes(view_.at(i).result), 1, time);
  }

  void price_kernel(InstructionId i, const Region& region, PassTime& time) {
    if (region.kind == Region::Kind::Attention) {
      return attend(region, false, time);
    }
    const RegisterId result = view_.at(i).result;
    if (is_eager() && of_.options.softmax_in_float32 &&
        region.kind == Region::Kind::Softmax) {
      // Converts before and after it, and computes in float32.
      pass_over(numbers(result) * 16, 2, time);
    }
    double moved = goes_to_memory(result) ? bytes(result) : 0;
    for (const RegisterId input : saved_.differentiates[i]) {
      if (!view_.reg(input).weight) moved += bytes(input);
    }
    if (saved_.differentiates[i].empty()) moved *= 2;
    pass_over(moved * kRowsSlowdown, 1, time);
  }
  // Adds kernels that together read and write this many bytes.
  void pass_over(double moved, double kernels, PassTime& time) const {
    if (moved <= 0) return;
    const auto priced =
        memory_time(of_.card, moved / kernels / of_.shared.parts());
    if (!priced) return;
    PricedTime one = *priced;
    // With more fusion, this need not be moved.
    if (mode_ == SavingMode::Least) one.seconds.lower = 0;
    add(time.memory, one, kernels);
    time.kernels += kernels;
  }

  Precision precision_of(InstructionId i) const {
    if (view_.skips_cast(i)) return Precision::F32;
    const bool is_in_8_bits = of_.options.fp8 != nullptr &&
                              !view_.multiplies_values(i) &&
                              view_.is_layer(view_.segment(i));
    return is_in_8_bits ? Precision::F8 : of_.precision;
  }

  void multiply(InstructionId i, const ProductShape& shape, PassTime& time) {
    auto priced = product_time(of_.card, precision_of(i), shape, of_.shared);
    if (!priced) {
      unknown_ = precision_of(i);
      return;
    }
    if (precision_of(i) != Precision::F32) {
      priced->seconds.estimate *= kWarmProducts;
      priced->seconds.upper *= kWarmProducts;
    }
    add(time.products, *priced);
    time.kernels += 1;
  }

  void attend(const Region& region, bool backward, PassTime& time) {
    auto priced = attention_time(of_.card, of_.precision,
                                 local_attention(view_, region, result_of_),
                                 backward, of_.attention, of_.shared);
    if (!priced) return;
    priced->seconds.upper *= of_.attention_upper;
    add(time.attention, *priced);
    time.kernels += backward ? 3 : 1;
  }

  // Prices what a loss makes of logits: each copy (activations/framework.h) is
  // written and read once, half of them in forward.
  void price_loss(InstructionId i, SegmentTime& time) const {
    const RegisterId result = view_.at(i).result;
    if (!view_.reg(result).output ||
        !contains(view_.program->outputs, result)) {
      return;
    }
    const LossCopies& copies = of_.loss;
    const double moved =
        2 * numbers(result) *
        static_cast<double>(copies.own * of_.options.element_bytes +
                            copies.floats * kFloatBytes);
    pass_over(moved / 2, 3, time.forward);
    pass_over(moved / 2, 3, time.backward);
  }

  // Collectives.

  // Adds an instruction's own collective.
  void send(InstructionId i, PassTime& time) const {
    const Instruction& made = view_.at(i);
    const bool grows = made.collective == CollectiveKind::AllGather;
    send(i, made.collective, bytes(grows ? made.result : made.operands[0]),
         time);
  }
  // Adds a collective over the axes of an instruction.
  void send(InstructionId i, CollectiveKind kind, double payload,
            PassTime& time) const {
    const Instruction& made = view_.at(i);
    time.sends.push_back({.kind = kind,
                          .axes = made.axes,
                          .bytes = payload,
                          .of_weight = view_.reg(made.result).weight,
                          .node = made.node});
  }

  // Backward: instructions in reverse. `spread_` holds the axes over which the
  // gradient of a register is a partial sum once all readers have added to it.

  void price_backward() {
    const auto all = view_.instructions();
    std::vector<InstructionId> order(all.begin(), all.end());
    for (auto i = order.rbegin(); i != order.rend(); ++i) {
      const Instruction& made = view_.at(*i);
      if (!view_.has_gradient(made.result)) continue;
      if (made.kind == Instruction::Kind::Load) {
        load_backward(*i);
      } else if (view_.computes(*i)) {
        compute_backward(*i, at(*i).backward);
      } else {
        move_backward(*i, at(*i).backward);
      }
      if (!view_.reg(made.result).weight) add_up(*i, at(*i).backward);
    }
  }

  // Adds up the gradients of several readers.
  void add_up(InstructionId i, PassTime& time) const {
    const RegisterId reg = view_.at(i).result;
    if (saved_.inner[i] || of_.fuses) return;
    const auto count =
        std::ranges::count_if(readers_[reg], [&](InstructionId reader) {
          return !saved_.inner[reader] &&
                 view_.has_gradient(view_.at(reader).result);
        });
    const auto sums = static_cast<double>(count - 1);
    if (count > 1) pass_over(3 * bytes(reg) * sums, sums, time);
  }

  // Returns the node whose view names the axes of an instruction's result.
  NodeId node_for(InstructionId i) const {
    const auto& readers = readers_[view_.at(i).result];
    return view_.at(i).node || readers.empty() ? view_.at(i).node
                                               : view_.at(readers.front()).node;
  }

  // Adds the gradient of a weight that devices hold copies of.
  void load_backward(InstructionId i) {
    const RegisterId reg = view_.at(i).result;
    if (!view_.reg(reg).weight || spread_[reg].empty()) return;
    const auto reader = readers_[reg].empty() ? i : readers_[reg].front();
    at(reader).gradients.push_back(gradient_sum(i));
  }
  // Returns the sum of the gradient of an instruction's result.
  SentPart gradient_sum(InstructionId i) const {
    const RegisterId reg = view_.at(i).result;
    const bool of_weight = view_.reg(reg).weight;
    return {.axes = in_mesh_order(view_.program->mesh, spread_[reg]),
            .bytes = bytes(reg),
            .of_weight = of_weight,
            .of_input = !of_weight,
            .node = node_for(i)};
  }

  // Sums the gradient of an instruction's result, before it is used.
  void settle(InstructionId i, PassTime& time) {
    const RegisterId reg = view_.at(i).result;
    if (spread_[reg].empty()) return;
    time.sends.push_back(gradient_sum(i));
    spread_[reg].clear();
  }

  void compute_backward(InstructionId i, PassTime& time) {
    const Instruction& made = view_.at(i);
    const OpDef& op = view_.op(i);
    if (region_of_[made.node] != nullptr) spread(i, weights_of(i));
    if (saved_.inner[i]) return;
    if (op.recompute_cost == RecomputeCost::View ||
        view_.reg(made.result).weight) {
      for (const RegisterId operand : made.operands) {
        if (view_.has_gradient(operand))
          join(spread_[operand], spread_[made.result]);
      }
      return;
    }
    settle(i, time);
    spread(i, saved_.differentiates[i]);
    if (saved_.reads[i].drops_out) drop_out(i, time);
    if (const Region* region = kernel_of(i)) {
      if (region->kind == Region::Kind::Attention) {
        return attend(*region, true, time);
      }
    } else if (op.is_product) {
      return multiply_backward(i, time);
    }
    pass_backward(i, time);
  }

  // Marks operands: a reader gives parts of a gradient along its axes that do
  // not shard the operand.
  void spread(InstructionId i, const std::vector<RegisterId>& operands) {
    AxisNames used;
    for (const AxisNames& axes : view_.at(i).factor_axes) join(used, axes);
    for (const RegisterId operand : operands) {
      const AxisNames own =
          axes_in_use(view_.program->registers[operand].layout);
      for (const AxisName& axis : used) {
        if (!contains(own, axis)) join(spread_[operand], {axis});
      }
    }
  }

  // Returns a kernel's own weights, such as a norm's, which are not its inputs.
  std::vector<RegisterId> weights_of(InstructionId i) const {
    std::vector<RegisterId> weights = view_.at(i).operands;
    std::erase_if(weights, [&](RegisterId reg) {
      return !view_.reg(reg).weight || !view_.has_gradient(reg);
    });
    return weights;
  }

  // Returns whether a product adds adapters to its kernel first, so that its
  // backward makes the whole gradient of that sum.
  bool merges(InstructionId i) const {
    return view_.merges(i) && mode_ != SavingMode::Least;
  }
  // Adds what PEFT does and others need not do, which bounds no step.
  template <typename Price>
  static void add_unbound(PassTime& time, Price price) {
    PassTime own;
    price(own);
    own.products.seconds.lower = 0;
    own.memory.seconds.lower = 0;
    add(time.products, own.products);
    add(time.memory, own.memory);
    time.kernels += own.kernels;
  }

  static ProductShape of_weight(const ProductShape& shape) {
    return {shape.groups, shape.n, shape.k, shape.m, true};
  }

  void multiply_backward(InstructionId i, PassTime& time) {
    const ProductShape shape = local_product(view_, i).shape;
    const auto& operands = view_.at(i).operands;
    if (merges(i)) {
      add_unbound(time, [&](PassTime& own) {
        multiply(i, of_weight(shape), own);
        pass_over(2 * bytes(operands[1]), 1, own);
      });
    }
    for (const RegisterId operand : saved_.differentiates[i]) {
      const bool is_first = operand == operands[0];
      multiply(i,
               is_first ? ProductShape{shape.groups, shape.m, shape.k, shape.n}
                        : of_weight(shape),
               time);
      // With autocast, gradients are converted to the dtype of their operands.
      if (is_eager() && view_.reads_cast(i, operand)) convert(operand, time);
    }
  }

  void pass_backward(InstructionId i, PassTime& time) {
    const Instruction& made = view_.at(i);
    const OpDef& op = view_.op(i);
    const bool is_kernel = kernel_of(i) != nullptr;
    // The gradient of a sum is that of its result.
    if (!is_kernel && op.second_sign != 0) {
      for (const RegisterId operand : saved_.differentiates[i]) {
        if (view_.reg(operand).weight) pass_over(bytes(made.result), 1, time);
      }
      return;
    }
    auto reads = static_cast<double>(saved_.reads[i].extra.bytes);
    for (const RegisterId reg : saved_.reads[i].registers) reads += bytes(reg);
    if (op.is_lookup) reads = bytes(made.result);
    const double arriving =
        gradient_comes_from_memory(made.result) ? bytes(made.result) : 0;
    double moved = 0;
    double kernels = 0;
    for (const RegisterId operand : saved_.differentiates[i]) {
      const bool weight = view_.reg(operand).weight;
      double given = comes_from_memory(operand) || weight ? bytes(operand) : 0;
      // Operation by operation, the gradient of a broadcast operand is made at
      // full size, and added up.
      const bool is_broadcast = is_eager() && !is_kernel && !op.is_lookup &&
                                numbers(operand) < numbers(made.result);
      if (is_broadcast) given += 2 * bytes(made.result);
      // A kernel gives all gradients of its operands at once.
      moved += is_kernel ? given : arriving + given;
      kernels += is_broadcast ? 2 : 1;
    }
    if (kernels == 0) return;
    moved += is_kernel ? arriving + reads : reads;
    if (is_kernel) {
      kernels = 1;
      moved *= kRowsSlowdown;
    }
    if (is_of_rows(i)) moved *= kRowsSlowdown;
    const double steps = steps_in_kernels(i);
    pass_over(moved * steps, kernels * steps, time);
    // A recurrence takes twice as long backward as forward.
    if (is_recurrent(op)) {
      add(time.memory, recurrence_time(view_, i, of_.card, of_.precision),
          2 / of_.shared.parts());
    }
  }
  void move_backward(InstructionId i, PassTime& time) {
    const Instruction& made = view_.at(i);
    const RegisterId from = made.operands[0];
    AxisNames& parts = spread_[made.result];
    const auto pass_on = [&] { join(spread_[from], parts); };
    if (made.kind == Instruction::Kind::Slice) {
      send(i, CollectiveKind::AllGather, bytes(from), time);
      pass_on();
      return;
    }
    switch (made.collective) {
      case CollectiveKind::AllGather: {
        // A reader of the whole gives the gradient of its own part; a reader of
        // a part gives a part of the sum.
        const size_t before = parts.size();
        erase_if(parts, [&](const AxisName& axis) {
          return contains(made.axes, axis);
        });
        if (is_gathered_again(i)) send(i, time);
        if (parts.size() < before) {
          send(i, CollectiveKind::ReduceScatter, bytes(made.result), time);
        }
        pass_on();
        return;
      }
      case CollectiveKind::ReduceScatter:
        settle(i, time);
        send(i, CollectiveKind::AllGather, bytes(from), time);
        return;
      case CollectiveKind::AllReduce:
        settle(i, time);
        return;
      case CollectiveKind::Broadcast:
        send(i, CollectiveKind::AllReduce, bytes(from), time);
        return;
      case CollectiveKind::AllToAll:
      case CollectiveKind::Permute:
        send(i, made.collective, bytes(from), time);
        pass_on();
        return;
    }
  }
  // Returns whether a weight is gathered twice. A layer's weight is released
  // when the layer has run (FSDP) and gathered again for the gradients of what
  // products read, unless recomputing the layer has done that.
  bool is_gathered_again(InstructionId i) const {
    const RegisterId weight = view_.at(i).result;
    return view_.reg(weight).weight && view_.is_layer(view_.segment(i)) &&
           !needed_[i] && is_multiplied(weight);
  }
  bool is_multiplied(RegisterId weight) const {
    return std::ranges::any_of(readers_[weight], [&](InstructionId reader) {
      if (view_.op(reader).recompute_cost == RecomputeCost::View) {
        return is_multiplied(view_.at(reader).result);
      }
      const auto& given = saved_.differentiates[reader];
      return view_.op(reader).is_product &&
             std::ranges::any_of(given, [&](RegisterId operand) {
               return !view_.reg(operand).weight;
             });
    });
  }

  const PassPricing& of_;
  const ProgramView& view_;
  SavingMode mode_;
  SavedValues saved_;
  PerNode<const Region*> region_of_;  // a region that is one kernel
  PerNode<RegisterId> result_of_;
  PerNode<bool> in_norm_;
  PerRegister<AxisNames> spread_;
  PerRegister<std::vector<InstructionId>> readers_;
  PerInstruction<bool> needed_;       // recomputed
  std::set<RegisterId> cast_;         // weights that were already cast
  std::optional<Precision> unknown_;  // precision without a rate in the profile
  std::vector<SegmentTime> times_;
};

}  // namespace

std::vector<SegmentTime> price_pass(const PassPricing& pricing, SavingMode mode,
                                    std::string& why) {
  return PassPricer(pricing, mode).run(why);
}

}  // namespace shardplan
