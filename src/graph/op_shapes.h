// SPDX-License-Identifier: Apache-2.0
// What operations share: shapes that fit, dimensions that exist, rules and
// counts of operations that work element by element.
//
// Everything that can be a user's mistake is SP015; its message names the
// shapes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "graph/op.h"

namespace shardplan {

std::string shapes_text(std::span<const Shape> shapes);  // "[2, 3] and [4]"

// SP015; no shape.
std::optional<Shape> refuse(Diagnostics& diags, Span where, std::string message,
                            std::string help);

// A result's shape as it is; SP015 where its elements exceed 63 bits.
std::optional<Shape> countable(Shape shape, Span where, Diagnostics& diags);

// A dimension as users write it, -1 being the last, from 0; SP015 where the
// shape has none such.
std::optional<int> find_dim(int64_t dim, const Shape& shape, Span where,
                            Diagnostics& diags);
// The same. REQUIRES: it exists.
int dim_at(int64_t dim, size_t rank);

// An attribute that is an integer; SP015 where it is given and is none.
std::optional<int64_t> find_integer(const Attributes& attributes,
                                    std::string_view name, int64_t otherwise,
                                    Span where, Diagnostics& diags);
// The same. REQUIRES: it is an integer, or not given.
int64_t integer_of(const Attributes& attributes, std::string_view name,
                   int64_t otherwise);

// `infer` of operations that keep the shape of their operand.
std::optional<Shape> infer_same(std::span<const Shape> operands,
                                const Attributes& attributes, Span where,
                                Diagnostics& diags);
// `infer` of operations on operands that are broadcast to one shape: sizes are
// aligned at the last dimension and equal or 1 (NumPy's rules).
std::optional<Shape> infer_broadcast(std::span<const Shape> operands,
                                     const Attributes& attributes, Span where,
                                     Diagnostics& diags);
// `rule` of both: a factor for every dimension of the result that is not of
// size 1, in all operands that are not broadcast along it.
ShardingRule elementwise_rule(std::span<const Shape> operands,
                              const Attributes& attributes);

// Adds a dimension of a tensor of the rule: a factor of its own, or none where
// its size is 1.
DimFactors add_factor(ShardingRule& rule, int64_t size, FactorKind kind);

// A dimension of a device's part, from its factors: how much of it there is in
// the whole and here, and where the part begins.
struct DimRange {
  int64_t whole = 1;
  int64_t begin = 0;
  int64_t size = 1;
};
DimRange range_of(const DimFactors& dim, const RunContext& context);

// Elements, and products of counts: the largest integer where they exceed 63
// bits.
int64_t count_of(const Shape& shape);
int64_t saturating_product(int64_t a, int64_t b);  // REQUIRES: both >= 0

// `flops` of operations that take `Steps` steps per element of the result.
template <int64_t Steps>
int64_t flops_per_element(std::span<const Shape> /*operands*/,
                          const Shape& result,
                          const Attributes& /*attributes*/) {
  return saturating_product(Steps, count_of(result));
}

}  // namespace shardplan
