// SPDX-License-Identifier: Apache-2.0
#include "sim/decisions.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "sim/execute.h"
#include "sim/verdict.h"

namespace shardplan {
namespace {

const GraphNode& node_of(const Program& program, const Instruction& at) {
  return program.graph->nodes[static_cast<size_t>(at.node)];
}

// Rows of scores, of which every entry chooses one.
struct Scores {
  std::vector<double> numbers;
  std::vector<double> scales;  // per row
  int64_t width = 0;

  // As structural_error() sees it, of two scores of a row; NaN where an index
  // names none.
  double gap(size_t row, double a, double b) const {
    const auto count = static_cast<double>(width);
    if (!(a >= 0 && a < count && b >= 0 && b < count)) {
      return std::nan("");
    }
    const double x = at(row, a);
    const double y = at(row, b);
    if (x == y || (std::isnan(x) && std::isnan(y))) return 0;
    const double d = std::abs(x - y) / scales[row];
    return std::isfinite(d) ? d : kInfinity;
  }
  double at(size_t row, double index) const {
    return numbers[row * static_cast<size_t>(width) +
                   static_cast<size_t>(index)];
  }
};

// The rows of a device, whole along the last dimension.
Scores scores_of(const Program& program, const Layout& layout,
                 const Tensor& scores, int64_t device) {
  Layout rows = layout;
  rows.spec.dims.back().clear();
  const int64_t width = scores.shape.back();
  Shape per_row = scores.shape;
  per_row.back() = 1;
  const Tensor scales = make_tensor(Element::F64, per_row, row_scales(scores));
  return {values_of(shard_of(program.mesh, rows, scores, device)),
          values_of(shard_of(program.mesh, rows, scales, device)), width};
}

}  // namespace

bool is_decision(const Program& program, const Instruction& instruction) {
  return instruction.kind == Instruction::Kind::Compute &&
         node_of(program, instruction).op->is_decision;
}

std::optional<Divergence> wrong_choice(const Program& program,
                                       const Instruction& instruction,
                                       const Tensor& scores,
                                       const Tensor& recorded,
                                       const DeviceTensors& made) {
  const Register& result =
      program.registers[static_cast<size_t>(instruction.result)];
  const bool by_index = node_of(program, instruction).op->name == "top_k";
  for (size_t d = 0; d < made.size(); ++d) {
    const auto device = static_cast<int64_t>(d);
    Divergence found{result.value, device, kInfinity, false};
    const Tensor part = shard_of(program.mesh, result.layout, recorded, device);
    if (part.shape != made[d].shape) return found;
    const std::vector<double> taken = values_of(part);
    const std::vector<double> own = values_of(made[d]);
    if (own == taken) continue;
    if (!by_index) return found;
    const Scores of = scores_of(program, result.layout, scores, device);
    const auto choices = static_cast<size_t>(part.shape.back());
    for (size_t i = 0; i < own.size(); ++i) {
      if (own[i] == taken[i]) continue;
      const double gap = of.gap(i / choices, own[i], taken[i]);
      if (gap <= kTie) continue;
      found.error = std::isnan(gap) ? kInfinity : gap;
      found.choice = OtherChoice{static_cast<int64_t>(own[i]),
                                 static_cast<int64_t>(taken[i])};
      return found;
    }
  }
  return std::nullopt;
}

int64_t replay(const Program& program, const Instruction& instruction,
               const Tensor& recorded, DeviceTensors& made) {
  const Layout& layout =
      program.registers[static_cast<size_t>(instruction.result)].layout;
  const Tensor choice = converted(recorded, made[0].element);
  const auto part_of = [&](const Tensor& whole, size_t device) {
    return shard_of(program.mesh, layout, whole, static_cast<int64_t>(device));
  };
  for (size_t device = 0; device < made.size(); ++device) {
    if (part_of(choice, device).shape != made[device].shape) return 0;
  }
  // 1 where some device would have chosen otherwise: replicas may differ.
  const Tensor turned = make_tensor(Element::F64, recorded.shape);
  for (size_t device = 0; device < made.size(); ++device) {
    const Tensor part = part_of(choice, device);
    const std::vector<double> taken = values_of(part);
    std::vector<double> own = values_of(made[device]);
    for (size_t i = 0; i < own.size(); ++i) own[i] = own[i] != taken[i] ? 1 : 0;
    max_into(part_of(turned, device),
             make_tensor(Element::F64, part.shape, own));
    made[device] = part;
  }
  const std::vector<double> all = values_of(turned);
  return static_cast<int64_t>(std::count(all.begin(), all.end(), 1.0));
}

}  // namespace shardplan
