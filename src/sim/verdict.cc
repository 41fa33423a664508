// SPDX-License-Identifier: Apache-2.0
#include "sim/verdict.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/checked.h"
#include "base/words.h"
#include "graph/elementwise.h"
#include "graph/op.h"
#include "sim/execute.h"
#include "sim/locate.h"
#include "spmd/layout.h"

namespace shardplan {
namespace {

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

double difference(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double d = a - b;
  return std::isfinite(d) ? d : kInfinity;
}

// Returns the 2-norm, scaled by the largest number, since squares may underflow
// or overflow.
double norm(const std::vector<double>& numbers) {
  double largest = 0;
  for (const double x : numbers) largest = std::max(largest, std::abs(x));
  if (largest == 0 || !std::isfinite(largest)) return largest;
  double sum = 0;
  for (const double x : numbers) sum += (x / largest) * (x / largest);
  return largest * std::sqrt(sum);
}

double median(std::vector<double> numbers) {
  if (numbers.empty()) return 0;
  std::sort(numbers.begin(), numbers.end());
  const size_t middle = numbers.size() / 2;
  return numbers.size() % 2 == 1 ? numbers[middle]
                                 : (numbers[middle - 1] + numbers[middle]) / 2;
}

size_t row_width(const Tensor& tensor) {
  return tensor.shape.empty() ? 1 : to_size(tensor.shape.back());
}

std::vector<double> scales_of_rows(const std::vector<double>& y, size_t width) {
  std::vector<double> scales;
  for (size_t row = 0; row < y.size(); row += width) {
    std::vector<double> numbers;
    for (size_t i = row; i < row + width; ++i) {
      if (std::isfinite(y[i])) numbers.push_back(y[i]);
    }
    scales.push_back(norm(numbers));
  }
  const double typical = median(scales);
  for (double& scale : scales) scale = std::max(scale, typical);
  return scales;
}

bool all_finite(const std::vector<double>& numbers) {
  return std::ranges::all_of(numbers,
                             [](double x) { return std::isfinite(x); });
}

template <typename T>
void count(const T* numbers, int64_t n, int64_t step, NumberKinds& kinds) {
  // Nearly all numbers are finite: x - x is then 0, otherwise NaN. Several sums
  // run side by side, since the additions to a single one would wait for each
  // other.
  constexpr int64_t kLanes = 8;
  std::array<T, kLanes> rests{};
  bool any = false;
  for (int64_t i = 0; i < n; ++i) {
    const T x = numbers[i * step];
    rests[static_cast<size_t>(i % kLanes)] += x - x;
    any = any || x != 0;
  }
  kinds.all_zero = kinds.all_zero && !any;
  const T rest = std::accumulate(rests.begin(), rests.end(), T{0});
  if (!std::isnan(rest)) return;
  for (int64_t i = 0; i < n; ++i) {
    const T x = numbers[i * step];
    if (std::isnan(x)) {
      ++kinds.nan;
    } else if (std::isinf(x)) {
      ++(x > 0 ? kinds.infinite : kinds.minus_infinite);
    }
  }
}

// Returns whether the graph makes a result zero, whatever the values are: 0
// times x, or x minus its own sum or maximum over a single number (softmax).
bool is_zero_by_definition(const Graph& graph, const GraphNode& node) {
  if (node.op->is_multiple) return number_of(node.attributes, "by", 1) == 0;
  if (node.op->second_sign >= 0) return false;
  if (node.operands[0] == node.operands[1]) return true;
  const Value& less = graph.values[node.operands[1]];
  if (!less.node) return false;
  const GraphNode& by = graph.nodes[less.node];
  return by.op->is_reduction && by.operands[0] == node.operands[0] &&
         element_count(less.shape) ==
             element_count(graph.values[node.operands[0]].shape);
}

// Returns whether operands are tested one by one: those of operations that work
// element by element and may lose one, which are sums, maxima and functions
// that saturate.
bool may_lose_operands(const GraphNode& node) {
  return node.op->rule == elementwise_rule && !node.op->is_mask &&
         node.op->linearity != Linearity::Multilinear;
}

// Returns the operand that may be doubled without changing the result. In a
// sum, the result is then the same without it. In a maximum, either of two
// numbers wins often enough, so an operand counts as lost only if it is far
// smaller.
std::optional<size_t> lost_operand(const GraphNode& node,
                                   const std::vector<Tensor>& whole) {
  constexpr double kFar = 1024;
  const double factor = node.op->picks_operand ? kFar : 2;
  const RunContext context{Arithmetic::F64, &node.rule, {}, 1};
  std::vector<Tensor> operands(whole.begin(), whole.end() - 1);
  for (size_t lost = 0; lost < operands.size(); ++lost) {
    const Tensor plain = operands[lost];
    const Tensor more = make_unfilled(plain.element, plain.shape);
    map_unary<double>(plain, more, 1,
                      [factor](double x) { return factor * x; });
    operands[lost] = more;
    const Tensor other = node.op->run(operands, node.attributes, context);
    if (structural_error(whole.back(), other) <= kMismatch) return lost;
    operands[lost] = plain;
  }
  return std::nullopt;
}

// Returns whether a device's part of a sum changes some row of it.
bool is_seen(const Tensor& part, const Tensor& sum) {
  const std::vector<double> scales = row_scales(sum);
  const std::vector<double> numbers = values_of(part);
  if (scales.empty() || numbers.size() % scales.size() != 0) return false;
  const size_t width = numbers.size() / scales.size();
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (std::abs(numbers[i]) > kMismatch * scales[i / width]) return true;
  }
  return false;
}

// Returns whether shards of few integers may be equal by chance.
bool may_be_equal(const Value& value, const Tensor& shard) {
  constexpr double kBits = 20;
  return value.is_integer() &&
         (value.integers_below == 0 ||
          static_cast<double>(shard.elements()) *
                  std::log2(static_cast<double>(value.integers_below)) <
              kBits);
}

// Returns the axes over which an operation reduces, even if its result is not
// going to be reduced over them: under shard_map, the reduction may be missing.
AxisNames reduced_axes(const Program& program, const Instruction& at) {
  const Layout& layout = program.registers[at.result].layout;
  AxisNames axes = layout.partial;
  const auto& factors = program.graph->nodes[at.node].rule.factors;
  for (size_t f = 0; f < factors.size() && f < at.factor_axes.size(); ++f) {
    if (factors[f].kind != FactorKind::Sum &&
        factors[f].kind != FactorKind::Max) {
      continue;
    }
    for (const AxisName& axis : at.factor_axes[f]) {
      if (program.mesh.size_of(axis) > 1 && !contains(axes, axis)) {
        axes.push_back(axis);
      }
    }
  }
  return in_mesh_order(program.mesh, axes);
}

// Returns whether a device's part of a maximum is less than the maximum.
bool is_less(const Tensor& part, const Tensor& whole) {
  return part.shape != whole.shape || structural_error(whole, part) > kMismatch;
}

}  // namespace

