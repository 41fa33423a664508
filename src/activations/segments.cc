// SPDX-License-Identifier: Apache-2.0
#include "activations/segments.h"

#include <algorithm>
#include <set>
#include <utility>

#include "activations/saved_values.h"
#include "activations/step_memory.h"
#include "base/words.h"
#include "core/fold.h"

namespace shardplan {
namespace {

// Live registers with their bytes, and the sum of these.
struct AliveBytes {
  std::map<RegisterId, Int128> bytes = {};
  Int128 total = 0;

  void add(RegisterId reg, Int128 amount) {
    if (bytes.emplace(reg, amount).second) total += amount;
  }
  void drop(RegisterId reg) {
    const auto found = bytes.find(reg);
    if (found == bytes.end()) return;
    total -= found->second;
    bytes.erase(found);
  }
};

// The moment of backward at which the most bytes are live.
struct Peak {
  Int128 bytes = 0;
  InstructionId at = {};
};

// Returns the SavingMode of a figure.
SavingMode mode_of(const SegmentOptions& options, SavingMode figure) {
  return options.runs_in_order ? SavingMode::Eager : figure;
}

// The passes over one segment, for one of the three figures.
class Sweep {
 public:
  Sweep(const ProgramView& view, const SavedValues& values,
        const SegmentOptions& options, const Remat& remat, SavingMode figure,
        int segment)
      : view_(view),
        values_(values),
        options_(options),
        remat_(remat),
        figure_(figure),
        segment_(segment) {
    for (const InstructionId i : view.instructions()) {
      if (view.segment(i) == segment && !view.reg(view.at(i).result).weight) {
        own_.push_back(i);
        flows_ = flows_ || view.has_gradient(view.at(i).result);
      }
    }
  }

  SegmentMemory measure() const {
    SegmentMemory memory;
    sum_saved(memory);
    memory.sliced = sliced_of(memory);
    for (const InstructionId i : own_) {
      const RegisterId result = view_.at(i).result;
      if (is_read_later(result)) memory.handed_on += bytes(result);
    }
    memory.loss = loss();
    memory.forward = forward(values_.saved) + memory.loss;
    memory.input =
        handed_in([&](RegisterId r) { return view_.value(r).learned; });
    const Peak peak = backward();
    memory.backward = peak.bytes;
    describe(peak, memory.backward_by);
    if (view_.any_frozen && mode_ != SavingMode::Least) {
      // Not even the inputs of frozen layers are saved.
      memory.forward +=
          handed_in([&](RegisterId r) { return !values_.saved[r]; });
      if (mode_ == SavingMode::Eager) {
        const Int128 held = inputs();
        memory.forward += held;
        memory.backward += held;
      }
    }
    if (is_recomputed(view_, remat_, segment_) && flows_) {
      // The layer is recomputed before its backward, with all that this needs.
      const Int128 again = forward(values_.alive) + memory.handed_on;
      if (again > memory.backward) {
        memory.backward_by["recomputed activations"] += again - memory.backward;
        memory.backward = again;
      }
    }
    if (memory.loss == 0) return memory;
    memory.backward += memory.loss;
    memory.backward_by[std::string(kLogits)] += memory.loss;
    return memory;
  }

 private:
  bool is_offloaded(RegisterId reg) const {
    if (remat_.is_plain()) return false;
    const RematPolicy& policy = *remat_.policy;
    const HeldRegister& of = view_.reg(reg);
    // Whether the next layer reads it as its input, and reads it last.
    const bool is_next_input = of.last_read &&
                               view_.segment(of.last_read) == of.segment + 1 &&
                               view_.is_layer(of.segment + 1);
    if ((policy.offloads_input || policy.offloads_everything) &&
        is_next_input) {
      return true;
    }
    if (of.loaded || !view_.is_layer(of.segment)) return false;
    return policy.offloads_everything ||
           contains(policy.offloaded, view_.part(reg)) ||
           (policy.offloads_products && values_.products[reg]) ||
           (policy.offloads_attention && values_.contexts[reg]);
  }

