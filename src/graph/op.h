// SPDX-License-Identifier: Apache-2.0
// Operations: what each computes, how its dimensions may be sharded, and what
// its gradient reads. OpDef describes one operation, and ops() lists them all.
//
// Attributes are the values that an operation is given besides its operands.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/diagnostic.h"
#include "core/spec.h"
#include "core/types.h"
#include "graph/tensor.h"

namespace shardplan {

using AttributeValue = std::variant<double, std::string, std::vector<int64_t>,
                                    PartitionSpec, std::vector<double>>;
using Attributes = std::map<std::string, AttributeValue, std::less<>>;

// The operands of an operation.
using ShapeSpan = std::span<const Shape>;
using TensorSpan = std::span<const Tensor>;

// Each returns the attribute, or a default (`otherwise` or an empty span) if it
// is absent. REQUIRES: an attribute that is present has that kind; building a
// graph checks the kinds (graph/build.h).
double number_of(const Attributes& attributes, std::string_view name,
                 double otherwise);
std::string_view text_of(const Attributes& attributes, std::string_view name,
                         std::string_view otherwise);
std::span<const int64_t> integers_of(const Attributes& attributes,
                                     std::string_view name);
std::span<const double> numbers_of(const Attributes& attributes,
                                   std::string_view name);

// Sharding of operations.
//
// An operation declares factors, as in Shardy. A factor is an index that runs
// over a range; every dimension of an operand or of the result is one factor,
// several (major to minor, as in a reshape) or none (size 1, broadcast). For
// example, `bik,kj->bij` has four factors: sharding i, k and j over mesh axes
// shards the dimensions that contain them, and sharding k leaves partial sums.
// One partitioner serves all operations because it works from factors alone; an
// operation does not depend on the mesh.

enum class FactorKind : uint8_t {
  Pass,   // may be sharded; every shard computes its own part
  Sum,    // may be sharded; shards give partial sums
  Max,    // may be sharded; shards give parts of a maximum
  Whole,  // may not be sharded
};

struct Factor {
  int64_t size = 1;
  FactorKind kind = FactorKind::Pass;

  bool operator==(const Factor&) const = default;
};

using DimFactors = std::vector<int>;  // indices of factors, major to minor

struct ShardingRule {
  std::vector<Factor> factors;
  std::vector<std::vector<DimFactors>> operands;  // per operand, per dimension
  std::vector<DimFactors> result;                 // per dimension

