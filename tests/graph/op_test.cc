// SPDX-License-Identifier: Apache-2.0
#include "graph/op.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/checked.h"
#include "graph/elementwise.h"
#include "tests/support/messages.h"
#include "tests/support/op_samples.h"

namespace shardplan {
namespace {

TEST_CASE("attributes: given ones are found, others take the default") {
  const Attributes attributes = {{"axis", -1.0},
                                 {"equation", std::string("ij,jk->ik")},
                                 {"shape", std::vector<int64_t>{2, 3}}};
  CHECK(number_of(attributes, "axis", 7) == -1);
  CHECK(number_of(attributes, "scale", 7) == 7);
  CHECK(text_of(attributes, "equation", "") == "ij,jk->ik");
  CHECK(text_of(attributes, "kind", "silu") == "silu");
  const std::span<const int64_t> shape = integers_of(attributes, "shape");
  CHECK(std::vector<int64_t>(shape.begin(), shape.end()) ==
        std::vector<int64_t>{2, 3});
  CHECK(integers_of(attributes, "order").empty());
}

TEST_CASE("attributes: one of another kind is a bug of ours") {
  const Attributes attributes = {{"axis", -1.0}};
  CHECK_THROWS_AS(text_of(attributes, "axis", ""), InternalError);
}

// What holds for every operation, on the samples of tests/support/op_samples.h:
// sharded as its rule allows, it gives the same result.

using testing::fitted;
using testing::Fitted;
using testing::kArithmetics;
using testing::op_samples;
using testing::OpSample;

// Into how many parts every factor is cut.
using Counts = std::vector<int64_t>;

// A dimension is cut into blocks of neighbours: a factor may be cut only where
// those more major in the same dimension are cut into single indices.
bool gives_blocks(const std::vector<DimFactors>& dims, const ShardingRule& rule,
                  const Counts& counts) {
  for (const DimFactors& dim : dims) {
    bool single = true;
    for (const int factor : dim) {
      const auto at = static_cast<size_t>(factor);
      if (counts[at] > 1 && !single) return false;
      single = single && counts[at] == rule.factors[at].size;
    }
  }
  return true;
}

bool is_legal(const ShardingRule& rule, const Counts& counts) {
  for (const auto& dims : rule.operands) {
    if (!gives_blocks(dims, rule, counts)) return false;
  }
  return gives_blocks(rule.result, rule, counts);
}

// Every legal way to cut one factor or two into 2 or 3 parts.
std::vector<Counts> legal_counts(const ShardingRule& rule) {
  std::set<Counts> found;
  const size_t n = rule.factors.size();
  const auto cuts = [&](size_t factor, int64_t parts) {
    const Factor& of = rule.factors[factor];
    return of.kind != FactorKind::Whole && of.size > 0 && of.size % parts == 0;
  };
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      for (const int64_t parts : {2, 3}) {
        for (const int64_t others : {1, 2, 3}) {
          if (!cuts(i, parts) || !cuts(j, others) || (i == j && others != 1)) {
            continue;
          }
          Counts counts(n, 1);
          counts[j] = others;
          counts[i] = parts;
          if (is_legal(rule, counts)) found.insert(std::move(counts));
        }
      }
    }
  }
  return {found.begin(), found.end()};
}

// The part of one device.
LocalRange range_at(const ShardingRule& rule, const Counts& counts,
                    int64_t device) {
  LocalRange range;
  for (size_t i = 0; i < counts.size(); ++i) {
    range.sizes.push_back(rule.factors[i].size / counts[i]);
    range.offsets.push_back(device % counts[i] * range.sizes.back());
    device /= counts[i];
  }
  return range;
}

Tensor part_of(const Tensor& whole, const std::vector<DimFactors>& dims,
               const RunContext& context) {
  Tensor part = whole;
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    if (dims[dim].empty()) continue;
    const DimRange range = range_of(dims[dim], context);
    part = slice(part, static_cast<int>(dim), range.begin,
                 range.begin + range.size);
  }
  return part;
}

bool is_maximum(const ShardingRule& rule, const Counts& counts) {
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 1 && rule.factors[i].kind == FactorKind::Max) return true;
  }
  return false;
}

