// SPDX-License-Identifier: Apache-2.0
// How saved values are found.
//
// `Reading` says what the backward of every instruction reads in one mode:
// registers, and bytes besides (statistics, masks, copies). Instructions that a
// kernel fuses, those of a norm, a softmax or attention, read together: the
// last of them has all reads, and the results of the others (`inner`) never
// leave the kernel.
//
// `Marking` starts from these reads. What is read is saved, unless the mode
// recomputes it. Then its operands are marked in its place, and so on, up to
// something that is saved or is a weight. In gate = x W, hidden = silu(gate),
// out = hidden V, backward reads x, gate and hidden. Fused saves them; Least
// recomputes hidden from gate, which is a product and therefore saved.
//
// If layers are recomputed, this is done twice. The first time nothing is, for
// what is alive while the backward of a layer runs. The second time is for what
// is saved until then: in a recomputed layer, what comes from other layers and
// what the policy names; elsewhere, the same as the first time.
#include "activations/saved_values.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "activations/module_values.h"
#include "base/checked.h"
#include "base/words.h"
#include "graph/op.h"
#include "sim/transfers.h"

namespace shardplan {
namespace {

// The reads of every instruction's backward, with kernels that fuse according
// to `mode`.
class Reading {
 public:
  Reading(const ProgramView& view, const SegmentOptions& options,
          SavingMode mode, AttentionKind attention)
      : reads(view.program->instructions.size()),
        inner(reads.size()),
        differentiates(reads.size()),
        view_(view),
        options_(options),
        mode_(mode),
        attention_(attention),
        region_at_(view.graph().nodes.size()) {
    for (const Region& region : view.graph().regions) {
      shared_heads_.insert(region.shared_heads.begin(),
                           region.shared_heads.end());
      if (region.router) routers_.insert(region.router);
      if (!may_be_kernel(region)) continue;
      for (const NodeId n : region.nodes) {
        const ValueId result = view.graph().nodes[n].result;
        if (!view.graph().values[result].is_weight) region_at_[n] = &region;
      }
    }
    for (const InstructionId i : view.instructions()) read(i);
  }

  // Returns the region that may be one kernel and that an instruction is part
  // of; null if none.
  const Region* region_of(InstructionId i) const {
    return view_.computes(i) ? region_at_[view_.at(i).node] : nullptr;
  }
  bool is_of(InstructionId i, Region::Kind kind) const {
    const Region* region = region_of(i);
    return region != nullptr && region->kind == kind;
  }
  bool is_attention(InstructionId i) const {
    return is_of(i, Region::Kind::Attention);
  }
  bool is_alone_pointwise(InstructionId i) const {
    return view_.computes(i) && region_of(i) == nullptr &&
           view_.op(i).recompute_cost == RecomputeCost::Pointwise;
  }

  PerInstruction<BackwardReads> reads;
  PerInstruction<bool> inner;
  PerInstruction<std::vector<RegisterId>> differentiates;

 private:
  // Attention that holds scores is several kernels, and few kernels compute the
  // gradient of a trained bias.
  bool may_be_kernel(const Region& region) const {
    if (region.is_norm_or_softmax()) return true;
    if (region.kind != Region::Kind::Attention ||
        attention_ != AttentionKind::Flash) {
      return false;
    }
    const bool lacks_kernel =
        (region.has_trained_bias && !options_.kernels_take_bias) ||
        (options_.scores_of_grouped_heads && !region.shared_heads.empty());
    return mode_ != SavingMode::Eager || !lacks_kernel;
  }

  // Even operation by operation, a framework's own softmax and layer_norm are
  // single kernels (PyTorch's).
  bool is_fused(const Region& region) const {
    if (mode_ != SavingMode::Eager || region.kind == Region::Kind::Attention) {
      return true;
    }
    if (region.kind == Region::Kind::Softmax) {
      return options_.softmax_in_float32 || options_.native_kernels;
    }
    return options_.native_kernels && region.numbers_per_row == 2 &&
           !options_.layer_norm_is_several;
  }

