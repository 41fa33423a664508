// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding (Su et al., "RoFormer", 2021).
//
// Rotates pairs among the first `rotary_dim` numbers of a head by position *
// frequency[i]. A pair is i and i + rotary_dim/2, the order of Hugging Face's
// rotate_half; with `interleaved`, it is two neighbours, as in the paper.
// Frequencies and their scalings are those of transformers'
// modeling_rope_utils.py ("default", "linear", "llama3"), or are given one by
// one. Positions count from the start of the whole length, even on a device
// that has a part of it.
//
// In the field, cosines and sines are random residues that depend on the
// position and the index of the frequency. So the operation is as linear as in
// reals, and no two positions are alike.
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "base/checked.h"
#include "graph/elementwise.h"
#include "graph/ops/ops.h"
#include "graph/random.h"

namespace shardplan {
namespace {

using Kind = AttributeDef::Kind;

struct Rotation {
  size_t dim = 0;  // the dimension of positions
  int64_t rotary = 0;
  int64_t first = 0;  // the position of index 0 of the whole
  double theta = 0;
  std::string_view scaling;
  double factor = 1;
  double low = 0;
  double high = 0;
  double original = 0;
  // Given one by one; empty: they follow from the above.
  std::span<const double> frequencies;
  double amplitude = 1;
  bool interleaved = false;
};

// REQUIRES: infer_rotated returned a shape.
Rotation rotation_of(const Attributes& attributes, const Shape& shape) {
  const auto given = numbers_of(attributes, "frequencies");
  const int64_t all = given.empty() ? shape.back() : 2 * std::ssize(given);
  return {.dim = dim_of(attributes, shape.size()),
          .rotary = integer_of(attributes, "rotary_dim", all),
          .first = integer_of(attributes, "offset", 0),
          .theta = number_of(attributes, "theta", 10'000),
          .scaling = text_of(attributes, "scaling", "none"),
          .factor = number_of(attributes, "factor", 1),
          .low = number_of(attributes, "low_freq_factor", 1),
          .high = number_of(attributes, "high_freq_factor", 4),
          .original = number_of(attributes, "original_positions", 0),
          .frequencies = given,
          .amplitude = number_of(attributes, "amplitude", 1),
          .interleaved = number_of(attributes, "interleaved", 0) != 0};
}

// Returns what is wrong with frequencies that are given one by one, or "".
std::string problem_of_given(const Rotation& rotation,
                             const Attributes& attributes) {
  if (!attributes.contains("frequencies")) return "";
  if (attributes.contains("theta") || attributes.contains("scaling")) {
    return "`frequencies` cannot be combined with `theta` or `scaling`";
  }
  const int64_t pairs = std::ssize(rotation.frequencies);
  if (rotation.rotary != 2 * pairs) {
    return std::to_string(pairs) + " frequencies for " +
           std::to_string(rotation.rotary) + " rotated values";
  }
  for (const double each : rotation.frequencies) {
    if (!std::isfinite(each)) return "a frequency is not finite";
  }
  return "";
}

std::optional<Shape> infer_rotated(ShapeSpan operands,
                                   const Attributes& attributes, Span where,
                                   Diagnostics& diags) {
  const Shape& shape = operands[0];
  const auto dim = find_integer(attributes, "dim", 1, where, diags);
  const auto first = find_integer(attributes, "offset", 0, where, diags);
  if (!dim || !first) return std::nullopt;
  const auto at = find_dim(*dim, shape, where, diags);
  if (!at) return std::nullopt;
  if (*at + 1 == shape.size()) {
    return refuse(
        diags, where,
        "dimension " + std::to_string(*at) + " of " + shape_text(shape) +
            " cannot be both positions and a head",
        "the last dimension is rotated; give another `dim` for positions");
  }
  if (!find_integer(attributes, "rotary_dim", 0, where, diags)) {
    return std::nullopt;
  }
  const Rotation rotation = rotation_of(attributes, shape);
  if (rotation.rotary < 0 || rotation.rotary > shape.back() ||
      rotation.rotary % 2 != 0) {
    return refuse(diags, where,
                  "cannot rotate " + std::to_string(rotation.rotary) +
                      " values of a head of " + shape_text(shape),
                  "values are rotated in pairs: give an even `rotary_dim` up "
                  "to the size of the last dimension");
  }
  if (*first < 0) {
    return refuse(diags, where, "`offset` is " + std::to_string(*first),
                  "positions are counted from 0");
  }
  if (const std::string problem = problem_of_given(rotation, attributes);
      !problem.empty()) {
    return refuse(
        diags, where, problem,
        "give one frequency per rotated pair, without `theta` and `scaling`");
  }
  if (!std::isfinite(rotation.amplitude)) {
    return refuse(diags, where, "`amplitude` is not finite",
                  "the default, 1, leaves lengths unchanged");
  }
  if (rotation.scaling != "none" && rotation.scaling != "linear" &&
      rotation.scaling != "llama3") {
    return refuse(diags, where,
                  "unknown scaling `" + std::string(rotation.scaling) + "`",
                  "give `none`, `linear` or `llama3`");
  }
  if (!(rotation.theta > 0) || !(rotation.factor > 0)) {
    return refuse(diags, where, "`theta` and `factor` must be above 0",
                  "the defaults are 10000 and 1");
  }
  if (rotation.scaling == "llama3" &&
      !(rotation.original > 0 && rotation.low > 0 &&
        rotation.high > rotation.low)) {
    return refuse(diags, where,
                  "`llama3` needs `original_positions` above 0, and "
                  "`high_freq_factor` above `low_freq_factor`",
                  "Llama 3.1 uses 8192, 4 and 1");
  }
  return shape;
}

ShardingRule rotation_rule(ShapeSpan operands, const Attributes&) {
  ShardingRule rule;
  rule.result = add_factors(rule, operands[0], operands[0].size() - 1);
  rule.operands = {rule.result};
  return rule;
}

// Returns the frequency of a pair, in radians per position.
double frequency(const Rotation& rotation, int64_t number) {
  if (!rotation.frequencies.empty()) return nth(rotation.frequencies, number);
  const double exponent =
      2 * static_cast<double>(number) / static_cast<double>(rotation.rotary);
  const double plain = std::pow(rotation.theta, -exponent);
  if (rotation.scaling == "none") return plain;
  if (rotation.scaling == "linear") return plain / rotation.factor;
  const double turns = rotation.original * plain / (2 * std::numbers::pi);
  if (turns > rotation.high) return plain;
  if (turns < rotation.low) return plain / rotation.factor;
  const double smooth = (turns - rotation.low) / (rotation.high - rotation.low);
  return (1 - smooth) * plain / rotation.factor + smooth * plain;
}

// Returns the cosine and the sine, one after the other, for every position and
// frequency.
template <typename T>
std::vector<T> turns_of(RealRing<T>, const Rotation& rotation, int64_t begin,
                        int64_t count) {
  std::vector<double> frequencies;
  for (int64_t i = 0; i < rotation.rotary / 2; ++i) {
    frequencies.push_back(frequency(rotation, i));
  }
  std::vector<T> turns;
  turns.reserve(to_size(count * rotation.rotary));
  for (int64_t i = 0; i < count; ++i) {
    const auto position = static_cast<double>(begin + i);
    for (const double each : frequencies) {
      const double angle = position * each;
      turns.push_back(static_cast<T>(rotation.amplitude * std::cos(angle)));
      turns.push_back(static_cast<T>(rotation.amplitude * std::sin(angle)));
    }
  }
  return turns;
}

std::vector<double> turns_of(FieldRing, const Rotation& rotation, int64_t begin,
                             int64_t count) {
  const int64_t pairs = rotation.rotary / 2;
  std::vector<double> turns;
  turns.reserve(to_size(count * rotation.rotary));
  for (int64_t i = 0; i < count; ++i) {
    const RandomKey position = random_key(begin + i);
    for (int64_t pair = 0; pair < pairs; ++pair) {
      for (const uint32_t bits :
           fold_in(position, static_cast<uint32_t>(pair))) {
        turns.push_back(field::residue(bits));
      }
    }
  }
  return turns;
}

// Rotates every pair in place.
template <typename Ring, typename T = typename Ring::Number>
void rotate(const Tensor& heads, const Rotation& rotation,
            const std::vector<T>& turns) {
  const size_t dim = rotation.dim;
  int64_t inner = 1;  // heads between two positions
  for (size_t d = dim + 1; d + 1 < heads.shape.size(); ++d) {
    inner *= heads.shape[d];
  }
  const int64_t head = heads.shape.back();
  const int64_t count = heads.shape[dim];
  const int64_t rows = heads.elements() == 0 ? 0 : heads.elements() / head;
  const int64_t pairs = rotation.rotary / 2;
  const int64_t step = rotation.interleaved ? 2 : 1;
  const int64_t apart = rotation.interleaved ? 1 : pairs;
  T* row = heads.data<T>();
  for (int64_t i = 0; i < rows; ++i, row += head) {
    const T* at = turns.data() + i / inner % count * rotation.rotary;
    for (int64_t pair = 0; pair < pairs; ++pair, at += 2) {
      T& a = row[pair * step];
      T& b = row[pair * step + apart];
      const T x = a;
      a = Ring::subtract(Ring::multiply(x, at[0]), Ring::multiply(b, at[1]));
      b = Ring::add(Ring::multiply(b, at[0]), Ring::multiply(x, at[1]));
    }
  }
}

Tensor run_rotated(TensorSpan operands, const Attributes& attributes,
                   const RunContext& context) {
  const Tensor result = copy(operands[0]);
  const Rotation rotation = rotation_of(attributes, result.shape);
  const DimRange part =
      range_of(context.rule->operands[0][rotation.dim], context);
  const int64_t begin = rotation.first + part.begin;
  const int64_t count = result.shape[rotation.dim];
  for_ring(context.arithmetic, [&]<typename Ring>(Ring ring) {
    rotate<Ring>(result, rotation, turns_of(ring, rotation, begin, count));
  });
  return result;
}

}  // namespace

OpDef rope_op() {
  return {
      .name = "rope",
      .summary = "heads [.., D] rotated by their positions (RoPE)",
      .linearity = Linearity::Additive,
      .attributes =
          {{"dim", Kind::Number, false,
            "the dimension of positions; default 1"},
           {"theta", Kind::Number, false,
            "base of the frequencies; default 10000"},
           {"rotary_dim", Kind::Number, false,
            "number of values of a head to rotate; default all"},
           {"offset", Kind::Number, false, "the first position; default 0"},
           {"scaling", Kind::Text, false, "none (default), linear or llama3"},
           {"factor", Kind::Number, false,
            "factor that lowers the frequencies; default 1"},
           {"low_freq_factor", Kind::Number, false, "llama3 only; default 1"},
           {"high_freq_factor", Kind::Number, false, "llama3 only; default 4"},
           {"original_positions", Kind::Number, false,
            "llama3 only: the length before scaling"},
           {"frequencies", Kind::Numbers, false,
            "radians per position for each pair, instead of theta and scaling"},
           {"amplitude", Kind::Number, false,
            "factor on the rotated values; default 1"},
           {"interleaved", Kind::Number, false,
            "1: pairs are adjacent; 0 (default): rotary_dim / 2 apart"}},
      .factors = "every dimension but the last",
      .infer = infer_rotated,
      .rule = rotation_rule,
      .flops = flops_per_element<3>,
      .run = run_rotated,
      .recompute_cost = RecomputeCost::Cheap,
      .gradient = {.operands = ReadOperands::None},
      .inner_steps = [](const Attributes&) { return InnerSteps::Angles; }};
}

}  // namespace shardplan