  void sum_saved(SegmentMemory& memory) const {
    const auto add = [&](ValueId value, Int128 amount) {
      if (amount == 0) return;
      memory.saved += amount;
      const Value& of = view_.graph().values[value];
      memory.saved_by[folded_name(of.whole())] += amount;
    };
    for (const RegisterId r : view_.registers.ids()) {
      const HeldRegister& reg = view_.registers[r];
      if (!values_.saved[r] || reg.segment != segment_) continue;
      if (is_offloaded(r)) {
        memory.offloaded += bytes(r);
      } else {
        add(reg.value, bytes(r));
      }
    }
    for (const InstructionId i : view_.instructions()) {
      const SavedExtra& extra = values_.saved_extra[i];
      if (view_.segment(i) == segment_) add(extra.of, extra.bytes);
    }
  }

  // Returns the part of the saved values that backward reads in products. A
  // recomputed segment reads all of them.
  Int128 sliced_of(const SegmentMemory& memory) const {
    if (is_recomputed(view_, remat_, segment_)) return memory.saved;
    std::set<RegisterId> read;  // roots
    for (const InstructionId i : view_.instructions()) {
      if (!view_.computes(i) || !view_.op(i).is_product) continue;
      for (const RegisterId reg : values_.reads[i].registers) {
        const RegisterId root = view_.reg(reg).root;
        if (values_.saved[root]) read.insert(root);
      }
    }
    Int128 sum = 0;
    for (const RegisterId root : read) {
      if (view_.reg(root).segment == segment_) sum += bytes(root);
    }
    return std::min(sum, memory.saved);
  }

  // Returns the bytes of logits and of what a loss makes of them.
  Int128 loss() const {
    Int128 elements = 0;
    for (const RegisterId output : view_.program->outputs) {
      const HeldRegister& of = view_.reg(output);
      if (of.output && of.segment == segment_) {
        elements += local_elements(view_, output);
      }
    }
    return loss_bytes(options_, elements, figure_);
  }

  // Returns the most bytes live at once if the registers in `saved` stay. If no
  // gradient flows, a program that runs operation by operation still holds what
  // its variables refer to, which is assumed to be all of the segment.
  Int128 forward(const PerRegister<bool>& saved) const {
    const bool holds_all = !flows_ && mode_ == SavingMode::Eager;
    Int128 most = 0;
    walk_forward(
        view_, own_,
        [&](RegisterId reg) {
          if (!is_of_segment(reg) || !is_stored(reg)) return Int128{0};
          return saved[reg] ? bytes(reg) : moment(reg);
        },
        [&](RegisterId reg) { return holds_all || saved[reg]; },
        [&](InstructionId i) { return values_.reads[i].extra.bytes; },
        [&](InstructionId, Int128 held) { most = std::max(most, held); });
    return most;
  }

  // Returns the bytes of values that earlier segments computed and that this or
  // a later one reads, if they are to be counted.
  template <typename Counts>
  Int128 handed_in(Counts counts) const {
    if (own_.empty()) return 0;
    Int128 sum = 0;
    for (const RegisterId r : view_.registers.ids()) {
      const HeldRegister& of = view_.registers[r];
      if (of.maker < own_.front() && of.segment != segment_ &&
          of.last_read >= own_.front() && is_stored(r) && counts(r)) {
        sum += bytes(r);
      }
    }
    return sum;
  }

  // Returns the bytes of inputs that are not saved for backward but that their
  // owner still holds.
  Int128 inputs() const {
    Int128 sum = 0;
    for (const RegisterId r : view_.registers.ids()) {
      const HeldRegister& of = view_.registers[r];
      if (of.loaded && !of.weight && !values_.saved[r]) sum += bytes(r);
    }
    return sum;
  }

  Peak backward() const {
    Peak peak;
    walk_back([&](InstructionId i, Int128 alive, const AliveBytes&,
                  const AliveBytes&) {
      if (alive > peak.bytes) peak = {alive, i};
    });
    return peak;
  }