  Int128 bytes(RegisterId reg) const {
    return nth(view_.reg(reg).bytes, mode_);
  }
  Int128 elements(RegisterId reg) const { return local_elements(view_, reg); }

  // Saves more bytes, of what a register holds.
  void save_more(Int128 more, RegisterId reg, BackwardReads& found) const {
    found.extra.bytes += more;
    found.extra.of = view_.reg(reg).value;
  }

  void read(InstructionId i) {
    const Instruction& at = view_.at(i);
    if (at.kind == Instruction::Kind::Load || view_.reg(at.result).weight) {
      return;
    }
    const bool flows = view_.has_gradient(at.result);
    if (flows) differentiates[i] = with_gradients(at.operands);
    if (!view_.computes(i)) {
      inner[i] = is_within_region(i);
      if (inner[i]) differentiates[i].clear();
      return;
    }
    const Region* region = region_of(i);
    if (options_.dropout.any() && flows) save_mask(i);
    if (region != nullptr && is_fused(*region)) return read_fused(i, *region);
    if (!flows) return;
    read_alone(i);
    if (region != nullptr) copy_as_float(i, *region);
  }

  std::vector<RegisterId> with_gradients(
      std::vector<RegisterId> registers) const {
    std::erase_if(registers,
                  [&](RegisterId reg) { return !view_.has_gradient(reg); });
    return registers;
  }

  // Returns whether the instruction only moves a value within one region.
  bool is_within_region(InstructionId i) const {
    const NodeId node = view_.at(i).node;
    const Region* from = region_of(view_.reg(view_.at(i).operands[0]).maker);
    return from != nullptr && is_fused(*from) && node &&
           region_at_[node] == from;
  }

  void read_alone(InstructionId i) {
    const GradientReads& gradient = view_.op(i).gradient;
    BackwardReads& found = reads[i];
    const auto& operands = view_.at(i).operands;
    for (size_t o = 0; o < operands.size(); ++o) {
      const bool read = gradient.operands != ReadOperands::None &&
                        (gradient.only.empty() ||
                         contains(gradient.only, static_cast<int>(o))) &&
                        (gradient.operands == ReadOperands::All ||
                         is_read_for_others(operands, o));
      if (!read || view_.reg(operands[o]).weight) continue;
      if (is_quantised_input(i)) {
        save_quantised(operands[o], found);
      } else if (view_.reads_cast(i, operands[o])) {
        save_cast(operands[o],
                  view_.op(i).is_product ? options_.element_bytes : kFloatBytes,
                  found);
      } else {
        found.registers.push_back(operands[o]);
      }
    }
    if (gradient.result) found.registers.push_back(view_.at(i).result);
    if (view_.op(i).exchange == TokenExchange::FromExperts) {
      read_weighed(i, found);
    }
    if (mode_ == SavingMode::Eager) save_steps(i, found);
    if (view_.node(i).part == OpPart::AdapterInput) {
      save_adapter_input(i, found);
    }
    if (mode_ != SavingMode::Least) save_merged(i, found);
  }

  // Returns whether it is a layer's product with a weight that is computed in 8
  // bits and saves its input so; routers are not.
  bool is_quantised_input(InstructionId i) const {
    return options_.fp8 != nullptr && options_.fp8->saves_inputs &&
           mode_ == SavingMode::Fused && view_.op(i).is_product &&
           !view_.multiplies_values(i) && view_.is_layer(view_.segment(i)) &&
           !routers_.contains(view_.at(i).node);
  }

  // torch.autocast makes a new cast for every operation that reads a value, and
  // saves the casts for backward.
  void save_cast(RegisterId reg, int64_t unit, BackwardReads& found) const {
    const int64_t narrow = options_.element_bytes;
    const int64_t own = view_.is_wide(view_.reg(reg).value)
                            ? std::max(narrow, kFloatBytes)
                            : narrow;
    save_more(bytes(reg) * unit / own, reg, found);
  }

