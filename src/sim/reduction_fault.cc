// SPDX-License-Identifier: Apache-2.0
#include "sim/reduction_fault.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/words.h"
#include "graph/elementwise.h"
#include "sim/locate.h"
#include "spmd/layout.h"

namespace shardplan {
namespace {

// The most axes whose combinations are tried.
constexpr size_t kMostAxesTried = 6;

// The path of a value from the operation that computes it to a register: that
// operation, and the reductions since.
struct Path {
  const Instruction* computed = nullptr;
  std::vector<const Instruction*> reductions;  // first to last
};

std::optional<Path> path_to(const PairedRuns& runs, RegisterId number) {
  Path path;
  while (const InstructionId maker = runs.lives.maker[number]) {
    const Instruction& at = runs.program.instructions[maker];
    if (at.kind == Instruction::Kind::Compute) {
      if (at.overlap != Overlap::Off) return std::nullopt;
      path.computed = &at;
      std::ranges::reverse(path.reductions);
      return path;
    }
    if (at.kind == Instruction::Kind::Load) return std::nullopt;
    if (reduces(at)) path.reductions.push_back(&at);
    number = at.operands[0];
  }
  return std::nullopt;
}

class Explainer {
 public:
  Explainer(const PairedRuns& runs, const Path& path, DeviceTensors parts)
      : program_(runs.program),
        arithmetic_(runs.options.arithmetic),
        path_(path),
        parts_(std::move(parts)) {}

  // Explains the difference from `whole`. `operands` are the operation's,
  // whole.
  std::optional<ReductionFault> explain(
      const Tensor& whole, const std::vector<Tensor>& operands) const {
    if (const auto needed = needed_for(whole)) return fault_between(*needed);
    return added_by_all(whole, operands);
  }

 private:
  using Kind = ReducedBy;
  struct Applied {
    Kind kind = Kind::Sum;
    AxisNames axes;
  };

  double combined(Kind kind, double a, double b) const {
    if (kind != Kind::Max) return exact_ ? field::add(a, b) : a + b;
    return exact_ ? field::maximum(a, b) : std::max(a, b);
  }

  DeviceTensors reduced(const Applied& how) const {
    DeviceTensors result = parts_;
    if (how.axes.empty()) return result;
    for (const auto& group : device_groups(program_.mesh, how.axes)) {
      const Tensor& first = nth(parts_, group[0]);
      std::vector<double> all = values_of(first);
      for (size_t r = 1; r < group.size(); ++r) {
        const std::vector<double> own = values_of(nth(parts_, group[r]));
        for (size_t i = 0; i < all.size() && i < own.size(); ++i) {
          all[i] = combined(how.kind, all[i], own[i]);
        }
      }
      if (how.kind == Kind::Mean) {
        const auto count = static_cast<double>(group.size());
        const double inverse = field::inverse(count);
        for (double& number : all) {
          number = exact_ ? field::multiply(number, inverse) : number / count;
        }
      }
      const Tensor made = make_tensor(Element::F64, first.shape, all);
      for (const int device : group) nth(result, device) = made;
    }
    return result;
  }

  bool gives(const DeviceTensors& results, const Tensor& whole) const {
    return !difference_of(program_, path_.computed->result, layout_, results,
                          whole, arithmetic_);
  }

  // Returns combinations of axes that do not shard the value, small ones first.
  std::vector<AxisNames> choices_of_axes() const {
    AxisNames free;
    const AxisNames used = axes_in_use(layout_);
    for (const Axis& axis : program_.mesh.axes()) {
      if (axis.size > 1 && !contains(used, axis.name)) {
        free.push_back(axis.name);
      }
    }
    free.resize(std::min(free.size(), kMostAxesTried));
    std::vector<AxisNames> choices;
    for (unsigned set = 0; set < (1U << free.size()); ++set) {
      AxisNames& axes = choices.emplace_back();
      for (size_t a = 0; a < free.size(); ++a) {
        if ((set >> a & 1U) != 0) axes.push_back(free[a]);
      }
    }
    std::ranges::stable_sort(choices, {},
                             [](const AxisNames& axes) { return axes.size(); });
    return choices;
  }

  // Returns the reduction of the parts that gives the unsharded value.
  std::optional<Applied> needed_for(const Tensor& whole) const {
    for (const AxisNames& axes : choices_of_axes()) {
      for (const Kind kind : {Kind::Sum, Kind::Max, Kind::Mean}) {
        if (gives(reduced({kind, axes}), whole)) {
          return Applied{kind, axes};
        }
        if (axes.empty()) break;
      }
    }
    return std::nullopt;
  }

  std::vector<Applied> done() const {
    std::vector<Applied> all;
    for (const Instruction* at : path_.reductions) {
      all.push_back(
          {at->reduction == Reduction::Max ? Kind::Max : Kind::Sum, at->axes});
    }
    return all;
  }

  static AxisNames without(AxisNames axes, const AxisNames& others) {
    erase_if(axes,
             [&](const AxisName& axis) { return contains(others, axis); });
    return axes;
  }