// Runs every device's part and puts the results together.
Tensor sharded(const Fitted& fit, const std::vector<Tensor>& operands,
               const Counts& counts, Arithmetic arithmetic) {
  const bool maximum = is_maximum(fit.rule, counts);
  const bool exact = arithmetic == Arithmetic::Field;
  const double least =
      exact ? field::maximum_of(0) : -std::numeric_limits<double>::infinity();
  std::vector<double> start(static_cast<size_t>(*element_count(fit.result)),
                            maximum ? least : 0.0);
  const Tensor result = make_tensor(element_of(arithmetic), fit.result, start);
  int64_t devices = 1;
  for (const int64_t count : counts) devices *= count;
  for (int64_t device = 0; device < devices; ++device) {
    RunContext context;
    context.arithmetic = arithmetic;
    context.rule = &fit.rule;
    context.range = range_at(fit.rule, counts, device);
    std::vector<Tensor> parts;
    std::vector<Shape> shapes;
    for (size_t i = 0; i < operands.size(); ++i) {
      parts.push_back(part_of(operands[i], fit.rule.operands[i], context));
      shapes.push_back(parts.back().shape);
    }
    const Tensor part = fit.op->run(parts, fit.attributes, context);
    const Tensor place = part_of(result, fit.rule.result, context);
    REQUIRE(part.shape == place.shape);
    REQUIRE(fit.op->flops(shapes, part.shape, fit.attributes) >= 0);
    if (!maximum) {
      add_into(place, part, arithmetic);
    } else if (!exact) {
      max_into(place, part);
    } else {
      map_binary<double>(place, part, place, 1, field::maximum);
    }
  }
  return result;
}

// Equal, or as near as sums in another order are.
bool near(const Tensor& a, const Tensor& b, Arithmetic arithmetic) {
  if (arithmetic == Arithmetic::Field) return bitwise_equal(a, b);
  const double tolerance = arithmetic == Arithmetic::F32 ? 1e-5 : 1e-14;
  const std::vector<double> x = values_of(a);
  const std::vector<double> y = values_of(b);
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i]) continue;  // infinities, too
    if (!(std::abs(x[i] - y[i]) <= tolerance * (10 + std::abs(y[i])))) {
      return false;
    }
  }
  return a.shape == b.shape;
}

std::string text_of_counts(const Counts& counts) {
  std::string text;
  for (const int64_t count : counts) text += std::to_string(count) + " ";
  return text;
}

TEST_CASE("every operation has a sample, a name and a summary of its own") {
  std::set<std::string> sampled;
  for (const OpSample& sample : op_samples()) sampled.insert(sample.op);
  std::set<std::string_view> seen;
  for (const OpDef& op : ops()) {
    CAPTURE(op.name);
    CHECK(sampled.count(std::string(op.name)) == 1);
    CHECK(seen.insert(op.name).second);
    CHECK(seen.insert(op.summary).second);
    CHECK_FALSE(op.factors.empty());
    CHECK(op.min_operands >= 1);
    CHECK(op.max_operands >= op.min_operands);
    CHECK(find_op(op.name) == &op);
    for (const AttributeDef& attribute : op.attributes) {
      CHECK_FALSE(attribute.summary.empty());
    }
  }
  CHECK(find_op("matmul") == nullptr);
}

TEST_CASE("every row of operations says all that there is to say") {
  for (const OpDef& op : ops()) {
    CAPTURE(op.name);
    CHECK((op.infer != nullptr));
    CHECK((op.rule != nullptr));
    CHECK((op.flops != nullptr));
    CHECK((op.run != nullptr));
    CHECK(op.recompute_cost != RecomputeCost::Unset);
    CHECK(op.gradient.operands != ReadOperands::Unset);
    for (const int operand : op.gradient.only) {
      CHECK(operand < op.max_operands);
    }
    const bool is_view = op.recompute_cost == RecomputeCost::View;
    const bool reads =
        op.gradient.operands != ReadOperands::None || op.gradient.result;
    CHECK_FALSE((is_view && reads));
    CHECK((is_view || !op.shares_storage));
    // What is linear in one operand at a time is so by the others' numbers.
    const bool multiplies = op.linearity == Linearity::Multilinear;
    CHECK((!multiplies || op.gradient.operands != ReadOperands::None));
    CHECK((!op.is_constraint || op.shares_storage));
    CHECK((!op.chooses_indices || op.is_decision));
  }
}