  // Products that read the same value share its quantised copy.
  void save_quantised(RegisterId reg, BackwardReads& found) {
    const RegisterId root = view_.reg(reg).root;
    if (!quantised_.insert(root).second) return;
    const Int128 unit = Int128{options_.element_bytes} * Fp8Recipe::kUnit;
    save_more((bytes(root) * options_.fp8->input + unit - 1) / unit, root,
              found);
  }

  // Shares multiply what the last product of an expert reads, so nothing reads
  // that product's result. Kernels of gated activations do so from what they
  // read; else the activation's result is saved as well.
  void read_weighed(InstructionId i, BackwardReads& found) const {
    if (!options_.weighs_in_experts && mode_ != SavingMode::Least) return;
    std::erase(found.registers, view_.at(i).operands[0]);
    // The lower end does so for every framework.
    if (!options_.weighs_in_experts) return;
    InstructionId product = view_.root(view_.at(i).operands[0]).maker;
    while (!view_.op(product).is_product || !view_.computes(product)) {
      if (view_.at(product).kind == Instruction::Kind::Load) return;
      product = view_.root(view_.at(product).operands[0]).maker;
    }
    const RegisterId hidden = view_.reg(view_.at(product).operands[0]).root;
    const InstructionId maker = view_.reg(hidden).maker;
    if (is_alone_pointwise(maker) &&
        view_.op(maker).gradient.operands != ReadOperands::OfOthers) {
      save_more(bytes(hidden), hidden, found);
    }
  }

  // The first product of an adapter reads its input as PEFT makes it for each
  // module: a copy in the adapter's dtype, or what dropout leaves of that, with
  // a mask. No other part of the adapter reads the input.
  void save_adapter_input(InstructionId i, BackwardReads& found) const {
    const auto& operands = view_.at(i).operands;
    const int64_t unit =
        std::max(options_.element_bytes, options_.adapter_bytes);
    const bool drops = options_.dropout.adapters;
    if (mode_ == SavingMode::Least || !view_.has_gradient(operands[1]) ||
        (unit == options_.element_bytes && !drops)) {
      return;
    }
    save_more(elements(operands[0]) * (unit + (drops ? mask_bytes(unit) : 0)),
              operands[0], found);
    std::erase(found.registers, operands[0]);
  }

  // Saves kernels with merged adapters, and the adapters in the kernels' dtype.
  void save_merged(InstructionId i, BackwardReads& found) {
    const bool is_factor = view_.node(i).part == OpPart::MergedFactor;
    if (!is_factor && !view_.merges(i)) return;
    const RegisterId weight = view_.reg(view_.at(i).operands[1]).root;
    if (is_factor && !factors_.insert(weight).second) return;
    save_more(elements(weight) * options_.element_bytes, weight, found);
  }

  // Returns whether another operand's gradient is needed: a product with a
  // frozen weight reads only the weight.
  bool is_read_for_others(const std::vector<RegisterId>& operands,
                          size_t own) const {
    if (operands.size() < 2) return true;
    for (size_t o = 0; o < operands.size(); ++o) {
      if (o != own && view_.has_gradient(operands[o])) return true;
    }
    return false;
  }

  int64_t mask_bytes(int64_t unit) const {
    return options_.dropout.wide_masks ? unit : 1;
  }

  // Saves the masks of what may be dropped; the minimum draws them again. For
  // scores, and after an activation that reads its own result, also saves what
  // dropout leaves, because the product reads that and not the result.
  void save_mask(InstructionId i) {
    const RegisterId result = view_.at(i).result;
    const std::string_view part = view_.part(result);
    const bool probabilities = is_of(i, Region::Kind::Softmax) &&
                               region_of(i)->weights &&
                               view_.at(i).node == region_of(i)->nodes.back();
    const Dropout& drops = options_.dropout;
    const bool hidden = part == "mlp.hidden" && drops.hidden;
    const bool dropped =
        probabilities ? drops.scores
        : part == "attn.output" || part == "cross.output"
            ? drops.attention
            : hidden || (part == "mlp.output" && drops.mlp) ||
                  (part.ends_with("embedded") && drops.embeddings);
    // Names are of whole values; probabilities may be a step on the way to one.
    if (!dropped || (view_.value(result).is_step() && !probabilities)) return;
    reads[i].drops_out = true;
    if (mode_ == SavingMode::Least) return;
    // Under torch.autocast, the rounded rest is counted as a product's cast.
    const bool saves_rest =
        (probabilities || (hidden && view_.op(i).gradient.result)) &&
        view_.wide.empty();
    const int64_t unit = options_.element_bytes;
    save_more(elements(result) * (mask_bytes(unit) + (saves_rest ? unit : 0)),
              result, reads[i]);
  }

