// SPDX-License-Identifier: Apache-2.0
// Operations that move numbers: transposing, slicing and concatenating; further
// below, lookups and reshaping.

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/checked.h"
#include "graph/composites.h"
#include "graph/elementwise.h"
#include "graph/op.h"
#include "graph/ops/ops.h"

namespace shardplan {
namespace {

std::vector<int> order_of(const Attributes& attributes, size_t rank) {
  std::vector<int> order;
  for (const int64_t dim : integers_of(attributes, "order")) {
    order.push_back(dim_at(dim, rank));
  }
  return order;
}

std::optional<Shape> infer_transposed(std::span<const Shape> operands,
                                      const Attributes& attributes, Span where,
                                      Diagnostics& diags) {
  const Shape& shape = operands[0];
  Shape result;
  std::vector<bool> taken(shape.size(), false);
  const auto wanted = integers_of(attributes, "order");
  bool once = wanted.size() == shape.size();
  for (const int64_t dim : wanted) {
    const auto at = find_dim(dim, shape, where, diags);
    if (!at) return std::nullopt;
    const auto index = static_cast<size_t>(*at);
    once = once && !taken[index];
    taken[index] = true;
    result.push_back(shape[index]);
  }
  if (once) return result;
  return diags
      .error(Code::InvalidGraph, where,
             "`order` " + shape_text(Shape(wanted.begin(), wanted.end())) +
                 " is not a permutation of the dimensions of " +
                 shape_text(shape))
      .help("name every dimension of the operand once");
}

ShardingRule transpose_rule(std::span<const Shape> operands,
                            const Attributes& attributes) {
  ShardingRule rule = elementwise_rule(operands, attributes);
  rule.result.clear();
  for (const int dim : order_of(attributes, operands[0].size())) {
    rule.result.push_back(rule.operands[0][static_cast<size_t>(dim)]);
  }
  return rule;
}

Tensor run_transposed(std::span<const Tensor> operands,
                      const Attributes& attributes,
                      const RunContext& /*context*/) {
  return permuted(operands[0], order_of(attributes, operands[0].shape.size()));
}

// Returns the dimension along which to slice or concatenate.
size_t dim_of(const Attributes& attributes, size_t rank) {
  return static_cast<size_t>(dim_at(integer_of(attributes, "dim", 0), rank));
}

std::optional<size_t> find_dim_of(const Shape& shape,
                                  const Attributes& attributes, Span where,
                                  Diagnostics& diags) {
  const auto dim = find_integer(attributes, "dim", 0, where, diags);
  if (!dim) return std::nullopt;
  const auto found = find_dim(*dim, shape, where, diags);
  if (!found) return std::nullopt;
  return static_cast<size_t>(*found);
}

std::optional<Shape> infer_sliced(std::span<const Shape> operands,
                                  const Attributes& attributes, Span where,
                                  Diagnostics& diags) {
  Shape shape = operands[0];
  const auto dim = find_dim_of(shape, attributes, where, diags);
  if (!dim) return std::nullopt;
  const int64_t size = shape[*dim];
  const auto begin = find_integer(attributes, "begin", 0, where, diags);
  const auto end = find_integer(attributes, "end", size, where, diags);
  if (!begin || !end) return std::nullopt;
  if (*begin < 0 || *begin > *end || *end > size) {
    return diags
        .error(Code::InvalidGraph, where,
               "[" + std::to_string(*begin) + ", " + std::to_string(*end) +
                   ") is not a range of dimension " + std::to_string(*dim) +
                   " of " + shape_text(shape))
        .help("give 0 <= `begin` <= `end` <= " + std::to_string(size));
  }
  shape[*dim] = *end - *begin;
  return shape;
}

// Returns the rule of operands and a result that differ only in `dim`, which
// may not be sharded.
ShardingRule rule_around(std::span<const Shape> operands, const Shape& result,
                         size_t dim) {
  ShardingRule rule;
  for (size_t i = 0; i < result.size(); ++i) {
    rule.result.push_back(add_factor(
        rule, result[i], i == dim ? FactorKind::Whole : FactorKind::Pass));
  }
  for (const Shape& operand : operands) {
    std::vector<DimFactors> dims = rule.result;
    dims[dim] = add_factor(rule, operand[dim], FactorKind::Whole);
    rule.operands.push_back(std::move(dims));
  }
  return rule;
}

ShardingRule slice_rule(std::span<const Shape> operands,
                        const Attributes& attributes) {
  Diagnostics none;
  return rule_around(operands, *infer_sliced(operands, attributes, {}, none),
                     dim_of(attributes, operands[0].size()));
}

Tensor run_sliced(std::span<const Tensor> operands,
                  const Attributes& attributes, const RunContext& /*context*/) {
  const Tensor& x = operands[0];
  const size_t dim = dim_of(attributes, x.shape.size());
  return slice(x, static_cast<int>(dim), integer_of(attributes, "begin", 0),
               integer_of(attributes, "end", x.shape[dim]));
}

// On a sharded dimension, each device slices the same fraction of its own part.
std::optional<Attributes> local_slice(const Attributes& attributes,
                                      const ShardingRule& rule,
                                      std::span<const Shape> local) {
  Attributes own = attributes;
  const size_t dim = dim_of(attributes, local[0].size());
  const DimFactors& factors = rule.operands[0][dim];
  const int64_t whole =
      factors.empty() ? 1 : rule.factors[static_cast<size_t>(factors[0])].size;
  const int64_t size = local[0][dim];
  if (size == whole) return own;
  if (size == 0 || whole % size != 0) return std::nullopt;
  const int64_t shares = whole / size;
  for (const char* bound : {"begin", "end"}) {
    const auto given = own.find(std::string_view(bound));
    if (given == own.end()) continue;
    auto& row = std::get<double>(given->second);
    if (static_cast<int64_t>(row) % shares != 0) return std::nullopt;
    row /= static_cast<double>(shares);
  }
  return own;
}

std::optional<Shape> infer_concatenated(std::span<const Shape> operands,
                                        const Attributes& attributes,
                                        Span where, Diagnostics& diags) {
  Shape result = operands[0];
  const auto dim = find_dim_of(result, attributes, where, diags);
  if (!dim) return std::nullopt;
  for (const Shape& operand : operands.subspan(1)) {
    Shape alike = operand;
    if (operand.size() == result.size()) alike[*dim] = result[*dim];
    if (alike != result) {
      return diags
          .error(Code::InvalidGraph, where,
                 "cannot concatenate " + shapes_text(operands) +
                     " along dimension " + std::to_string(*dim))
          .help("give operands with equal sizes in every other dimension");
    }
    const auto sum = checked_add(result[*dim], operand[*dim]);
    if (!sum) {
      return diags
          .error(Code::InvalidGraph, where,
                 "dimension " + std::to_string(*dim) + " of " +
                     shapes_text(operands) + ", concatenated, is too large")
          .help("make the operands smaller: sizes are counted in 63 bits");
    }
    result[*dim] = *sum;
  }
  return countable(std::move(result), where, diags);
}

ShardingRule concatenate_rule(std::span<const Shape> operands,
                              const Attributes& attributes) {
  Diagnostics none;
  return rule_around(operands,
                     *infer_concatenated(operands, attributes, {}, none),
                     dim_of(attributes, operands[0].size()));
}

Tensor run_concatenated(std::span<const Tensor> operands,
                        const Attributes& attributes,
                        const RunContext& context) {
  Shape shape = operands[0].shape;
  const size_t dim = dim_of(attributes, shape.size());
  shape[dim] = 0;
  for (const Tensor& operand : operands) shape[dim] += operand.shape[dim];
  Tensor result = make_unfilled(element_of(context.arithmetic), shape);
  int64_t begin = 0;
  for (const Tensor& operand : operands) {
    const int64_t end = begin + operand.shape[dim];
    copy_into(slice(result, static_cast<int>(dim), begin, end), operand);
    begin = end;
  }
  return result;
}

OpDef movement(std::string_view name, std::string_view summary) {
  OpDef op;
  op.name = name;
  op.summary = summary;
  op.linearity = Linearity::Additive;
  op.factors = "every dimension but `dim`";
  op.flops = flops_per_element<0>;
  op.recompute_cost = RecomputeCost::View;
  op.gradient = {.operands = ReadOperands::None};
  return op;
}

}  // namespace

OpDef transpose_op() {
  OpDef op = movement("transpose", "x with its dimensions permuted");
  op.attributes = {
      {"order", AttributeDef::Kind::Integers, true,
       "the operand's dimension for each dimension of the result"}};
  op.factors = "every dimension";
  op.infer = infer_transposed;
  op.rule = transpose_rule;
  op.run = run_transposed;
  op.shares_storage = true;
  return op;
}

OpDef slice_op() {
  OpDef op = movement("slice", "a range of one dimension");
  op.attributes = {
      {"dim", AttributeDef::Kind::Number, true, "the dimension"},
      {"begin", AttributeDef::Kind::Number, false, "first index; default 0"},
      {"end", AttributeDef::Kind::Number, false,
       "the index after the last; default the size"}};
  op.infer = infer_sliced;
  op.rule = slice_rule;
  op.run = run_sliced;
  op.shares_storage = true;
  op.local_attributes = local_slice;
  op.is_slice = true;
  return op;
}

OpDef concatenate_op() {
  OpDef op = movement("concatenate", "operands joined along a dimension");
  op.min_operands = 2;
  op.max_operands = kManyOperands;
  op.attributes = {
      {"dim", AttributeDef::Kind::Number, true, "the dimension to join along"}};
  op.infer = infer_concatenated;
  op.rule = concatenate_rule;
  op.run = run_concatenated;
  op.recompute_cost = RecomputeCost::Cheap;
  return op;
}

// Lookup of rows of a table by their indices.
//
// If the rows are sharded, a device looks up those that it has and gives zeros
// for the others, so that the sum is the whole (Megatron-LM's
// VocabParallelEmbedding). An index outside the whole table gives NaN on every
// device, as jax.numpy.take does by default; in the field, 0.

namespace {

std::optional<Shape> infer_embedding(std::span<const Shape> operands,
                                     const Attributes& /*attributes*/,
                                     Span where, Diagnostics& diags) {
  if (operands[0].size() != 2) {
    return diags
        .error(
            Code::InvalidGraph, where,
            "embedding table " + shape_text(operands[0]) + " is not a matrix")
        .help("give it the shape [rows, width]");
  }
  Shape result = operands[1];
  result.push_back(operands[0][1]);
  return countable(std::move(result), where, diags);
}

ShardingRule embedding_rule(std::span<const Shape> operands,
                            const Attributes& /*attributes*/) {
  ShardingRule rule;
  rule.operands.resize(2);
  rule.operands[0].push_back(add_factor(rule, operands[0][0], FactorKind::Sum));
  for (const int64_t size : operands[1]) {
    rule.operands[1].push_back(add_factor(rule, size, FactorKind::Pass));
  }
  rule.result = rule.operands[1];
  rule.result.push_back(add_factor(rule, operands[0][1], FactorKind::Pass));
  rule.operands[0].push_back(rule.result.back());
  return rule;
}

template <typename T>
void look_up(const Tensor& table, const Tensor& ids, const DimRange& rows,
             const Tensor& result, T outside) {
  const int64_t width = table.shape[1];
  const int64_t step = table.strides[1];
  const T* id = ids.data<T>();  // row-major, like the result
  T* out = result.data<T>();
  for (int64_t i = 0; i < ids.elements(); ++i, out += width) {
    const int64_t of_whole = index_of(id[i], rows.whole);
    if (of_whole < 0) {
      std::fill_n(out, width, outside);
      continue;
    }
    const int64_t row = of_whole - rows.begin;
    if (row < 0 || row >= rows.size) continue;
    const T* from = table.data<T>() + row * table.strides[0];
    for (int64_t j = 0; j < width; ++j) out[j] = from[j * step];
  }
}

Tensor run_embedding(std::span<const Tensor> operands,
                     const Attributes& /*attributes*/,
                     const RunContext& context) {
  const Tensor& table = operands[0];
  const Tensor ids = contiguous(operands[1]);
  const DimRange rows = range_of(context.rule->operands[0][0], context);
  Shape shape = ids.shape;
  shape.push_back(table.shape[1]);
  const Tensor result = make_tensor(element_of(context.arithmetic), shape);
  for_element_type(context.arithmetic, [&](auto type) {
    using T = typename decltype(type)::type;
    look_up<T>(table, ids, rows, result,
               context.arithmetic == Arithmetic::Field
                   ? T{0}
                   : std::numeric_limits<T>::quiet_NaN());
  });
  return result;
}

int64_t rows_of_table(std::span<const Shape> operands,
                      const Shape& /*result*/) {
  return operands[0][0];
}

}  // namespace

OpDef embedding_op() {
  OpDef op;
  op.name = "embedding";
  op.summary = "rows of a table [V, D] looked up by ids [...]: [..., D]";
  op.min_operands = 2;
  op.max_operands = 2;
  op.factors = "every dimension; the table's rows give partial sums";
  op.infer = infer_embedding;
  op.rule = embedding_rule;
  op.flops = flops_per_element<0>;
  op.run = run_embedding;
  op.recompute_cost = RecomputeCost::Expensive;
  op.gradient = {.operands = ReadOperands::All, .only = {1}};
  op.is_lookup = true;
  op.indices = rows_of_table;
  return op;
}

// Lookup of numbers of a row by their indices: take_along_axis on the last
// dimension.
//
// If rows are sharded, a device gives the numbers that it has and zeros for the
// others, so that the sum is the whole. An index outside the whole row gives
// NaN on every device, as jax.numpy.take_along_axis does by default (which
// counts negative indices from the end); in the field, 0.

namespace {

std::optional<Shape> infer_taken(std::span<const Shape> operands,
                                 const Attributes& /*attributes*/, Span where,
                                 Diagnostics& diags) {
  const Shape& x = operands[0];
  Shape alike = operands[1];
  if (!x.empty() && alike.size() == x.size()) alike.back() = x.back();
  if (!x.empty() && alike == x) return operands[1];
  return diags
      .error(Code::InvalidGraph, where,
             "cannot take from " + shape_text(x) + " by indices " +
                 shape_text(operands[1]))
      .help("give [.., n] and [.., k], equal in every dimension but the last");
}

ShardingRule take_rule(std::span<const Shape> operands,
                       const Attributes& /*attributes*/) {
  ShardingRule rule;
  for (const int64_t size : operands[1]) {
    rule.result.push_back(add_factor(rule, size, FactorKind::Pass));
  }
  rule.operands = {rule.result, rule.result};
  rule.operands[0].back() =
      add_factor(rule, operands[0].back(), FactorKind::Sum);
  return rule;
}

template <typename T>
void take_each(const Tensor& x, const Tensor& indices, const DimRange& row,
               const Tensor& result, T outside) {
  const int64_t k = indices.shape.back();
  const int64_t rows = indices.elements() == 0 ? 0 : indices.elements() / k;
  const T* from = x.data<T>();
  const T* index = indices.data<T>();
  T* out = result.data<T>();
  for (int64_t i = 0; i < rows; ++i, from += row.size) {
    for (int64_t j = 0; j < k; ++j, ++index, ++out) {
      const int64_t of_whole = index_of(*index, row.whole);
      const int64_t at = of_whole - row.begin;
      if (of_whole < 0) {
        *out = outside;
      } else if (at >= 0 && at < row.size) {
        *out = from[at];
      }
    }
  }
}

Tensor run_take(std::span<const Tensor> operands,
                const Attributes& /*attributes*/, const RunContext& context) {
  const Tensor x = contiguous(operands[0]);
  const Tensor indices = contiguous(operands[1]);
  const DimRange row = range_of(context.rule->operands[0].back(), context);
  const Tensor result =
      make_tensor(element_of(context.arithmetic), indices.shape);
  for_element_type(context.arithmetic, [&](auto type) {
    using T = typename decltype(type)::type;
    take_each<T>(x, indices, row, result,
                 context.arithmetic == Arithmetic::Field
                     ? T{0}
                     : std::numeric_limits<T>::quiet_NaN());
  });
  return result;
}

int64_t numbers_of_row(std::span<const Shape> operands,
                       const Shape& /*result*/) {
  return operands[0].back();
}

}  // namespace

OpDef take_op() {
  OpDef op;
  op.name = "take";
  op.summary = "values of x [.., n] at indices [.., k]: [.., k]";
  op.min_operands = 2;
  op.max_operands = 2;
  op.linearity = Linearity::Multilinear;
  op.linear_in = {0};
  op.factors = "every dimension; the last of x gives partial sums";
  op.infer = infer_taken;
  op.rule = take_rule;
  op.flops = flops_per_element<0>;
  op.run = run_take;
  op.recompute_cost = RecomputeCost::Cheap;
  op.gradient = {.operands = ReadOperands::All, .only = {1}};
  op.indices = numbers_of_row;
  return op;
}

// Reshape: the same numbers in row-major order, in another shape.
//
// Both shapes are walked from the major end. The remainders of the current
// dimensions on both sides have a greatest common divisor. It becomes the next
// factor of both, towards the minor end, and both remainders are divided by it.
// For example, [b, h d] to [b, h, d] has factors b, h and d; the second
// dimension of the operand is (h, d). If the remainders of both sides have no
// common divisor, as in [6, 4] to [8, 3] after a 2, the dimensions that remain
// may not be sharded, up to the place where the two shapes meet again.
// (Shardy's reshape rule does the same.)

namespace {

std::nullopt_t misfit(const Shape& operand, const Shape& wanted, Span where,
                      Diagnostics& diags) {
  return diags
      .error(
          Code::InvalidGraph, where,
          "cannot reshape " + shape_text(operand) + " to " + shape_text(wanted))
      .help("give shapes of the same number of elements; one size may be -1");
}

std::optional<Shape> infer_reshaped(std::span<const Shape> operands,
                                    const Attributes& attributes, Span where,
                                    Diagnostics& diags) {
  const auto wanted = integers_of(attributes, "shape");
  Shape shape(wanted.begin(), wanted.end());
  const int64_t elements = count_of(operands[0]);
  int64_t* rest = nullptr;
  int64_t known = 1;
  for (int64_t& size : shape) {
    if (size == -1 && rest == nullptr) {
      rest = &size;
      continue;
    }
    const auto product = checked_mul(known, size);
    if (size < 0 || !product) return misfit(operands[0], shape, where, diags);
    known = *product;
  }
  if (rest != nullptr) {
    // If the other sizes make no elements, every size would fit, so none is
    // right.
    if (known == 0 || elements % known != 0) {
      return misfit(operands[0], shape, where, diags);
    }
    *rest = elements / known;
    known = elements;
  }
  if (known != elements) return misfit(operands[0], shape, where, diags);
  return shape;
}

// One side of the walk: a shape, and the remainder of its current dimension.
class Side {
 public:
  Side(const Shape& shape, std::vector<DimFactors>& dims)
      : shape_(shape), dims_(dims) {
    dims_.resize(shape.size());
    settle();
  }

