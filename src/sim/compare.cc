// SPDX-License-Identifier: Apache-2.0
#include "sim/compare.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/checked.h"
#include "base/words.h"
#include "graph/elementwise.h"
#include "graph/graph.h"
#include "sim/execute.h"
#include "sim/locate.h"
#include "spmd/layout.h"

namespace shardplan {
namespace {

// Errors of doubles are 2^-29 times those of float32. A difference larger than
// this fraction of the float32 errors is not rounding. The exponent is about
// half of -29, so that chance decides neither way.
constexpr double kRoundingPart = 0x1p-14;

// Returns what devices hold of a value once its partial sums are added up.
DeviceTensors added_up(const Program& program, const Layout& layout,
                       const DeviceTensors& made, Arithmetic arithmetic) {
  const bool all_equal = std::ranges::all_of(
      made, [&](const Tensor& part) { return part.shape == made[0].shape; });
  if (layout.partial.empty() || !all_equal) return made;
  const Arithmetic exact =
      arithmetic == Arithmetic::Field ? Arithmetic::Field : Arithmetic::F64;
  DeviceTensors sums(made.size());
  for (const auto& group : device_groups(program.mesh, layout.partial)) {
    Tensor sum;
    for (const int device : group) {
      const Tensor part = converted(nth(made, device), Element::F64);
      if (sum.storage == nullptr) {
        sum = copy(part);
      } else if (layout.reduction == Reduction::Sum) {
        add_into(sum, part, exact);
      } else if (exact == Arithmetic::Field) {
        // In the field, a maximum is another operation (graph/elementwise.h).
        map_binary<double>(sum, part, sum, 1, field::maximum);
      } else {
        max_into(sum, part);
      }
    }
    for (const int device : group) nth(sums, device) = sum;
  }
  return sums;
}

// How to treat unequal numbers if one or both are not finite: as infinitely far
// apart, or not at all.
enum class NotFinite : uint8_t { Apart, PassedOver };

double largest_difference(const Tensor& expected, const Tensor& got,
                          NotFinite others) {
  const std::vector<double> y = values_of(expected);
  const std::vector<double> s = values_of(got);
  double worst = 0;
  for (size_t i = 0; i < y.size() && i < s.size(); ++i) {
    const double difference = std::abs(y[i] - s[i]);
    if (std::isfinite(difference)) {
      worst = std::max(worst, difference);
    } else if (others == NotFinite::Apart && y[i] != s[i] &&
               !(std::isnan(y[i]) && std::isnan(s[i]))) {
      return kInfinity;
    }
  }
  return worst;
}

double largest_difference(const Program& program, const Layout& layout,
                          const Tensor& whole, const DeviceTensors& made,
                          NotFinite others) {
  double worst = 0;
  for (size_t d = 0; d < made.size(); ++d) {
    const Tensor own =
        shard_of(program.mesh, layout, whole, static_cast<int64_t>(d));
    worst = std::max(worst, largest_difference(own, made[d], others));
  }
  return worst;
}

}  // namespace

void Comparison::look(const PairedRuns& runs, const Instruction& at,
                      const DeviceTensors& made) {
  if (whole_) return;
  const Register& of = program_.registers[at.result];
  const bool of_sum = !of.layout.partial.empty();
  if (of_sum && (sum_ || at.kind != Instruction::Kind::Compute)) return;
  const Tensor whole = whole_of(runs.unsharded, of.value);
  const Arithmetic arithmetic = runs.options.arithmetic;
  if (arithmetic != Arithmetic::Field && is_decision(program_, at)) {
    const GraphNode& node = program_.graph->nodes[at.node];
    auto wrong = wrong_choice(
        program_, at, whole_of(runs.unsharded, node.operands[0]), whole, made);
    if (wrong) candidates_.push_back({*std::move(wrong), false, kInfinity});
    return;
  }
  const Layout layout = of.layout.without_partial_sums();
  const DeviceTensors sums = added_up(program_, of.layout, made, arithmetic);
  auto parted =
      difference_of(program_, at.result, layout, sums, whole, arithmetic);
  if (!parted) return;
  const double size =
      arithmetic == Arithmetic::Field ||
              contains(program_.graph->outputs, of.value)
          ? kInfinity
          : largest_difference(program_, layout, whole, sums, NotFinite::Apart);
  candidates_.push_back({*std::move(parted), of_sum, size});
}

void Comparison::look_working(const PairedRuns& exact,
                              const PairedRuns& working, const Instruction& at,
                              const DeviceTensors& made) {
  const auto found = std::ranges::find_if(
      candidates_,
      [&](const Candidate& each) { return each.at.number == at.result; });
  if (found == candidates_.end() || std::isinf(found->size)) return;
  const Register& of = program_.registers[at.result];
  const Tensor whole = whole_of(exact.unsharded, of.value);
  const double error = std::max(
      largest_difference(whole, whole_of(working.unsharded, of.value),
                         NotFinite::PassedOver),
      largest_difference(
          program_, of.layout.without_partial_sums(), whole,
          added_up(program_, of.layout, made, working.options.arithmetic),
          NotFinite::PassedOver));
  if (found->size <= kRoundingPart * error) candidates_.erase(found);
}

void Comparison::end_phase() {
  for (Candidate& each : candidates_) {
    std::optional<Divergence>& place = each.of_sum ? sum_ : whole_;
    if (!place) place = std::move(each.at);
  }
  candidates_.clear();
}

}  // namespace shardplan