  // Adds intermediate results if a framework runs one of our operations as
  // several.
  void save_steps(InstructionId i, BackwardReads& found) const {
    const RegisterId result = view_.at(i).result;
    const Attributes& attributes = view_.node(i).attributes;
    const InnerSteps steps = view_.op(i).inner_steps(attributes);
    if (steps == InnerSteps::Tanh && !view_.wide.empty() &&
        options_.gelu_steps > 0) {
      // The cube is computed in float32, and so is what follows: the input,
      // tanh and one more are saved in float32, and half of the input.
      std::erase(found.registers, view_.at(i).operands[0]);
      save_more(elements(result) * (3 * kFloatBytes + options_.element_bytes),
                result, found);
    } else if (steps == InnerSteps::Tanh) {
      save_more(options_.gelu_steps * bytes(result), result, found);
    } else if (steps == InnerSteps::Sigmoid) {
      save_more(options_.silu_steps * bytes(result), result, found);
    } else if (steps == InnerSteps::Power && view_.op(i).max_operands > 1) {
      // Two powers, two products, an exponential and a mask.
      save_more(bytes(result) * 7 / 2, result, found);
    } else if (steps == InnerSteps::Angles) {
      const Shape& shape = view_.program->registers[result].local_shape;
      const size_t dim = dim_at(integer_of(attributes, "dim", 1), shape.size());
      save_more(Int128{2} * shape[dim] * shape.back() * options_.element_bytes,
                result, found);
    } else if (options_.repeats_heads && groups_of_heads(i) > 1) {
      const RegisterId input = view_.at(i).operands[1];
      save_more((groups_of_heads(i) - 1) * bytes(input), input, found);
    }
  }

  // Returns how many query heads share a key head in a product of attention, or
  // 1 for anything else.
  int64_t groups_of_heads(InstructionId i) const {
    const auto found = shared_heads_.find(view_.at(i).node);
    if (found == shared_heads_.end()) return 1;
    return view_.program->registers[view_.at(i).operands[0]]
        .local_shape[found->second];
  }

  void read_fused(InstructionId i, const Region& region) {
    auto& [inputs, rows] = fused_[&region];
    for (const RegisterId operand : view_.at(i).operands) {
      if (contains(region.inputs, view_.reg(operand).value) &&
          !contains(inputs, operand)) {
        inputs.push_back(operand);
      }
    }
    const RegisterId result = view_.at(i).result;
    if (view_.reg(result).value == region.row) rows = elements(result);
    if (view_.at(i).node != region.nodes.back()) {
      inner[i] = true;
      differentiates[i].clear();
      return;
    }
    if (!view_.has_gradient(result)) return;
    // The last instruction of the region accounts for all of it.
    differentiates[i] = with_gradients(inputs);
    BackwardReads& found = reads[i];
    found.attention = region.kind == Region::Kind::Attention;
    found.in_place =
        options_.softmax_in_place && region.kind == Region::Kind::Softmax;
    if (region.kind != Region::Kind::Softmax) {
      const bool is_norm = region.kind == Region::Kind::Norm;
      for (const RegisterId input : inputs) {
        if (is_norm && options_.layer_norm_in_float32 && view_.wide.empty() &&
            options_.element_bytes < kFloatBytes) {
          save_cast(input, kFloatBytes, found);
        } else if (view_.wide.empty() ||
                   view_.is_wide(view_.reg(input).value) == is_norm) {
          found.registers.push_back(input);
        } else {
          save_cast(input, is_norm ? kFloatBytes : options_.element_bytes,
                    found);
        }
      }
      save_more(rows * kFloatBytes * region.numbers_per_row, result, found);
    }
    if (options_.softmax_in_float32 && region.weights && view_.wide.empty() &&
        region.kind == Region::Kind::Softmax) {
      // With dropout, its result is saved instead of the rounded ones.
      const int64_t unit = options_.dropout.scores
                               ? kFloatBytes - options_.element_bytes
                               : kFloatBytes;
      save_more(elements(result) * unit, result, found);
    } else if (region.kind != Region::Kind::Norm) {
      found.registers.push_back(result);
    }
    if (found.attention && mode_ == SavingMode::Eager &&
        options_.kernels_repeat_heads) {
      // Keys and values are repeated for all heads.
      for (const RegisterId input : inputs) {
        found.extra.bytes += std::max<Int128>(bytes(result) - bytes(input), 0);
      }
    }
  }