  ReductionFault fault(ReductionFault::Problem problem, Kind kind,
                       const AxisNames& axes, Kind done_kind = Kind::Sum,
                       const AxisNames& done_axes = {}) const {
    const AxisNames ordered = in_mesh_order(program_.mesh, axes);
    return {.problem = problem,
            .kind = kind,
            .axes = ordered,
            .times = shard_count(program_.mesh, ordered),
            .done_kind = done_kind,
            .done_axes = in_mesh_order(program_.mesh, done_axes)};
  }

  // Returns the fault that turns what is needed into what is done; nothing if
  // they agree.
  std::optional<ReductionFault> fault_between(const Applied& needed) const {
    AxisNames once;
    AxisNames extra;
    AxisNames of_other_kind;
    Kind kind = needed.kind;
    for (const Applied& each : done()) {
      const bool differs = each.kind != needed.kind;
      if (differs || once.empty()) kind = each.kind;
      for (const AxisName& axis : each.axes) {
        if (differs) of_other_kind.push_back(axis);
        (contains(once, axis) ? extra : once).push_back(axis);
      }
    }
    const AxisNames missing = without(needed.axes, once);
    const AxisNames unneeded = without(once, needed.axes);
    extra.insert(extra.end(), unneeded.begin(), unneeded.end());
    using Problem = ReductionFault::Problem;
    if (!needed.axes.empty() && !of_other_kind.empty() && unneeded.empty()) {
      return fault(Problem::WrongKind, needed.kind,
                   needed.kind == Kind::Mean ? needed.axes : of_other_kind,
                   kind, of_other_kind);
    }
    if (!missing.empty() && !extra.empty()) {
      return fault(Problem::WrongAxes, needed.kind, needed.axes, kind, once);
    }
    if (!missing.empty()) return fault(Problem::Missing, needed.kind, missing);
    if (extra.empty()) return std::nullopt;
    return fault(Problem::Extra, kind, extra);
  }

  // Returns the fault of an addition with one operand that is whole on every
  // device, so that the sum contains it as often as there are devices.
  std::optional<ReductionFault> added_by_all(
      const Tensor& whole, const std::vector<Tensor>& operands) const {
    const auto applied = done();
    const GraphNode& node = program_.graph->nodes[path_.computed->node];
    if (applied.size() != 1 || applied[0].kind != Kind::Sum ||
        node.op->second_sign == 0) {
      return std::nullopt;
    }
    const DeviceTensors sum = reduced(applied[0]);
    auto found =
        fault(ReductionFault::Problem::AddedByAll, Kind::Sum, applied[0].axes);
    for (size_t o = 0; o < node.operands.size(); ++o) {
      const bool negative = o == 1 && node.op->second_sign < 0;
      if (!gives(sum,
                 with_more(whole, operands[o], found.times - 1, negative))) {
        continue;
      }
      found.operand = node.operands[o];
      return found;
    }
    return std::nullopt;
  }

  // Returns whole + times * added, or whole - times * added if `negative`.
  Tensor with_more(const Tensor& whole, const Tensor& added, int64_t times,
                   bool negative) const {
    std::vector<double> numbers = values_of(whole);
    const std::vector<double> more =
        values_of(broadcast_to(added, whole.shape));
    const auto factor = static_cast<double>(negative ? -times : times);
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] += factor * more[i];
      if (exact_) numbers[i] = field::residue(numbers[i]);
    }
    return make_tensor(Element::F64, whole.shape, numbers);
  }

  const Program& program_;
  Arithmetic arithmetic_;
  bool exact_ = arithmetic_ == Arithmetic::Field;
  const Path& path_;
  DeviceTensors parts_;
  Layout layout_ =
      program_.registers[path_.computed->result].layout.without_partial_sums();
};

}  // namespace

std::optional<ReductionFault> reduction_fault_of(
    PairedRuns& runs, RegisterId number,
    const std::function<bool(int phase)>& begin) {
  const Program& program = runs.program;
  const auto path = path_to(runs, number);
  if (!path) return std::nullopt;
  const GraphNode& node = program.graph->nodes[path->computed->node];
  DeviceTensors parts;
  std::vector<Tensor> operands;
  std::optional<ReductionFault> found;
  bool reached = false;
  const auto look = [&](const Instruction& at, DeviceTensors& made) {
    if (reached) return;
    const ValueId value = program.registers[at.result].value;
    // Choices are replayed, as in the run that is being explained.
    if (runs.options.arithmetic != Arithmetic::Field &&
        is_decision(program, at)) {
      replay(program, at, whole_of(runs.unsharded, value), made);
    }
    if (&at == path->computed) {
      for (const Tensor& part : made) parts.push_back(copy(part));
      for (const ValueId operand : node.operands) {
        operands.push_back(whole_of(runs.unsharded, operand));
      }
    }
    if (at.result != number) return;
    reached = true;
    if (parts.empty()) return;
    found = Explainer(runs, *path, std::move(parts))
                .explain(whole_of(runs.unsharded, value), operands);
  };
  for (int s = 0; s < runs.lives.phases && !reached; ++s) {
    if (begin && !begin(s)) break;
    advance_unsharded(runs, s);
    runs.sharded.advance(s, look);
    release_results(runs, s);
    release_values(runs.cache, s);
  }
  return found;
}

}  // namespace shardplan
