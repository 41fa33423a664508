// SPDX-License-Identifier: Apache-2.0
// Attributes: what an operation is given besides its operands.
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

// The attribute, or a default where it is not given. REQUIRES: if given, it is
// of that kind; building a graph checks the kinds (graph/build.h).
double number_of(const Attributes& attributes, std::string_view name,
                 double otherwise);
std::string_view text_of(const Attributes& attributes, std::string_view name,
                         std::string_view otherwise);
std::span<const int64_t> integers_of(const Attributes& attributes,
                                     std::string_view name);
std::span<const double> numbers_of(const Attributes& attributes,
                                   std::string_view name);

// Operations: what each computes, and how its dimensions may be sharded.
//
// An operation declares factors, as Shardy does: a factor is an index that
// runs over a range, and every dimension of an operand or of the result is one
// factor, several (major to minor, as in a reshape) or none (size 1,
// broadcast). `bik,kj->bij` has four factors; sharding i, k and j over mesh
// axes shards the dimensions in which they stand, and sharding k leaves partial
// sums. The partitioner is written once, from these; an operation knows nothing
// of meshes.

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

using DimFactors = std::vector<int>;  // numbers of factors, major to minor

struct ShardingRule {
  std::vector<Factor> factors;
  std::vector<std::vector<DimFactors>> operands;  // per operand, per dimension
  std::vector<DimFactors> result;                 // per dimension

  bool operator==(const ShardingRule&) const = default;
};

// What becomes of operands that are partial sums.
enum class Linearity : uint8_t {
  None,
  // f(x + x', y + y') = f(x, y) + f(x', y'): all operands partial alike (add,
  // reshape, a sum), and no other.
  Additive,
  // Linear in each operand while the others stay: one partial (einsum,
  // multiply).
  Multilinear,
};

// Where a device's part of the operation lies in the whole.
struct LocalRange {
  // Per factor, the first index that this device computes and how many. Empty:
  // the whole.
  std::vector<int64_t> offsets;
  std::vector<int64_t> sizes;

  int64_t offset(int factor) const {
    return offsets.empty() ? 0 : offsets[static_cast<size_t>(factor)];
  }
};

struct RunContext {
  Arithmetic arithmetic = Arithmetic::F32;
  const ShardingRule* rule = nullptr;  // of the whole operation
  LocalRange range;
  int threads = 1;  // for one large operation
};

// What one device computes of an operation.
struct DevicePart {
  std::vector<Tensor> operands;  // local
  RunContext context;
};

struct AttributeDef {
  enum class Kind : uint8_t { Number, Text, Integers, Spec, Numbers };
  std::string_view name;
  Kind kind = Kind::Number;
  bool required = false;
  std::string_view summary;  // for `list ops` and the documentation
};

// What it costs to compute a result again that was not kept.
enum class Repeat : uint8_t {
  Unsaid,
  View,       // nothing: it is the operand, or a part of it, seen differently
  Pointwise,  // reads and writes memory, element by element
  Cheap,      // reads and writes memory
  Dear,       // products, lookups, exchanges of tokens
};
// Reads and writes memory, and no more.
inline bool is_cheap(Repeat repeat) {
  return repeat == Repeat::Cheap || repeat == Repeat::Pointwise;
}

// What the gradient of an operation reads of the forward pass. Sources:
// derivatives as in PyTorch's derivatives.yaml and JAX's jvp rules.
enum class ReadOperands : uint8_t {
  Unsaid,
  None,
  All,
  OfOthers,  // a product: each is read for the gradients of the others alone
};
struct GradientReads {
  ReadOperands operands = ReadOperands::Unsaid;
  std::vector<int> only = {};  // of the operands; empty: all
  bool result = false;
};

// What backward reads besides, where a framework computes the operation as
// several: steps on the way to the result.
enum class InnerSteps : uint8_t {
  None,
  Sigmoid,  // of SiLU
  Tanh,     // of GELU's approximation: its cube, tanh, half and one more
  Angles,   // of a rotation: tables of cosines and sines
  Power,    // a power, which torch.autocast computes in float32
};

// Whether an operation sends tokens to experts, or brings answers back. A
// device does either for the batch that it has, as where there is a weight:
// tokens are exchanged with other devices' experts, not gathered for them.
enum class TokenExchange : uint8_t { None, ToExperts, FromExperts };

// As max_operands: any number of them.
inline constexpr int kManyOperands = std::numeric_limits<int>::max();