  // Norms computed in float32 step by step save a copy of their input, and
  // always if they subtract a mean (transformers' CohereLayerNorm). A norm that
  // rounds before it multiplies with its weight saves the input without its
  // mean in float32, and no copy.
  void copy_as_float(InstructionId i, const Region& region) {
    if (region.kind != Region::Kind::Norm ||
        (options_.element_bytes >= kFloatBytes &&
         region.numbers_per_row == 1)) {
      return;
    }
    if (options_.norms_read_copies) {
      std::erase_if(reads[i].registers, [&](RegisterId reg) {
        const ValueId value = view_.reg(reg).value;
        return contains(region.inputs, value) && !view_.is_wide(value);
      });
    }
    if (view_.at(i).node != region.nodes.front()) return;
    for (const RegisterId operand : view_.at(i).operands) {
      if (view_.reg(operand).weight || !view_.has_gradient(operand) ||
          view_.is_wide(view_.reg(operand).value)) {
        continue;
      }
      const bool centred =
          region.numbers_per_row == 2 && options_.norms_round_first;
      const int64_t unit = std::max<int64_t>(
          kFloatBytes - (centred ? options_.element_bytes : 0), 0);
      save_more(elements(operand) * unit, operand, reads[i]);
    }
  }

  const ProgramView& view_;
  const SegmentOptions& options_;
  SavingMode mode_;
  AttentionKind attention_;
  PerNode<const Region*> region_at_;       // null: not in a region
  std::map<NodeId, size_t> shared_heads_;  // of all regions
  std::set<NodeId> routers_;
  // The values that a region reads, and elements of per-row statistics.
  struct Fused {
    std::vector<RegisterId> inputs;
    Int128 rows = 0;
  };
  std::map<const Region*, Fused> fused_;
  std::set<RegisterId> quantised_;  // registers with a saved copy in 8 bits
  std::set<RegisterId> factors_;    // adapters that were converted
};

// Marks the values that are saved, starting from those that backward reads.
struct Marking {
  const ProgramView& view;
  const Reading& reading;
  SavingMode mode;
  const Remat& remat;
  const ModuleValues& modules;
  // Whether a register is saved, and the first instruction that needs it.
  PerRegister<bool> saved = PerRegister<bool>(view.registers.size());
  PerRegister<InstructionId> needed_by =
      PerRegister<InstructionId>(view.registers.size());
  // Recomputed from what is saved.
  PerRegister<bool> recomputed = PerRegister<bool>(view.registers.size());
  PerInstruction<int> product_number = {};

  // Marks all that the backward of instructions reads, recomputing only what
  // this mode recomputes. Values saved for other readers are not recomputed, so
  // operations that may recompute come last.
  template <typename Which>
  void mark_reads(Which which) {
    for (const bool pointwise : {false, true}) {
      for (const InstructionId i : view.instructions()) {
        if (reading.is_alone_pointwise(i) != pointwise || !which(i)) continue;
        for (const RegisterId reg : reading.reads[i].registers) {
          mark(reg, i, pointwise);
        }
      }
    }
  }