TEST_CASE("an operation that may give its operand's storage says so") {
  for (const OpSample& sample : op_samples()) {
    const OpDef& op = *find_op(sample.op);
    CAPTURE(op.name);
    const auto operands = sample.make(Arithmetic::F64, 1);
    const Tensor result =
        testing::run(sample.op, operands, sample.attributes, Arithmetic::F64);
    const bool shares = result.storage == operands.front().storage;
    CHECK((op.shares_storage || !shares));
  }
}

TEST_CASE("a rule's factors make up the dimensions of every tensor") {
  for (const OpSample& sample : op_samples()) {
    const Fitted fit = fitted(sample.op, sample.operands, sample.attributes);
    CAPTURE(sample.op);
    RunContext whole;
    whole.rule = &fit.rule;
    const auto check = [&](const Shape& shape,
                           const std::vector<DimFactors>& dims) {
      REQUIRE(dims.size() == shape.size());
      std::set<int> seen;
      for (size_t dim = 0; dim < dims.size(); ++dim) {
        CHECK(range_of(dims[dim], whole).size == shape[dim]);
        for (const int factor : dims[dim]) CHECK(seen.insert(factor).second);
      }
    };
    REQUIRE(fit.rule.operands.size() == sample.operands.size());
    for (size_t i = 0; i < sample.operands.size(); ++i) {
      check(sample.operands[i], fit.rule.operands[i]);
    }
    check(fit.result, fit.rule.result);
  }
}

TEST_CASE("a factor that may be sharded stands where its kind says") {
  for (const OpSample& sample : op_samples()) {
    const Fitted fit = fitted(sample.op, sample.operands, sample.attributes);
    CAPTURE(sample.op);
    std::set<int> in_result;
    for (const DimFactors& dim : fit.rule.result) {
      in_result.insert(dim.begin(), dim.end());
    }
    for (size_t i = 0; i < fit.rule.factors.size(); ++i) {
      const FactorKind kind = fit.rule.factors[i].kind;
      const bool kept = in_result.count(static_cast<int>(i)) == 1;
      if (kind == FactorKind::Pass) CHECK(kept);
      if (kind == FactorKind::Sum || kind == FactorKind::Max) CHECK(!kept);
    }
  }
}

TEST_CASE("sharded as the rule allows, every operation gives the same") {
  for (const OpSample& sample : op_samples()) {
    const Fitted fit = fitted(sample.op, sample.operands, sample.attributes);
    CAPTURE(sample.op);
    const std::vector<Counts> all = legal_counts(fit.rule);
    CHECK_FALSE(all.empty());
    for (const Arithmetic arithmetic : kArithmetics) {
      const std::vector<Tensor> operands = sample.make(arithmetic, 1);
      const Tensor whole =
          testing::run(sample.op, operands, sample.attributes, arithmetic);
      REQUIRE(whole.shape == fit.result);
      for (const Counts& counts : all) {
        CAPTURE(text_of_counts(counts));
        CHECK(near(sharded(fit, operands, counts, arithmetic), whole,
                   arithmetic));
      }
    }
  }
}

// A view of the same numbers whose elements do not lie row-major: dimensions
// lie in reverse order, every second element between them being unused.
Tensor scattered(const Tensor& tensor) {
  const auto rank = static_cast<int>(tensor.shape.size());
  Shape shape(tensor.shape.rbegin(), tensor.shape.rend());
  shape.push_back(2);
  std::vector<int> order;
  for (int dim = rank; dim-- > 0;) order.push_back(dim);
  order.push_back(rank);
  const Tensor spread = slice(make_tensor(tensor.element, shape), rank, 0, 1);
  const Tensor view = reshaped(permuted(spread, order), tensor.shape);
  copy_into(view, tensor);
  return view;
}

TEST_CASE("operands need not be row-major") {
  for (const OpSample& sample : op_samples()) {
    CAPTURE(sample.op);
    for (const Arithmetic arithmetic : kArithmetics) {
      const std::vector<Tensor> operands = sample.make(arithmetic, 2);
      std::vector<Tensor> views;
      for (const Tensor& operand : operands) {
        views.push_back(scattered(operand));
        REQUIRE(bitwise_equal(views.back(), operand));
      }
      CHECK(
          near(testing::run(sample.op, views, sample.attributes, arithmetic),
               testing::run(sample.op, operands, sample.attributes, arithmetic),
               arithmetic));
    }
  }
}