std::vector<double> row_scales(const Tensor& y64) {
  return scales_of_rows(values_of(y64), row_width(y64));
}

double structural_error(const Tensor& y64, const Tensor& s64) {
  const std::vector<double> y = values_of(y64);
  const std::vector<double> s = values_of(s64);
  const size_t width = row_width(y64);
  const std::vector<double> scales = scales_of_rows(y, width);
  double worst = 0;
  for (size_t r = 0; r < scales.size(); ++r) {
    std::vector<double> differences;
    for (size_t i = r * width; i < (r + 1) * width; ++i) {
      differences.push_back(difference(s[i], y[i]));
    }
    const double error = norm(differences);
    if (error == 0) continue;
    worst = std::max(worst, scales[r] > 0 ? error / scales[r] : kInfinity);
  }
  return worst;
}

double structural_error(std::span<const Tensor> y64,
                        std::span<const Tensor> s64) {
  double worst = 0;
  for (size_t i = 0; i < y64.size(); ++i) {
    worst = std::max(worst, structural_error(y64[i], s64[i]));
  }
  return worst;
}

double error_amplification(std::span<const Tensor> y64,
                           std::span<const Tensor> u,
                           std::span<const Tensor> s) {
  double sharded = 0;
  double unsharded = 0;
  for (size_t i = 0; i < y64.size(); ++i) {
    const std::vector<double> exact = values_of(y64[i]);
    const std::vector<double> plain = values_of(u[i]);
    const std::vector<double> parts = values_of(s[i]);
    if (!all_finite(exact) || !all_finite(plain) || !all_finite(parts)) {
      return kNoNumber;
    }
    for (size_t k = 0; k < exact.size(); ++k) {
      const double ds = difference(parts[k], exact[k]);
      const double du = difference(plain[k], exact[k]);
      sharded += ds * ds;
      unsharded += du * du;
    }
  }
  if (sharded == unsharded) return 1;
  return std::sqrt(sharded / unsharded);
}