  // Does so for an instruction whose layer is recomputed.
  void mark_recomputed_reads(InstructionId i) {
    for (const RegisterId reg : reading.reads[i].registers) {
      mark_recomputed(reg, view.segment(i));
    }
  }

  // Marks everything in recomputed layers that a policy may save, whether
  // backward needs it or not: PyTorch's selective checkpointing caches the
  // results of all operations that it names.
  void mark_all_named() {
    for (const RegisterId r : view.registers.ids()) {
      const HeldRegister& of = view.registers[r];
      if (is_recomputed(view, remat, of.segment) && !of.weight && !of.output &&
          !of.loaded && of.root == r && view.has_gradient(r) &&
          view.computes(of.maker) && !reading.inner[of.maker] &&
          may_be_saved(r)) {
        saved[r] = true;
      }
    }
  }

  // Returns the operation that computes a register, before any moves, or none.
  InstructionId product_of(RegisterId reg) const {
    InstructionId product = view.reg(reg).maker;
    while (!view.computes(product)) {
      if (view.at(product).kind == Instruction::Kind::Load) return {};
      product = view.reg(view.at(product).operands[0]).maker;
    }
    return product;
  }
  bool is_weight_product(InstructionId i) const {
    return view.op(i).is_product && !view.multiplies_values(i) &&
           !reading.is_attention(i);
  }
  bool is_context(InstructionId i) const {
    return reading.is_attention(i) || is_mixed(i);
  }

  void number_products() {
    product_number.assign(view.program->instructions.size(), 0);
    std::map<int, int> next;
    for (const InstructionId i : view.instructions()) {
      if (view.computes(i) && view.op(i).is_product &&
          !view.multiplies_values(i)) {
        product_number[i] = next[view.segment(i)]++;
      }
    }
  }

  void mark(RegisterId reg, InstructionId needed, bool from_pointwise) {
    const RegisterId r = view.reg(reg).root;
    const HeldRegister& of = view.registers[r];
    if (of.weight || of.output) return;
    if (saved[r]) {
      if (needed < needed_by[r]) needed_by[r] = needed;
      return;
    }
    const bool repeats =
        is_recomputed_now(of.maker, from_pointwise) || is_of_module(r);
    PerRegister<bool>& seen = repeats ? recomputed : saved;
    if (seen[r]) return;
    seen[r] = true;
    if (!repeats) {
      needed_by[r] = needed;
      return;
    }
    for (const RegisterId operand : view.at(of.maker).operands) {
      mark(operand, needed, from_pointwise);
    }
  }

  // Returns whether a recomputed module computes it, directly or within a
  // kernel.
  bool is_of_module(RegisterId reg) const {
    const HeldRegister& of = view.reg(reg);
    return modules.any() && !of.loaded &&
           (modules.has_value(of, of.value) || reading.inner[of.maker]);
  }

  // Returns whether the result of `maker` is recomputed rather than saved.
  bool is_recomputed_now(InstructionId maker, bool from_pointwise) const {
    const Instruction& made = view.at(maker);
    if (mode == SavingMode::Eager || made.kind == Instruction::Kind::Load) {
      return false;
    }
    if (!view.computes(maker)) {
      // Gathers are repeated rather than saved.
      return made.kind == Instruction::Kind::Collective && !reduces(made);
    }
    if (mode == SavingMode::Fused) {
      return from_pointwise && reading.is_alone_pointwise(maker);
    }
    return !reading.is_attention(maker) &&
           (is_cheap(view.op(maker).recompute_cost) ||
            view.multiplies_values(maker));
  }

  void mark_recomputed(RegisterId reg, int segment) {
    const RegisterId r = view.reg(reg).root;
    const HeldRegister& of = view.registers[r];
    if (of.weight || of.output) return;
    const bool stays = of.loaded || of.segment != segment || may_be_saved(r);
    PerRegister<bool>& seen = stays ? saved : recomputed;
    if (seen[r]) return;
    seen[r] = true;
    if (stays) return;
    for (const RegisterId operand : view.at(of.maker).operands) {
      mark_recomputed(operand, segment);
    }
  }