  // Adds the bytes that are live at that moment, by name.
  void describe(const Peak& peak, std::map<std::string, Int128>& by) const {
    walk_back([&](InstructionId i, Int128 alive, const AliveBytes& registers,
                  const AliveBytes& gradients) {
      if (i != peak.at) return;
      for (const auto& [reg, amount] : registers.bytes) {
        by[folded_name(view_.value(reg).whole())] += amount;
      }
      for (const auto& [reg, amount] : gradients.bytes) {
        by["gradient of " + folded_name(view_.value(reg).whole())] += amount;
      }
      const Int128 rest = alive - registers.total - gradients.total;
      if (rest > 0) {
        by["per-row statistics, unsharded gradients"] += rest;
      } else if (rest < 0) {
        by["gradient of " +
           folded_name(view_.value(view_.at(i).result).whole())] += rest;
      }
    });
  }

  Int128 bytes(RegisterId reg) const {
    return nth(view_.reg(reg).bytes, mode_);
  }
  Int128 moment(RegisterId reg) const {
    return nth(view_.reg(reg).moment, mode_);
  }
  bool is_of_segment(RegisterId reg) const {
    return view_.reg(reg).segment == segment_ && !view_.reg(reg).loaded;
  }
  // Returns whether it is an activation with its own storage.
  bool is_stored(RegisterId reg) const {
    const HeldRegister& of = view_.reg(reg);
    return of.root == reg && !of.weight && !of.output && !of.loaded &&
           !values_.inner[of.maker];
  }
  bool has_gradient(RegisterId root) const {
    return is_stored(root) && view_.has_gradient(root) &&
           !view_.value(root).is_integer();
  }
  // Returns whether a gradient of it exists when backward begins.
  bool is_read_later(RegisterId reg) const {
    const InstructionId last = view_.reg(reg).last_read;
    return has_gradient(reg) && last && view_.segment(last) != segment_;
  }

  // Returns the bytes of a gradient that is unsharded for a moment, because its
  // weight is not used as it is stored. The same applies to kernels with merged
  // adapters, to both halves at once; older versions of PEFT made it in float32
  // as well, and scaled that.
  Int128 gathered_gradient(InstructionId i) const {
    Int128 most = 0;
    if (view_.merges(i) && mode_ != SavingMode::Least) {
      const RegisterId kernel = view_.at(i).operands[1];
      const int halves = view_.node(i).part == OpPart::MergedHalf ? 2 : 1;
      most = bytes(kernel) * halves;
      if (mode_ == SavingMode::Eager && !options_.runs_in_order) {
        most += 2 * halves * kFloatBytes * local_elements(view_, kernel);
      }
    }
    for (const RegisterId operand : view_.at(i).operands) {
      const HeldRegister& of = view_.root(operand);
      if (view_.computes(i) && of.weight && view_.has_gradient(operand) &&
          view_.at(of.maker).kind == Instruction::Kind::Collective) {
        most = std::max(most, nth(of.moment, mode_));
      }
    }
    return most;
  }

  // Walks backward and calls visit(instruction, bytes alive, registers,
  // gradients).
  template <typename Visit>
  void walk_back(Visit visit) const {
    AliveBytes registers;
    AliveBytes gradients;
    Int128 extra = 0;
    std::map<InstructionId, std::vector<RegisterId>> released;
    for (const RegisterId r : view_.registers.ids()) {
      const InstructionId need = values_.needed_by[r];
      if (!values_.alive[r] || !is_of_segment(r) || !need ||
          view_.segment(need) != segment_) {
        continue;
      }
      registers.add(r, bytes(r));
      released[need].push_back(r);
    }
    for (const InstructionId i : own_) {
      extra += values_.reads[i].extra.bytes;
      const RegisterId result = view_.at(i).result;
      if (is_read_later(result)) gradients.add(result, bytes(result));
    }
    for (size_t n = own_.size(); n-- > 0;) {
      const InstructionId i = own_[n];
      const RegisterId result = view_.at(i).result;
      const Int128 before = gradients.total;
      const Int128 second = largest_given(i, gradients);
      for (const RegisterId operand : values_.differentiates[i]) {
        const RegisterId root = view_.reg(operand).root;
        if (has_gradient(root)) gradients.add(root, moment(root));
      }
      Int128 here = gradients.total;
      // In elementwise operations, a gradient may overwrite the one that it is
      // computed from.
      const bool in_place = values_.reads[i].in_place ||
                            (mode_ == SavingMode::Least && view_.computes(i) &&
                             is_cheap(view_.op(i).recompute_cost));
      if (in_place && has_gradient(result)) {
        here = std::max(before, here - moment(result));
      }
      // Gradients from several readers exist side by side while they are added.
      if (mode_ == SavingMode::Eager) here += second;
      visit(i, here + registers.total + extra + gathered_gradient(i), registers,
            gradients);
      gradients.drop(result);
      extra -= values_.reads[i].extra.bytes;
      const auto over = released.find(i);
      if (over == released.end()) continue;
      for (const RegisterId reg : over->second) registers.drop(reg);
    }
  }