double relative_error(const Tensor& y64, const Tensor& x) {
  const std::vector<double> exact = values_of(y64);
  std::vector<double> differences = values_of(x);
  if (!all_finite(exact) || !all_finite(differences)) return kNoNumber;
  for (size_t i = 0; i < exact.size(); ++i) {
    differences[i] = difference(differences[i], exact[i]);
  }
  const double error = norm(differences);
  return error == 0 ? 0 : error / norm(exact);
}

std::optional<double> gamma(int64_t n, double unit_roundoff) {
  const double nu = static_cast<double>(n) * unit_roundoff;
  if (nu >= 1) return std::nullopt;
  return nu / (1 - nu);
}

std::optional<double> bound_ratio(const Tensor& y64, const Tensor& s,
                                  const Tensor& products,
                                  const Tensor& partials, int64_t length,
                                  int64_t shards, Storage reduce,
                                  Storage storage) {
  const std::optional<double> in_product =
      gamma(length, unit_roundoff(Storage::F32));
  const std::optional<double> in_sum = gamma(shards, unit_roundoff(reduce));
  if (!in_product || !in_sum) return std::nullopt;
  const std::vector<double> exact = values_of(y64);
  const std::vector<double> got = values_of(s);
  const std::vector<double> ab = values_of(products);
  const std::vector<double> p = values_of(partials);
  if (!all_finite(exact) || !all_finite(got) || !all_finite(ab) ||
      !all_finite(p)) {
    return std::nullopt;
  }
  // Sums of numbers of one type do not underflow; terms and the result do.
  const double underflow =
      static_cast<double>(length) * underflow_unit(Storage::F32) +
      static_cast<double>(shards) * underflow_unit(reduce) +
      underflow_unit(storage);
  double worst = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    const double error = std::abs(difference(got[i], exact[i]));
    if (error == 0) continue;
    double bound = *in_product * ab[i] + *in_sum * p[i] +
                   unit_roundoff(storage) * std::abs(exact[i]);
    if (ab[i] > 0) bound += underflow;
    worst = std::max(worst, bound > 0 ? error / bound : kInfinity);
  }
  return worst;
}

NumberKinds kinds_of(const Tensor& tensor) {
  NumberKinds kinds;
  kinds.elements = tensor.elements();
  kinds.all_zero = kinds.elements > 0;
  const auto walk = [&](auto type) {
    using T = typename decltype(type)::type;
    for_each_row<1>(tensor.shape, std::array<Strides, 1>{tensor.strides},
                    [&](int64_t n, const std::array<int64_t, 1>& offsets,
                        const std::array<int64_t, 1>& steps) {
                      count(tensor.data<T>() + offsets[0], n, steps[0], kinds);
                    });
  };
  if (tensor.element == Element::F32) {
    walk(std::type_identity<float>{});
  } else {
    walk(std::type_identity<double>{});
  }
  return kinds;
}

std::optional<NonFinite> non_finite_of(const NumberKinds& kinds, ValueId value,
                                       int64_t device, bool masked) {
  const int64_t minus = masked ? 0 : kinds.minus_infinite;
  const int64_t count = kinds.nan + kinds.infinite + minus;
  if (count == 0) return std::nullopt;
  const double worst = kinds.nan > 0        ? kNoNumber
                       : kinds.infinite > 0 ? kInfinity
                                            : -kInfinity;
  return NonFinite{value, device, count, kinds.elements, worst};
}

bool passes_mask(const GraphNode& node, const PerValue<bool>& masked) {
  return node.op->is_mask || std::ranges::any_of(node.operands, [&](ValueId v) {
           return masked[v];
         });
}