  bool operator==(const ShardingRule&) const = default;
};

// How an operation treats operands that are partial sums.
enum class Linearity : uint8_t {
  None,
  // f(x + x', y + y') = f(x, y) + f(x', y'): either all operands are partial
  // sums or none is (add, reshape, a sum).
  Additive,
  // Linear in each operand while the others are fixed: one operand may be a
  // partial sum (einsum, multiply).
  Multilinear,
};

// The part of the whole operation that one device computes.
struct LocalRange {
  // Per factor, the first index that this device computes and the number of
  // indices. Empty: the whole range.
  std::vector<int64_t> offsets;
  std::vector<int64_t> sizes;
};

struct RunContext {
  Arithmetic arithmetic = Arithmetic::F32;
  const ShardingRule* rule = nullptr;  // the rule of the whole operation
  LocalRange range;
  int threads = 1;  // for one large operation
};

// One device's inputs to its part of an operation.
struct DevicePart {
  std::vector<Tensor> operands;  // this device's shards
  RunContext context;
};

struct AttributeDef {
  enum class Kind : uint8_t { Number, Text, Integers, Spec, Numbers };
  std::string_view name;
  Kind kind = Kind::Number;
  bool required = false;
  std::string_view summary;  // for `list ops` and the documentation
};

// The cost of recomputing a result that was not saved.
enum class RecomputeCost : uint8_t {
  Unset,
  View,       // nothing: the result is a view of the operand or of a part of it
  Pointwise,  // reads and writes memory, element by element
  Cheap,      // reads and writes memory
  Expensive,  // products, lookups, exchanges of tokens
};
// Returns whether recomputing only reads and writes memory.
inline bool is_cheap(RecomputeCost cost) {
  return cost == RecomputeCost::Cheap || cost == RecomputeCost::Pointwise;
}

// The values of the forward pass that the gradient of an operation reads.
// Sources: the derivatives in PyTorch's derivatives.yaml and JAX's jvp rules.
enum class ReadOperands : uint8_t {
  Unset,
  None,
  All,
  OfOthers,  // a product: each operand is read only for the others' gradients
};
struct GradientReads {
  ReadOperands operands = ReadOperands::Unset;
  std::vector<int> only = {};  // indices of operands; empty: all
  bool result = false;
};

// Intermediate results that backward reads as well if a framework computes the
// operation as several.
enum class InnerSteps : uint8_t {
  None,
  Sigmoid,  // the sigmoid in SiLU
  Tanh,     // in GELU's approximation: a cube, tanh, half of the input, one
            // more
  Angles,   // in a rotation: tables of cosines and sines
  Power,    // a power, which torch.autocast computes in float32
};

// Whether an operation sends tokens to experts or brings their answers back.
// Each device does so for its own batch, as in an operation with a weight:
// devices exchange tokens with the devices that hold the experts instead of
// gathering them.
enum class TokenExchange : uint8_t { None, ToExperts, FromExperts };

// The value of max_operands if the number of operands is not limited.
inline constexpr int kManyOperands = std::numeric_limits<int>::max();

struct OpDef {
  std::string_view name;
  std::string_view summary;  // one line for `list ops`
  int min_operands = 1;
  int max_operands = min_operands;
  Linearity linearity = Linearity::None;
  // The operands in which a multilinear operation is linear; empty: all.
  std::vector<int> linear_in = {};
  std::vector<AttributeDef> attributes = {};
  // The dimensions that may be sharded, in words for `list ops`.
  std::string_view factors;
  // Returns the result's shape, or reports SP015 if the operands do not fit.
  // REQUIRES, here and below: the number of operands and the attributes match
  // the declarations above, and required attributes are present.
  std::optional<Shape> (*infer)(ShapeSpan operands,
                                const Attributes& attributes, Span where,
                                Diagnostics& diags) = nullptr;
  // Returns the sharding rule. REQUIRES, here and below: infer returned a
  // shape. A dimension of size 1 has no factor, except in an einsum.
  ShardingRule (*rule)(ShapeSpan operands,
                       const Attributes& attributes) = nullptr;
  // Returns the floating-point operations of one device, from its local shapes:
  // 2 per multiply-add of a product, 1 per element and step of everything else
  // (a transcendental function is one step), 0 for operations that only move
  // numbers. Saturates at the largest integer where they exceed 63 bits.
  int64_t (*flops)(ShapeSpan operands, const Shape& result,
                   const Attributes& attributes) = nullptr;
  // Returns the device's part of the result from its local operands; it may be
  // a view of one. REQUIRES: context.rule is set.
  Tensor (*run)(TensorSpan operands, const Attributes& attributes,
                const RunContext& context) = nullptr;
  // Returns the parts of several devices, in their order, each bit for bit as
  // `run` returns it. Null: calling `run` for each device is as fast.
  std::vector<Tensor> (*run_all)(std::span<const DevicePart> parts,
                                 const Attributes& attributes,
                                 int threads) = nullptr;
  // The cost of recomputing the result. A view computes nothing, and whoever
  // holds it holds the operand's storage. A program may still copy if strides
  // do not allow a view (graph/tensor.h), but estimates of memory treat it as a
  // view.
  RecomputeCost recompute_cost = RecomputeCost::Unset;
  GradientReads gradient = {};
  InnerSteps (*inner_steps)(const Attributes& attributes) =
      [](const Attributes& /*attributes*/) { return InnerSteps::None; };
  // `run` may return the operand's storage, so the result needs no memory.
  bool shares_storage = false;
  // Sums products over the factors that the result lacks, as matrix units do.
  bool is_product = false;
  // The result is operand 0 plus this sign times operand 1; 0: it is not a sum
  // of two operands.
  int second_sign = 0;
  // The result is operand 0 times the number in attribute `by`.
  bool is_multiple = false;
  // A sum, mean or maximum, which returns a single number unchanged.
  bool is_reduction = false;
  bool is_sum = false;  // a sum over dimensions
  // The result is `begin` to `end` of dimension `dim` of the operand.
  bool is_slice = false;
  // The result consists of selected numbers of an operand.
  bool picks_operand = false;
  // Computes nothing: the partitioner gives the value the spec in its
  // attribute.
  bool is_constraint = false;
  // Looks up rows of operand 0. Even under shard_map, a device knows which rows
  // of the whole table it has.
  bool is_lookup = false;
  // Adds a trained table to attention scores. Few attention kernels compute the
  // gradient of such a table.
  bool is_trained_bias = false;
  TokenExchange exchange = TokenExchange::None;
  // Operand 1 holds indices into operand 0: returns how many index values are
  // valid. One device contributes each number that is looked up; the others
  // contribute zeros. Null: the operation does not index.
  int64_t (*indices)(ShapeSpan operands, const Shape& result) = nullptr;
  // Returns the attributes of a device's own part under shard_map, or nullopt
  // if they do not divide evenly. Null: the attributes do not change.
  std::optional<Attributes> (*local_attributes)(const Attributes& attributes,
                                                const ShardingRule& rule,
                                                ShapeSpan local) = nullptr;
  // The result is a choice (top-k, argmax), which rounding may change. A
  // sharded run therefore uses the choice of the unsharded run and counts where
  // its own choice differs.
  bool is_decision = false;
  // A choice whose values are indices into the last dimension of operand 0.
  bool chooses_indices = false;
  // The result holds indices of rows or positions, which storage in low
  // precision does not round.
  bool gives_integers = false;
  // Its -inf values mask scores on purpose and are not errors of a run.
  bool is_mask = false;
};

// Returns the one table of operations. Names of a graph file that expand to
// several operations (rms_norm, softmax) are in graph/composites.h.
std::span<const OpDef> ops();
const OpDef* find_op(std::string_view name);

// Returns whether this operand may be a partial sum while the others are whole.
bool is_linear_in(const OpDef& op, int operand);

// Helpers that operations share: shape checks, lookup of dimensions, and the
// rules and operation counts of elementwise operations.
//
// Every possible mistake of a user is reported as SP015; the message names the
// shapes.

std::string shapes_text(ShapeSpan shapes);  // "[2, 3] and [4]"

// Reports SP015 and returns no shape.
std::optional<Shape> refuse(Diagnostics& diags, Span where, std::string message,
                            std::string help);

// Returns a result's shape unchanged. Reports SP015 and returns nullopt if its
// elements exceed 63 bits.
std::optional<Shape> countable(Shape shape, Span where, Diagnostics& diags);

// Converts a dimension as users write it, with -1 for the last, to one counted
// from 0. Reports SP015 if the shape has no such dimension.
std::optional<size_t> find_dim(int64_t dim, const Shape& shape, Span where,
                               Diagnostics& diags);
// Does the same without a check. REQUIRES: the dimension exists.
size_t dim_at(int64_t dim, size_t rank);
// Both for the attribute `dim`, which is 1 unless given.
std::optional<size_t> find_dim_of(const Attributes& attributes,
                                  const Shape& shape, Span where,
                                  Diagnostics& diags);
size_t dim_of(const Attributes& attributes, size_t rank);

// Returns an attribute that is an integer, or `otherwise` if it is absent.
// Reports SP015 if its value is not an integer.
std::optional<int64_t> find_integer(const Attributes& attributes,
                                    std::string_view name, int64_t otherwise,
                                    Span where, Diagnostics& diags);
// Does the same without a check. REQUIRES: the attribute is an integer or
// absent.
int64_t integer_of(const Attributes& attributes, std::string_view name,
                   int64_t otherwise);

// `infer` for operations whose result has the shape of their operand.
std::optional<Shape> infer_same(ShapeSpan operands,
                                const Attributes& attributes, Span where,
                                Diagnostics& diags);
// `infer` for operations whose operands are broadcast to one shape: dimensions
// are aligned at the last one, and sizes are equal or 1 (NumPy's rules).
std::optional<Shape> infer_broadcast(ShapeSpan operands,
                                     const Attributes& attributes, Span where,
                                     Diagnostics& diags);
// `rule` for both: one factor for every dimension of the result whose size is
// not 1, shared by all operands that are not broadcast along it.
ShardingRule elementwise_rule(ShapeSpan operands, const Attributes& attributes);
// `rule` for operands and a result of one shape [B, L, ..], whose length L may
// not be sharded.
ShardingRule whole_length_rule(ShapeSpan operands,
                               const Attributes& attributes);

// Adds a dimension of a tensor to the rule and returns its factors: a new one,
// or none if its size is 1.
DimFactors add_factor(ShardingRule& rule, int64_t size, FactorKind kind);
// Adds every dimension of a tensor. They may be sharded, except dimension
// `whole`.
std::vector<DimFactors> add_factors(ShardingRule& rule,
                                    std::span<const int64_t> shape,
                                    std::optional<size_t> whole = std::nullopt);

// A dimension of a device's part, computed from its factors: the size of the
// whole dimension, and the first index and the size of the part.
struct DimRange {
  int64_t whole = 1;
  int64_t begin = 0;
  int64_t size = 1;
};
DimRange range_of(const DimFactors& dim, const RunContext& context);
// Returns the shape of the device's part of the result.
Shape result_shape(const RunContext& context);

// Counts of elements, and products of counts. Both saturate at the largest
// integer where they exceed 63 bits.
int64_t count_of(const Shape& shape);
int64_t saturating_product(int64_t a, int64_t b);  // REQUIRES: both >= 0

// Returns whether the shapes have a last dimension and differ in it at most.
bool differ_in_last(const Shape& a, const Shape& b);

// `flops` for operations that take one step per element of operand 0.
int64_t flops_per_element_read(ShapeSpan operands, const Shape& result,
                               const Attributes& attributes);
// `flops` for operations that take `Steps` steps per element of the result.
template <int64_t Steps>
int64_t flops_per_element(ShapeSpan /*operands*/, const Shape& result,
                          const Attributes& /*attributes*/) {
  return saturating_product(Steps, count_of(result));
}

}  // namespace shardplan