  bool done() const { return dim_ == shape_.size(); }
  int64_t left() const { return left_; }
  // Assigns `size` of the remainder to a factor.
  void take(int factor, int64_t size) {
    dims_[dim_].push_back(factor);
    left_ /= size;
    if (left_ == 1) {
      ++dim_;
      settle();
    }
  }

 private:
  void settle() {
    while (dim_ < shape_.size() && shape_[dim_] == 1) ++dim_;
    left_ = done() ? 1 : shape_[dim_];
  }

  const Shape& shape_;
  std::vector<DimFactors>& dims_;
  size_t dim_ = 0;
  int64_t left_ = 1;
};

class FactorWalk {
 public:
  FactorWalk(const Shape& operand, const Shape& result)
      : from_(operand, rule_.operands.emplace_back()),
        to_(result, rule_.result) {}

  ShardingRule run() {
    while (!from_.done() && !to_.done()) {
      const int64_t common = std::gcd(from_.left(), to_.left());
      if (common == 1) {
        take_whole();
        continue;
      }
      const int factor = add(common, FactorKind::Pass);
      from_.take(factor, common);
      to_.take(factor, common);
    }
    return std::move(rule_);
  }

 private:
  int add(int64_t size, FactorKind kind) {
    rule_.factors.push_back({size, kind});
    return static_cast<int>(rule_.factors.size()) - 1;
  }