  bool may_be_saved(RegisterId reg) const {
    const RematPolicy& policy = *remat.policy;
    if (contains(policy.saved, view.part(reg))) return true;
    const InstructionId product = product_of(reg);
    if (!product) return false;
    if (is_context(product)) {
      return policy.attention ||
             (policy.other_products && view.multiplies_values(product) &&
              !reading.is_attention(product));
    }
    if (!view.op(product).is_product) return false;
    if (view.multiplies_values(product)) return policy.other_products;
    return policy.weight_products &&
           (!policy.every_second_product || product_number[product] % 2 == 0);
  }

  // Returns whether the product reads the result of a softmax.
  bool is_mixed(InstructionId i) const {
    return view.multiplies_values(i) &&
           std::ranges::any_of(view.at(i).operands, [&](RegisterId operand) {
             return reading.is_of(view.root(operand).maker,
                                  Region::Kind::Softmax);
           });
  }
};

}  // namespace

bool is_recomputed(const ProgramView& view, const Remat& remat, int segment) {
  return !remat.is_none() && segment >= 0 && view.is_layer(segment);
}

SavedValues saved_values(const ProgramView& view, const SegmentOptions& options,
                         const Remat& remat, SavingMode mode) {
  const Reading running(view, options, mode, options.attention);
  static const RematPolicy kNone;
  const ModuleValues none(view, kNone);
  Marking all{view, running, mode, remat, none};
  all.mark_reads([](InstructionId) { return true; });
  SavedValues values;
  values.alive = all.saved;
  values.saved = all.saved;
  values.needed_by = all.needed_by;
  values.reads = running.reads;
  values.inner = running.inner;
  values.differentiates = running.differentiates;
  for (const RegisterId r : view.registers.ids()) {
    const HeldRegister& of = view.registers[r];
    const InstructionId made =
        of.weight || of.loaded ? InstructionId() : all.product_of(r);
    values.products.push_back(made && all.is_weight_product(made));
    values.contexts.push_back(made && all.is_context(made));
  }
  const ModuleValues modules(view, remat.is_none() ? kNone : *remat.policy);
  const auto add_extra = [&](const Reading& reading) {
    for (const InstructionId i : view.instructions()) {
      const BackwardReads& reads = reading.reads[i];
      const SavedExtra& extra = reads.extra;
      const bool stays =
          extra.bytes != 0 &&
          !(modules.any() &&
            modules.has_value(view.reg(view.at(i).result), extra.of)) &&
          (!is_recomputed(view, remat, view.segment(i)) ||
           remat.policy->by_modules() ||
           (reads.attention && remat.policy->attention));
      values.saved_extra.push_back(stays ? extra : SavedExtra{});
    }
  };
  if (remat.is_none()) {
    add_extra(running);
    return values;
  }
  // Without scores, everything is saved that a kernel without scores saves.
  const bool scores_only = remat.policy->scores_only;
  const Reading saved_reads(
      view, options, mode,
      scores_only ? AttentionKind::Flash : options.attention);
  Marking marks{view, saved_reads, mode, remat, modules};
  marks.number_products();
  const bool whole = !remat.policy->by_modules();
  const auto recomputes = [&](InstructionId i) {
    return whole && is_recomputed(view, remat, view.segment(i));
  };
  for (const InstructionId i : view.instructions()) {
    if (recomputes(i)) marks.mark_recomputed_reads(i);
  }
  if (mode == SavingMode::Eager && whole && options.saves_all_named) {
    marks.mark_all_named();
  }
  // These marks are separate for the two kinds of marking.
  marks.recomputed.assign(view.registers.size(), false);
  marks.mark_reads([&](InstructionId i) { return !recomputes(i); });
  add_extra(saved_reads);
  values.saved = marks.saved;
  return values;
}

}  // namespace shardplan