std::optional<Unseen> unseen_in_node(const Graph& graph, NodeId n,
                                     const std::vector<Tensor>& whole,
                                     const std::vector<NumberKinds>& kinds) {
  const GraphNode& node = graph.nodes[n];
  if (graph.values[node.result].is_integer()) return std::nullopt;
  bool zero_operand = false;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    zero_operand =
        zero_operand ||
        (kinds[i].all_zero && !graph.values[node.operands[i]].is_integer());
  }
  // Consequences of zeros were found where the zeros are.
  if (zero_operand || is_zero_by_definition(graph, node)) return std::nullopt;
  if (kinds.back().all_zero) {
    return Unseen{Unseen::Kind::ZeroResult, node.result};
  }
  if (!may_lose_operands(node) || kinds.back().elements == 0) {
    return std::nullopt;
  }
  const auto lost = lost_operand(node, whole);
  if (!lost) return std::nullopt;
  const bool is_sum = node.op->second_sign != 0;
  return Unseen{is_sum ? Unseen::Kind::LostTerm : Unseen::Kind::LostOperand,
                node.result, node.operands[*lost]};
}

bool reads_unused_experts(const GraphNode& node,
                          const std::map<ValueId, std::vector<bool>>& used) {
  if (!node.op->is_slice) return false;
  const auto sent = used.find(node.operands[0]);
  if (sent == used.end() || number_of(node.attributes, "dim", 0) != 0) {
    return false;
  }
  const auto experts = static_cast<double>(sent->second.size());
  const double end = number_of(node.attributes, "end", experts);
  for (double e = number_of(node.attributes, "begin", 0); e < end; ++e) {
    if (e < 0 || e >= experts || nth(sent->second, static_cast<int64_t>(e))) {
      return false;
    }
  }
  return true;
}

std::optional<Unseen> unseen_parts(const Program& program,
                                   const Instruction& at,
                                   const DeviceTensors& made,
                                   const Tensor& whole) {
  if (at.kind != Instruction::Kind::Compute || at.overlap != Overlap::Off ||
      whole.elements() == 0) {
    return std::nullopt;
  }
  const Register& result = program.registers[at.result];
  const AxisNames axes = reduced_axes(program, at);
  if (axes.empty()) return std::nullopt;
  // Rows that are selected by index come from one device each, and zeros from
  // the others.
  if (program.graph->nodes[at.node].op->indices != nullptr &&
      !kinds_of(whole).all_zero) {
    return std::nullopt;
  }
  // Parts that are only passed on were examined where they were computed.
  for (const RegisterId number : at.operands) {
    if (!program.registers[number].layout.partial.empty()) return std::nullopt;
  }
  const Unseen unseen{Unseen::Kind::LostParts, result.value, {}, axes};
  if (axes != in_mesh_order(program.mesh, result.layout.partial)) {
    // If all devices already have the whole, nothing shows that a reduction is
    // missing; otherwise the comparison does.
    return result.layout.partial.empty() &&
                   !difference_of(program, at.result, result.layout, made,
                                  whole, Arithmetic::F64)
               ? std::optional(unseen)
               : std::nullopt;
  }
  const bool is_sum = result.layout.reduction == Reduction::Sum;
  for (const auto& group : device_groups(program.mesh, axes)) {
    int seen = 0;
    for (const int device : group) {
      const Tensor all = shard_of(program.mesh, result.layout, whole, device);
      const Tensor& part = nth(made, device);
      seen += is_sum ? is_seen(part, all) : is_less(part, all);
      if (seen > (is_sum ? 1 : 0)) return std::nullopt;
    }
  }
  return unseen;
}

std::optional<Unseen> unseen_shards(const Program& program,
                                    const Instruction& at,
                                    const DeviceTensors& made) {
  const Register& result = program.registers[at.result];
  const Value& value = program.graph->values[result.value];
  const bool loads = at.kind == Instruction::Kind::Load;
  // Results may be equal by their nature, such as those of one row for all
  // tokens.
  if (value.kind == Value::Kind::Result ||
      (!loads && at.kind != Instruction::Kind::Slice) ||
      !result.layout.partial.empty() || made[0].elements() == 0 ||
      may_be_equal(value, made[0])) {
    return std::nullopt;
  }
  AxisNames equal;
  for (const AxisName& axis : loads ? axes_in_use(result.layout) : at.axes) {
    const auto is_equal = [&](const std::vector<int>& group) {
      return std::ranges::all_of(group, [&](int device) {
        return bitwise_equal(nth(made, group[0]), nth(made, device));
      });
    };
    if (std::ranges::all_of(device_groups(program.mesh, {axis}), is_equal)) {
      equal.push_back(axis);
    }
  }
  if (equal.empty()) return std::nullopt;
  return Unseen{Unseen::Kind::EqualShards, result.value, {}, equal};
}

}  // namespace shardplan