  // Returns the bytes of the largest second gradient of a value. When
  // operations run one by one, only a value that already has a gradient gets a
  // second one.
  Int128 largest_given(InstructionId i, const AliveBytes& gradients) const {
    Int128 most = 0;
    for (const RegisterId operand : values_.differentiates[i]) {
      const RegisterId root = view_.reg(operand).root;
      if (has_gradient(root) &&
          (!options_.runs_in_order || gradients.bytes.contains(root))) {
        most = std::max(most, bytes(root));
      }
    }
    return most;
  }

  const ProgramView& view_;
  const SavedValues& values_;
  const SegmentOptions& options_;
  const Remat& remat_;
  SavingMode figure_;
  SavingMode mode_ = mode_of(options_, figure_);
  int segment_;
  std::vector<InstructionId> own_;
  bool flows_ = false;  // some of them have gradients
};

// Replaces fields of `to` by those of `from` where they are more, or less.
void take(SegmentMemory& to, const SegmentMemory& from, bool more) {
  const auto worse = [more](Int128 a, Int128 b) {
    return more ? a < b : a > b;
  };
  if (worse(to.saved, from.saved)) {
    to.saved = from.saved;
    to.sliced = from.sliced;
    to.offloaded = from.offloaded;
    to.saved_by = from.saved_by;
  }
  if (worse(to.backward, from.backward)) {
    to.backward = from.backward;
    to.backward_by = from.backward_by;
    to.loss = from.loss;
  }
  if (worse(to.forward, from.forward)) to.forward = from.forward;
  if (worse(to.input, from.input)) to.input = from.input;
}

// Makes the modes ordered: one that happens to hold more than the next one is
// assumed to do what that one does.
void order_modes(Segment& segment) {
  auto& [least, fused, eager] = segment.memory;
  take(least, fused, false);
  take(eager, fused, true);
}

// Limits the least of every segment by that of others. REQUIRES: both are
// segments of one program.
void bound_least(std::vector<Segment>& segments,
                 const std::vector<Segment>& others) {
  for (size_t s = 0; s < segments.size(); ++s) {
    take(segments[s].memory.front(), others[s].memory.front(), false);
  }
}

// Finds the attention scores that are held.
void find_scores(const ProgramView& view, const SegmentOptions& options,
                 std::vector<Segment>& segments) {
  if (options.attention != AttentionKind::Scores) return;
  const Graph& graph = *view.program->graph;
  std::set<NodeId> scores;
  for (const Region& region : graph.regions) {
    if (region.weights) scores.insert(region.nodes.back());
  }
  for (const InstructionId i : view.instructions()) {
    const RegisterId result = view.at(i).result;
    if (!view.computes(i) || !scores.contains(view.at(i).node)) continue;
    Int128& most = nth(segments, view.segment(i)).scores;
    most = std::max(most, local_elements(view, result) * options.element_bytes);
  }
}

void find_casts(const ProgramView& view, std::vector<Segment>& segments) {
  std::set<RegisterId> cast;
  for (const InstructionId i : view.instructions()) {
    if (!view.computes(i) || !view.op(i).is_product || view.skips_cast(i)) {
      continue;
    }
    for (const RegisterId operand : view.at(i).operands) {
      if (view.reg(operand).weight && cast.insert(operand).second) {
        nth(segments, view.segment(i)).cast_weights +=
            local_elements(view, operand);
      }
    }
  }
}

void find_weights(const ProgramView& view, std::vector<Segment>& segments) {
  std::map<ValueId, RegisterId> stored;
  for (const InstructionId i : view.instructions()) {
    const HeldRegister& of = view.reg(view.at(i).result);
    if (view.at(i).kind == Instruction::Kind::Load && of.weight) {
      stored[of.value] = view.at(i).result;
    }
  }
  for (const InstructionId i : view.instructions()) {
    if (!view.computes(i) || view.is_layer(view.segment(i))) continue;
    Segment& segment = nth(segments, view.segment(i));
    for (const RegisterId operand : view.at(i).operands) {
      const auto found = stored.find(view.root(operand).value);
      if (found == stored.end()) continue;
      const Int128 numbers = local_elements(view, found->second);
      if (numbers <= segment.weight_numbers) continue;
      segment.weight = found->first;
      segment.weight_numbers = numbers;
      segment.trains_weight = view.has_gradient(found->second);
    }
  }
}

}  // namespace

Int128 loss_bytes(const SegmentOptions& options, Int128 elements,
                  SavingMode figure) {
  const LossCopies& copies = nth(options.loss, figure);
  const Int128 each =
      copies.own * options.element_bytes +
      copies.floats * std::max(options.element_bytes, kFloatBytes);
  return (elements * each + options.loss_tiles - 1) / options.loss_tiles;
}

Int128 logits_as(const Segment& segment, SegmentOptions options,
                 LossCopies copies) {
  const Int128 unit =
      loss_bytes(options, options.loss_tiles, SavingMode::Eager);
  if (unit == 0) return 0;
  const Int128 elements =
      segment.memory.back().loss * options.loss_tiles / unit;
  options.loss.back() = copies;
  return loss_bytes(options, elements, SavingMode::Eager);
}

std::vector<Segment> segments_of(const Program& program,
                                 const SegmentOptions& options,
                                 const Remat& remat) {
  const ProgramView view = view_of(program, options);
  std::vector<Segment> segments(view.layer_of_segment.size());
  for (const SavingMode figure : kFigures) {
    const SegmentOptions own = options.for_figure(figure);
    const SavedValues values =
        saved_values(view, own, remat, mode_of(options, figure));
    for (size_t s = 0; s < segments.size(); ++s) {
      nth(segments[s].memory, figure) =
          Sweep(view, values, own, remat, figure, static_cast<int>(s))
              .measure();
    }
  }
  find_scores(view, options, segments);
  if (options.autocast) find_casts(view, segments);
  find_weights(view, segments);
  for (size_t s = 0; s < segments.size(); ++s) {
    Segment& segment = segments[s];
    order_modes(segment);
    const int layer = view.layer_of_segment[s];
    segment.is_layer = layer >= 0;
    segment.label = segment.is_layer ? nth(program.graph->layers, layer).name
                    : s == 0         ? "before layers"
                    : s + 1 == segments.size() ? "behind layers"
                                               : "between layers";
  }
  if (options.adapter_bytes > options.element_bytes && !options.runs_in_order) {
    // The lower end converts nothing for adapters and draws masks again, with
    // fused kernels or without.
    SegmentOptions bare = options;
    bare.adapter_bytes = 0;
    bare.dropout = {};
    bound_least(segments, segments_of(program, bare, remat));
  }
  return segments;
}

StepLayers step_layers(const ForwardGraphs& model,
                       const RepeatedProgram& program,
                       const StepOptions& options, std::vector<Segment> plain) {
  const auto recomputed = [&](const SegmentOptions& segments,
                              const std::vector<Segment>& all_saved) {
    return options.remat.is_plain()
               ? all_saved
               : segments_of(program.program, segments, options.remat);
  };
  StepLayers layers;
  layers.plain = std::move(plain);
  layers.recomputed = recomputed(options.segments, layers.plain);
  // If a policy's values are gathered from parts, these may be saved in their
  // place.
  bound_least(layers.recomputed, layers.plain);
  if (options.segments.is_widened()) {
    const SegmentOptions wide = options.segments.widened();
    layers.wide_plain = segments_of(program.program, wide, {});
    layers.wide_recomputed = recomputed(wide, layers.wide_plain);
  }
  layers.cycle = program.cycle;
  layers.layers = model.layers;
  layers.frozen = model.frozen;
  layers.layer_of.reserve(model.place_of.size());
  for (const LayerPlace& place : model.place_of) {
    layers.layer_of.push_back(place.layer);
  }
  return layers;
}

}  // namespace shardplan