struct OpDef {
  std::string_view name;
  std::string_view summary;  // one line for `list ops`
  int min_operands = 1;
  int max_operands = 1;
  Linearity linearity = Linearity::None;
  // The operands in which a multilinear operation is linear; empty: all.
  std::vector<int> linear_in;
  std::vector<AttributeDef> attributes;
  // Which dimensions may be sharded, in words for `list ops`.
  std::string_view factors;
  // The result's shape; SP015 when the operands do not fit. REQUIRES, here and
  // below: as many operands and such attributes as are said above, with those
  // that are required.
  std::optional<Shape> (*infer)(std::span<const Shape> operands,
                                const Attributes& attributes, Span where,
                                Diagnostics& diags);
  // REQUIRES, here and below: infer gave a shape. A dimension of size 1 has no
  // factor, but in an einsum.
  ShardingRule (*rule)(std::span<const Shape> operands,
                       const Attributes& attributes);
  // Floating-point operations of one device, from its local shapes: 2 per
  // multiply-add of a product, 1 per element and step of everything else (a
  // transcendental function is one step), 0 for what only moves numbers. The
  // largest integer where they exceed 63 bits.
  int64_t (*flops)(std::span<const Shape> operands, const Shape& result,
                   const Attributes& attributes);
  // The device's part of the result, of local operands; may be a view of one.
  // REQUIRES: context.rule is set.
  Tensor (*run)(std::span<const Tensor> operands, const Attributes& attributes,
                const RunContext& context);
  // The parts of several devices, in their order, each as `run` gives it, bit
  // by bit; null where that is as good.
  std::vector<Tensor> (*run_all)(std::span<const DevicePart> parts,
                                 const Attributes& attributes,
                                 int threads) = nullptr;
  // How dear the result is to compute again. A view computes nothing, and
  // whoever holds it holds the operand's storage: a program may copy all the
  // same where strides do not allow a view (graph/tensor.h), but what is
  // counted as held takes it to be one.
  Repeat repeat = Repeat::Unsaid;
  GradientReads gradient;
  InnerSteps (*inner_steps)(const Attributes& attributes) =
      [](const Attributes& /*attributes*/) { return InnerSteps::None; };
  // What `run` gives may be the operand's storage, which takes no memory.
  bool shares_storage = false;
  // Adds up products over the factors that the result lacks, as matrix units
  // do.
  bool is_product = false;
  // The result is operand 0 plus this sign times operand 1; 0: it is not a sum
  // of two operands.
  int second_sign = 0;
  // The result is operand 0 times the number of attribute `by`.
  bool is_multiple = false;
  // A sum, mean or maximum: it returns a single number unchanged.
  bool is_reduction = false;
  bool is_sum = false;  // over dimensions
  // The result is `begin` to `end` of dimension `dim` of the operand.
  bool is_slice = false;
  // The result is a selection of an operand's numbers.
  bool picks_operand = false;
  // Computes nothing: the partitioner gives the value the spec of its
  // attribute.
  bool is_constraint = false;
  // Looks rows of operand 0 up. Under shard_map, too, a device knows which of
  // the whole table's rows it has.
  bool is_lookup = false;
  // Adds numbers of a trained table to scores, whose gradient few kernels of
  // attention give.
  bool is_trained_bias = false;
  TokenExchange exchange = TokenExchange::None;
  // Operand 1 holds indices into operand 0: this returns how many index values
  // are valid. One device contributes each number that is taken, the others
  // contribute zeros. Null: the operation does not index.
  int64_t (*indices)(std::span<const Shape> operands,
                     const Shape& result) = nullptr;
  // The attributes of a device's own part under shard_map; empty where they do
  // not divide. Null: they stay.
  std::optional<Attributes> (*local_attributes)(
      const Attributes& attributes, const ShardingRule& rule,
      std::span<const Shape> local) = nullptr;
  // The result is a choice (top-k, argmax): rounding may turn it over, so a
  // sharded run takes the choice of the unsharded one and counts its own.
  bool is_decision = false;
  // A choice whose numbers are indices in the last dimension of operand 0.
  bool chooses_indices = false;
  // Numbers of rows or places, which storage in few bits does not round.
  bool gives_integers = false;
  // Its -inf hide numbers on purpose, and are no fault of a run.
  bool is_mask = false;
};

// The one table of operations. Names of a graph file that stand for several of
// them (rms_norm, softmax) are in graph/build.h.
std::span<const OpDef> ops();
const OpDef* find_op(std::string_view name);

// Whether this operand may be partial sums while the others are whole.
bool is_linear_in(const OpDef& op, int operand);

// What operations share: shapes that fit, dimensions that exist, rules and
// counts of operations that work element by element.
//
// Everything that can be a user's mistake is SP015; its message names the
// shapes.

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
