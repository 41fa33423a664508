// SPDX-License-Identifier: Apache-2.0
// Operations on numbers, for tests: random operands, running one operation as a
// whole, and a sample of every operation.
//
//   const Tensor x = numbers(Arithmetic::F64, {2, 3}, 1);
//   CHECK(values_of(run("square", {x}, {}, Arithmetic::F64)) == ...);
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "graph/elementwise.h"
#include "graph/op.h"
#include "tests/support/messages.h"

namespace shardplan::testing {

inline constexpr Arithmetic kArithmetics[] = {Arithmetic::F32, Arithmetic::F64,
                                              Arithmetic::Field};

// What an operand's numbers are: reals in (-2, 2), reals in (0.5, 2), or
// integers in [0, limit). In the field, residues for the first two.
enum class Domain : uint8_t { Reals, Positive, Integers };
struct Numbers {
  Domain domain = Domain::Reals;
  int64_t limit = 0;
};

// splitmix64.
inline uint64_t next_random(uint64_t& state) {
  uint64_t z = state += 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31U);
}

inline Tensor numbers(Arithmetic arithmetic, const Shape& shape, uint64_t seed,
                      Numbers what = {}) {
  std::vector<double> values(static_cast<size_t>(*element_count(shape)));
  for (double& value : values) {
    const double unit = static_cast<double>(next_random(seed) >> 11U) * 0x1p-53;
    if (what.domain == Domain::Integers) {
      value = std::floor(unit * static_cast<double>(what.limit));
    } else if (arithmetic == Arithmetic::Field) {
      value = std::floor(unit * static_cast<double>(field::kPrime));
    } else {
      value = what.domain == Domain::Positive ? 0.5 + 1.5 * unit : 4 * unit - 2;
    }
  }
  return make_tensor(element_of(arithmetic), shape, values);
}

inline std::vector<Shape> shapes_of(const std::vector<Tensor>& tensors) {
  std::vector<Shape> shapes;
  for (const Tensor& tensor : tensors) shapes.push_back(tensor.shape);
  return shapes;
}

// An operation on these shapes. Throws where they do not fit.
struct Fitted {
  const OpDef* op = nullptr;
  Attributes attributes;
  Shape result;
  ShardingRule rule;
};
inline Fitted fitted(std::string_view name, const std::vector<Shape>& operands,
                     const Attributes& attributes) {
  Diagnostics diags;
  const OpDef* op = find_op(name);
  if (op == nullptr) throw std::invalid_argument("no operation of that name");
  const auto shape = op->infer(operands, attributes, {}, diags);
  if (!shape) throw std::invalid_argument(messages(diags));
  return {op, attributes, *shape, op->rule(operands, attributes)};
}

// The result, or why there is none: "SP015 ...".
inline std::string inferred(std::string_view name,
                            const std::vector<Shape>& operands,
                            const Attributes& attributes) {
  Diagnostics diags;
  const auto shape = find_op(name)->infer(operands, attributes, {}, diags);
  return shape ? shape_text(*shape) : messages(diags);
}

inline Tensor run(std::string_view name, const std::vector<Tensor>& operands,
                  const Attributes& attributes, Arithmetic arithmetic) {
  const Fitted fit = fitted(name, shapes_of(operands), attributes);
  RunContext context;
  context.arithmetic = arithmetic;
  context.rule = &fit.rule;
  return fit.op->run(operands, attributes, context);
}

struct OpSample {
  std::string op;
  std::vector<Shape> operands;
  Attributes attributes;
  std::vector<Numbers> numbers = {};  // per operand; missing ones are reals

  std::vector<Tensor> make(Arithmetic arithmetic, uint64_t seed) const {
    std::vector<Tensor> tensors;
    for (size_t i = 0; i < operands.size(); ++i) {
      const Numbers what = i < numbers.size() ? numbers[i] : Numbers{};
      tensors.push_back(
          testing::numbers(arithmetic, operands[i], seed * 8 + i, what));
    }
    return tensors;
  }
};