  // Adds whole factors until both sides have covered the same number of
  // elements.
  void take_whole() {
    int64_t from = 1;
    int64_t to = 1;
    do {
      Side& shorter = from <= to ? from_ : to_;
      int64_t& taken = from <= to ? from : to;
      const int64_t left = shorter.left();
      shorter.take(add(left, FactorKind::Whole), left);
      taken *= left;
    } while (from != to);
  }

  ShardingRule rule_;
  Side from_;
  Side to_;
};

ShardingRule reshape_rule(std::span<const Shape> operands,
                          const Attributes& attributes) {
  Diagnostics none;
  const Shape result = *infer_reshaped(operands, attributes, {}, none);
  if (count_of(operands[0]) != 0) return FactorWalk(operands[0], result).run();
  ShardingRule rule;
  std::vector<DimFactors>& dims = rule.operands.emplace_back();
  for (const int64_t size : operands[0]) {
    dims.push_back(add_factor(rule, size, FactorKind::Whole));
  }
  for (const int64_t size : result) {
    rule.result.push_back(add_factor(rule, size, FactorKind::Whole));
  }
  return rule;
}

Tensor run_reshaped(std::span<const Tensor> operands,
                    const Attributes& /*attributes*/,
                    const RunContext& context) {
  Shape shape;
  for (const DimFactors& dim : context.rule->result) {
    shape.push_back(range_of(dim, context).size);
  }
  return reshaped(operands[0], shape);
}

}  // namespace

OpDef reshape_op() {
  OpDef op;
  op.name = "reshape";
  op.summary = "the same values in row-major order, with a new shape";
  op.linearity = Linearity::Additive;
  op.attributes = {{"shape", AttributeDef::Kind::Integers, true,
                    "the new shape; one size may be -1"}};
  op.factors = "leading sizes that both shapes share";
  op.infer = infer_reshaped;
  op.rule = reshape_rule;
  op.flops = flops_per_element<0>;
  op.run = run_reshaped;
  op.recompute_cost = RecomputeCost::View;
  op.gradient = {.operands = ReadOperands::None};
  op.shares_storage = true;
  return op;
}

// Constraint: returns a value unchanged, in a requested layout
// (jax.lax.with_sharding_constraint); the partitioner reads the spec.
//
// It is not declared linear, although it is the identity, because partial sums
// must be reduced here.

namespace {

std::optional<Shape> infer_constrained(std::span<const Shape> operands,
                                       const Attributes& attributes, Span where,
                                       Diagnostics& diags) {
  const Shape& shape = operands[0];
  const auto& spec = std::get<PartitionSpec>(attributes.find("spec")->second);
  if (spec.dims.size() <= shape.size()) return shape;
  return diags
      .error(
          Code::InvalidGraph, where,
          spec_text(spec) + " is longer than the rank of " + shape_text(shape))
      .help("give at most one entry per dimension");
}

Tensor run_constrained(std::span<const Tensor> operands,
                       const Attributes& /*attributes*/,
                       const RunContext& /*context*/) {
  return operands[0];
}

}  // namespace

OpDef constraint_op() {
  OpDef op;
  op.name = "constraint";
  op.summary = "the operand, sharded as a spec says";
  op.attributes = {
      {"spec", AttributeDef::Kind::Spec, true, "mesh axes per dimension"}};
  op.factors = "every dimension";
  op.infer = infer_constrained;
  op.rule = elementwise_rule;
  op.flops = flops_per_element<0>;
  op.run = run_constrained;
  op.recompute_cost = RecomputeCost::View;
  op.gradient = {.operands = ReadOperands::None};
  op.is_constraint = true;
  op.shares_storage = true;
  return op;
}

}  // namespace shardplan