TEST_CASE("what is declared additive or multilinear is so, in the field") {
  const auto sum = [](const Tensor& a, const Tensor& b) {
    Tensor result = copy(a);
    add_into(result, b, Arithmetic::Field);
    return result;
  };
  for (const OpSample& sample : op_samples()) {
    CAPTURE(sample.op);
    const Linearity linearity = find_op(sample.op)->linearity;
    const auto value = [&](const std::vector<Tensor>& operands) {
      return testing::run(sample.op, operands, sample.attributes,
                          Arithmetic::Field);
    };
    const std::vector<Tensor> x = sample.make(Arithmetic::Field, 3);
    const std::vector<Tensor> y = sample.make(Arithmetic::Field, 4);
    std::vector<Tensor> all = x;
    for (size_t i = 0; i < x.size(); ++i) all[i] = sum(x[i], y[i]);
    if (linearity == Linearity::Additive) {
      CHECK(bitwise_equal(value(all), sum(value(x), value(y))));
    } else if (linearity == Linearity::Multilinear) {
      for (size_t i = 0; i < x.size(); ++i) {
        if (!is_linear_in(*find_op(sample.op), static_cast<int>(i))) continue;
        std::vector<Tensor> one = x;
        std::vector<Tensor> both = x;
        one[i] = y[i];
        both[i] = all[i];
        CHECK(bitwise_equal(value(both), sum(value(x), value(one))));
      }
    }
  }
}

TEST_CASE("operations that keep partial sums are known by name") {
  std::set<std::string> additive;
  std::set<std::string> multilinear;
  for (const OpDef& op : ops()) {
    if (op.linearity == Linearity::Additive) additive.emplace(op.name);
    if (op.linearity == Linearity::Multilinear) multilinear.emplace(op.name);
  }
  CHECK(additive == std::set<std::string>{
                        "add", "concatenate", "expand", "mean", "negate",
                        "position_scale", "relative_bias", "reshape", "rope",
                        "scale", "slice", "subtract", "sum", "transpose"});
  CHECK(multilinear == std::set<std::string>{
                           "causal_convolution", "combine", "delta_recurrence",
                           "dispatch", "einsum", "last_token",
                           "linear_recurrence", "multiply", "take"});
  const auto linear = [](std::string_view name) {
    std::vector<int> operands;
    for (int i = 0; i < 4; ++i) {
      if (is_linear_in(*find_op(name), i)) operands.push_back(i);
    }
    return operands;
  };
  CHECK(linear("take") == std::vector<int>{0});
  CHECK(linear("dispatch") == std::vector<int>{0});
  CHECK(linear("combine") == std::vector<int>{0, 2});
  CHECK(linear("linear_recurrence") == std::vector<int>{0, 1, 2});
  CHECK(linear("delta_recurrence") == std::vector<int>{0, 2});
  CHECK(linear("last_token") == std::vector<int>{0});
  CHECK(linear("add").empty());
}

TEST_CASE("what an operation gives depends on all its numbers, in the field") {
  // A surrogate that forgets an operand would make any plan look right.
  for (const OpSample& sample : op_samples()) {
    CAPTURE(sample.op);
    const std::vector<Tensor> x = sample.make(Arithmetic::Field, 5);
    const std::vector<Tensor> y = sample.make(Arithmetic::Field, 6);
    for (size_t i = 0; i < x.size(); ++i) {
      if (x[i].elements() == 0) continue;
      std::vector<Tensor> other = x;
      other[i] = y[i];
      CHECK_FALSE(bitwise_equal(
          testing::run(sample.op, x, sample.attributes, Arithmetic::Field),
          testing::run(sample.op, other, sample.attributes,
                       Arithmetic::Field)));
    }
  }
}

using testing::messages;

std::string broadcast(const std::vector<Shape>& shapes) {
  Diagnostics diags;
  const auto shape = infer_broadcast(shapes, {}, {}, diags);
  return shape ? shape_text(*shape) : messages(diags);
}