// At least one of every operation; a new one joins by a row here.
inline std::vector<OpSample> op_samples() {
  using Dims = std::vector<int64_t>;
  const Numbers positive{Domain::Positive};
  const Numbers ids{Domain::Integers, 12};
  const Numbers experts{Domain::Integers, 4};
  const Attributes llama3{{"dim", 0.0},     {"offset", 5.0},
                          {"theta", 100.0}, {"scaling", std::string("llama3")},
                          {"factor", 8.0},  {"original_positions", 32.0}};
  const auto einsum = [](const char* equation) {
    return Attributes{{"equation", std::string(equation)}};
  };
  const auto dims = [](Dims which) {
    return Attributes{{"dims", std::move(which)}};
  };
  const auto shape = [](Dims which) {
    return Attributes{{"shape", std::move(which)}};
  };
  return {
      {"einsum", {{2, 3, 4}, {4, 6}}, einsum("bse,em->bsm")},
      {"einsum", {{4, 6}, {4, 6}}, einsum("km,kn->mn")},
      {"einsum", {{2, 6, 2, 3}, {2, 4, 2, 3}}, einsum("bqhd,bkhd->bhqk")},
      {"einsum", {{2, 2, 6, 4}, {2, 4, 2, 3}}, einsum("bhqk,bkhd->bqhd")},
      {"einsum", {{6, 2, 3}, {2, 4}}, einsum("abc,bd->da")},
      {"einsum", {{6, 4}, {3, 2}}, einsum("ab,cd->ca")},
      {"einsum", {{6, 4}, {6, 4}}, einsum("ab,ab->")},
      {"add", {{4, 6}, {4, 6}}, {}},
      {"add", {{2, 3, 6}, {6}}, {}},
      {"subtract", {{4, 1}, {2, 1, 6}}, {}},
      {"multiply", {{2, 3, 6}, {3, 1}}, {}},
      {"divide", {{4, 6}, {4, 1}}, {}, {{}, positive}},
      {"maximum", {{4, 6}, {4, 1}}, {}},
      {"scale", {{4, 6}}, {{"by", 0.3}}},
      {"shift", {{4, 6}}, {{"by", -0.7}}},
      {"negate", {{4, 6}}, {}},
      {"square", {{4, 6}}, {}},
      {"exp", {{4, 6}}, {}},
      {"rsqrt", {{4, 6}}, {{"epsilon", 1e-6}}, {positive}},
      {"relu", {{4, 6}}, {}},
      {"gelu", {{4, 6}}, {}},
      {"gelu", {{4, 6}}, {{"approximate", std::string("none")}}},
      {"silu", {{4, 6}}, {}},
      {"tanh", {{4, 6}}, {}},
      {"sigmoid", {{4, 6}}, {}},
      {"softplus", {{4, 6}}, {}},
      {"clamp", {{4, 6}}, {{"min", -0.5}, {"max", 0.7}}},
      {"xielu", {{4, 6}, {1}, {1}, {}, {}}, {}},
      {"sum", {{4, 6, 3}}, dims({1})},
      {"sum", {{4, 6}}, {{"dims", Dims{0, -1}}, {"keep", 0.0}}},
      {"mean", {{4, 6, 3}}, dims({-1})},
      {"mean", {{4, 6, 3}}, dims({0, 1})},
      {"max", {{4, 6, 3}}, dims({1})},
      {"embedding", {{12, 6}, {2, 3}}, {}, {{}, ids}},
      {"causal_mask", {{2, 4, 6}}, {}},
      {"causal_mask", {{6, 6}}, {{"window", 2.0}}},
      {"causal_mask", {{2, 1, 6}}, {{"window", 3.0}}},
      {"causal_mask", {{2, 6, 6}}, {{"chunk", 4.0}}},
      {"causal_mask", {{2, 6, 6}}, {{"window", 3.0}, {"ahead", 2.0}}},
      {"rope", {{2, 6, 3, 4}}, {}},
      {"rope", {{2, 3, 6, 8}}, {{"dim", 2.0}, {"rotary_dim", 4.0}}},
      {"rope", {{6, 4}}, llama3},
      {"relative_bias", {{2, 3, 4, 6}, {4, 3}}, {{"max_distance", 4.0}}},
      {"relative_bias",
       {{2, 4, 6, 2}, {12, 4}},
       {{"both_sides", 1.0}, {"max_distance", 6.0}}},
      {"alibi", {{2, 6, 4, 6}}, {{"by", 0.5}}},
      {"alibi", {{2, 2, 6, 2, 4}}, {{"steepest", 4.0}, {"bf16", 1.0}}},
      {"token_positions", {{2, 6}}, {{"padding", 1.0}}, {ids}},
      {"last_token", {{2, 6, 4}, {2, 6}}, {{"token", 3.0}}, {{}, experts}},
      {"last_token",
       {{4, 8, 3}, {4, 8}},
       {{"token", 2.0}, {"equal", 1.0}},
       {{}, experts}},
      {"causal_convolution", {{2, 6, 4}, {4, 3}}, {}},
      {"causal_convolution", {{2, 2, 6}, {6, 4}}, {}},
      {"linear_recurrence",
       {{2, 3, 2, 4}, {2, 3, 2, 4}, {2, 3, 4, 6}, {2, 3, 4}},
       {}},
      {"linear_recurrence",
       {{2, 3, 1, 4}, {2, 3, 1, 4}, {2, 3, 6, 1}, {2, 3, 6, 4}},
       {}},
      {"linear_recurrence",
       {{1, 4, 4, 1}, {1, 4, 4, 1}, {1, 4, 4, 2}, {1, 4, 4}},
       {}},
      {"delta_recurrence",
       {{2, 3, 2, 4}, {2, 3, 2, 4}, {2, 3, 4, 6}, {2, 3, 4}, {2, 3, 4}},
       {}},
      {"delta_recurrence",
       {{2, 3, 1, 4}, {2, 3, 1, 4}, {2, 3, 6, 1}, {2, 3, 6, 4}, {2, 3, 6}},
       {}},
      {"decaying_maximum", {{2, 3, 4}, {2, 3, 4}}, {}},
      {"decaying_maximum", {{4, 3}, {4, 3}}, {{"before", 1.0}}},
      {"position_scale", {{2, 6, 4}}, {{"every", 2.0}, {"by", 0.3}}},
      {"position_scale",
       {{6, 4}},
       {{"dim", 0.0}, {"every", 4.0}, {"by", 0.1}, {"offset", 1.0}}},
      {"top_k", {{2, 6, 8}}, {{"k", 3.0}}},
      {"choice_mask", {{2, 6, 4, 3}, {2, 6, 2}}, {}, {{}, experts}},
      {"choice_mask", {{4, 4, 1}, {4, 1}}, {}, {{}, experts}},
      {"mixer_shares",
       {{2, 6, 4}, {2, 6, 2}},
       {{"jitter", 0.3}},
       {{}, experts}},
      {"take", {{2, 6, 12}, {2, 6, 3}}, {}, {{}, ids}},
      {"take", {{12}, {6}}, {}, {{}, ids}},
      {"dispatch", {{2, 6, 4}, {2, 6, 2}}, {{"experts", 4.0}}, {{}, experts}},
      {"dispatch",
       {{2, 3, 6, 4}, {2, 3, 6, 2}},
       {{"experts", 4.0}, {"capacity", 2.0}},
       {{}, experts}},
      {"combine", {{4, 2, 6, 6}, {2, 6, 2}, {2, 6, 2}}, {}, {{}, experts, {}}},
      {"combine", {{6, 2, 4}, {6, 3}, {6, 3}}, {}, {{}, experts, {}}},
      {"combine", {{4, 2, 6, 6}, {2, 6, 2}}, {}, {{}, experts}},
      {"reshape", {{4, 6}}, shape({4, 2, 3})},
      {"reshape", {{4, 2, 3}}, shape({4, 6})},
      {"reshape", {{6, 4, 2}}, shape({24, -1})},
      {"reshape", {{6, 4, 6}}, shape({8, 3, 6})},
      {"reshape", {{1, 6, 1, 4}}, shape({3, 8, 1})},
      {"transpose", {{2, 4, 6}}, {{"order", Dims{2, 0, 1}}}},
      {"slice", {{4, 6, 2}}, {{"dim", 1.0}, {"begin", 1.0}, {"end", 5.0}}},
      {"concatenate", {{4, 6, 2}, {4, 3, 2}, {4, 0, 2}}, {{"dim", 1.0}}},
      {"expand", {{4, 1, 6}}, shape({2, 4, 3, 6})},
      {"expand", {{1}}, shape({4, 6})},
      {"constraint", {{4, 6}}, {{"spec", PartitionSpec{{{"dp"}}}}}},
  };
}

}  // namespace shardplan::testing