TEST_CASE("shapes broadcast as NumPy's do") {
  CHECK(broadcast({{2, 3}, {3}}) == "[2, 3]");
  CHECK(broadcast({{4, 1}, {2, 1, 6}}) == "[2, 4, 6]");
  CHECK(broadcast({{}, {2}}) == "[2]");
  CHECK(broadcast({{}, {}}) == "[]");
  CHECK(broadcast({{0}, {1}}) == "[0]");
  CHECK(broadcast({{2, 3}, {2}}) ==
        "SP015 shapes [2, 3] and [2] do not broadcast: 3 against 2");
  CHECK(broadcast({{0}, {2}}) ==
        "SP015 shapes [0] and [2] do not broadcast: 0 against 2");
  CHECK(broadcast({{int64_t{1} << 40, 1}, {int64_t{1} << 40}}) ==
        "SP015 the result [1099511627776, 1099511627776] has too many "
        "elements");
}

TEST_CASE("dimensions that are broadcast have no factor") {
  const std::vector<Shape> shapes = {{4, 1}, {2, 1, 6}};
  const ShardingRule rule = elementwise_rule(shapes, {});
  CHECK(rule.factors == std::vector<Factor>{{2}, {4}, {6}});
  CHECK(rule.result == std::vector<DimFactors>{{0}, {1}, {2}});
  CHECK(rule.operands[0] == std::vector<DimFactors>{{1}, {}});
  CHECK(rule.operands[1] == std::vector<DimFactors>{{0}, {}, {2}});
}

TEST_CASE("dimensions count from either end") {
  const auto find = [](int64_t dim, const Shape& shape) {
    Diagnostics diags;
    const auto found = find_dim(dim, shape, {}, diags);
    return found ? std::to_string(*found) : messages(diags);
  };
  CHECK(find(1, {2, 3}) == "1");
  CHECK(find(-2, {2, 3}) == "0");
  CHECK(find(2, {2, 3}) == "SP015 [2, 3] has no dimension 2");
  CHECK(find(-3, {2, 3}) == "SP015 [2, 3] has no dimension -3");
  CHECK(find(0, {}) == "SP015 [] has no dimension 0");
  CHECK(find(std::numeric_limits<int64_t>::min(), {1}) ==
        "SP015 [1] has no dimension -9223372036854775808");
}

TEST_CASE("integers among the attributes are exact") {
  const auto find = [](double number) {
    Diagnostics diags;
    const auto found = find_integer({{"n", number}}, "n", 7, {}, diags);
    return found ? std::to_string(*found) : messages(diags);
  };
  CHECK(find(-3) == "-3");
  CHECK(find(1.5) == "SP015 `n` is not an integer");
  CHECK(find(1e300) == "SP015 `n` is not an integer");
  CHECK(find(std::numeric_limits<double>::quiet_NaN()) ==
        "SP015 `n` is not an integer");
  Diagnostics diags;
  CHECK(find_integer({}, "n", 7, {}, diags) == 7);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  CHECK(integer_of({}, "n", kMost) == kMost);
  CHECK(integer_of({{"n", 5.0}}, "n", kMost) == 5);
}

TEST_CASE("a part of a dimension lies where its factors say") {
  const ShardingRule rule{{{4}, {3}, {5}}, {}, {}};
  RunContext context;
  context.rule = &rule;
  const DimRange whole = range_of({0, 1}, context);
  CHECK(whole.whole == 12);
  CHECK(whole.begin == 0);
  CHECK(whole.size == 12);
  // The last of three thirds of the second of four quarters.
  context.range = {{1, 2, 0}, {1, 1, 5}};
  const DimRange part = range_of({0, 1}, context);
  CHECK(part.whole == 12);
  CHECK(part.begin == 5);
  CHECK(part.size == 1);
  CHECK(range_of({}, context).whole == 1);
  CHECK(range_of({}, context).size == 1);
}

TEST_CASE("counts stop at the largest integer") {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  CHECK(saturating_product(6, 7) == 42);
  CHECK(saturating_product(kMost, 2) == kMost);
  CHECK(saturating_product(kMost, 0) == 0);
  CHECK(flops_per_element<5>({}, {2, 3}, {}) == 30);
}

TEST_CASE("shapes are listed as a sentence lists them") {
  const std::vector<Shape> shapes = {{2}, {3, 4}, {}};
  CHECK(shapes_text(shapes) == "[2], [3, 4] and []");
}

}  // namespace

}  // namespace shardplan
