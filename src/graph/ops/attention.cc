// SPDX-License-Identifier: Apache-2.0
// Causal mask: hides the attention scores of keys that a query may not see.
//
// The last query sees all keys: with Q queries and K keys, query q is at
// position q + K - Q. Keys after it are masked. A sliding window of w also
// masks the keys before the last w that the query could see (Beltagy et al.,
// "Longformer", 2020; Mistral counts the query's own position among the w). A
// window of 0 masks no earlier key, as in configurations. With chunks of c, a
// query sees only keys of its own chunk (Llama 4). With `ahead`, it also sees
// that many later keys, as in models that attend in both directions within a
// window (EmbeddingGemma).
#include <cmath>
#include <limits>
#include <numbers>
#include <string>

#include "graph/elementwise.h"
#include "graph/ops/ops.h"
#include "graph/random.h"

namespace shardplan {
namespace {

constexpr int64_t kMostAhead = int64_t{1} << 40U;

std::optional<Shape> infer_masked(std::span<const Shape> operands,
                                  const Attributes& attributes, Span where,
                                  Diagnostics& diags) {
  const Shape& shape = operands[0];
  if (shape.size() < 2) {
    return diags
        .error(Code::InvalidGraph, where,
               "scores " + shape_text(shape) + " have no queries and keys")
        .help("give them the shape [..., queries, keys]");
  }
  const auto window = find_integer(attributes, "window", 0, where, diags);
  const auto chunk = find_integer(attributes, "chunk", 0, where, diags);
  const auto ahead = find_integer(attributes, "ahead", 0, where, diags);
  if (!window || !chunk || !ahead) return std::nullopt;
  if (*ahead < 0 || *ahead > kMostAhead) {
    return refuse(diags, where,
                  "`ahead` is " + std::to_string(*ahead) + " keys",
                  "give 0, for none, or more");
  }
  if (*chunk < 0) {
    return refuse(diags, where,
                  "`chunk` is " + std::to_string(*chunk) + " keys",
                  "give at least 1, or 0 for one chunk");
  }
  if (*window >= 0) return shape;
  return diags
      .error(Code::InvalidGraph, where,
             "a window of " + std::to_string(*window) + " keys over scores " +
                 shape_text(shape) + " hides every key")
      .help("give `window` at least 1, or 0 for all earlier keys");
}

// The keys [begin, end) that a query sees, counted in the device's part.
struct Seen {
  int64_t begin = 0;
  int64_t end = 0;
};

class Mask {
 public:
  Mask(const DimRange& queries, const DimRange& keys, int64_t window,
       int64_t chunk, int64_t ahead)
      : queries_(queries),
        keys_(keys),
        window_(window),
        chunk_(chunk),
        ahead_(ahead) {}

  Seen seen_by(int64_t query) const {
    const int64_t position =
        queries_.begin + query + keys_.whole - queries_.whole;
    const int64_t end = position + 1;
    int64_t begin = window_ < end ? end - window_ : 0;
    if (chunk_ > 0 && position > 0) {
      begin = std::max(begin, position / chunk_ * chunk_);
    }
    return {in_part(begin), in_part(end + ahead_)};
  }

 private:
  int64_t in_part(int64_t key) const {
    return std::clamp<int64_t>(key - keys_.begin, 0, keys_.size);
  }

  DimRange queries_;
  DimRange keys_;
  int64_t window_;
  int64_t chunk_;  // 0: a single chunk
  int64_t ahead_;  // the number of later keys that a query sees
};

template <typename T>
void hide(const Mask& mask, T masked, const Tensor& scores) {
  const size_t rank = scores.shape.size();
  const int64_t queries = scores.shape[rank - 2];
  const int64_t keys = scores.shape[rank - 1];
  const int64_t rows = scores.elements() == 0 ? 0 : scores.elements() / keys;
  T* row = scores.data<T>();
  for (int64_t i = 0; i < rows; ++i, row += keys) {
    const Seen seen = mask.seen_by(i % queries);
    std::fill(row, row + seen.begin, masked);
    std::fill(row + seen.end, row + keys, masked);
  }
}

Tensor run_masked(std::span<const Tensor> operands,
                  const Attributes& attributes, const RunContext& context) {
  const Tensor result = copy(operands[0]);
  const std::vector<DimFactors>& dims = context.rule->operands[0];
  const int64_t window = integer_of(attributes, "window", 0);
  const Mask mask(range_of(dims[dims.size() - 2], context),
                  range_of(dims[dims.size() - 1], context),
                  window > 0 ? window : std::numeric_limits<int64_t>::max(),
                  integer_of(attributes, "chunk", 0),
                  integer_of(attributes, "ahead", 0));
  for_element_type(context.arithmetic, [&](auto type) {
    using T = typename decltype(type)::type;
    hide<T>(mask,
            context.arithmetic == Arithmetic::Field
                ? T{0}
                : -std::numeric_limits<T>::infinity(),
            result);
  });
  return result;
}

}  // namespace

OpDef causal_mask_op() {
  OpDef op;
  op.name = "causal_mask";
  op.summary =
      "scores [..., Q, K], with -inf for keys that a query may not see";
  op.attributes = {
      {"window", AttributeDef::Kind::Number, false,
       "number of keys a query sees, including its own; 0 (default): all "
       "earlier ones"},
      {"chunk", AttributeDef::Kind::Number, false,
       "chunk size: a query sees only keys of its own chunk; 0 (default): one "
       "chunk"},
      {"ahead", AttributeDef::Kind::Number, false,
       "number of later keys a query also sees; 0 (default): none"}};
  op.factors = "every dimension";
  op.is_mask = true;
  op.infer = infer_masked;
  op.rule = elementwise_rule;
  op.flops = flops_per_element<1>;
  op.run = run_masked;
  op.recompute_cost = RecomputeCost::Cheap;
  op.gradient = {.operands = ReadOperands::None};
  return op;
}

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

namespace {

struct Rotation {
  size_t dim = 0;  // the dimension of positions
  int64_t rotary = 0;
  int64_t first = 0;  // the position of index 0 of the whole
  double theta = 10'000;
  std::string_view scaling;
  double factor = 1;
  double low = 1;
  double high = 4;
  double original = 0;
  std::span<const double> frequencies;  // given one by one; empty: from the
                                        // above
  double amplitude = 1;
  bool interleaved = false;
};

// REQUIRES: infer_rotated returned a shape.
Rotation rotation_of(const Attributes& attributes, const Shape& shape) {
  Rotation rotation;
  rotation.dim = static_cast<size_t>(
      dim_at(integer_of(attributes, "dim", 1), shape.size()));
  rotation.frequencies = numbers_of(attributes, "frequencies");
  rotation.rotary =
      integer_of(attributes, "rotary_dim",
                 rotation.frequencies.empty()
                     ? shape.back()
                     : 2 * static_cast<int64_t>(rotation.frequencies.size()));
  rotation.amplitude = number_of(attributes, "amplitude", 1);
  rotation.interleaved = number_of(attributes, "interleaved", 0) != 0;
  rotation.first = integer_of(attributes, "offset", 0);
  rotation.theta = number_of(attributes, "theta", rotation.theta);
  rotation.scaling = text_of(attributes, "scaling", "none");
  rotation.factor = number_of(attributes, "factor", rotation.factor);
  rotation.low = number_of(attributes, "low_freq_factor", rotation.low);
  rotation.high = number_of(attributes, "high_freq_factor", rotation.high);
  rotation.original =
      number_of(attributes, "original_positions", rotation.original);
  return rotation;
}

// Returns what is wrong with frequencies that are given one by one, or "".
std::string problem_of_given(const Rotation& rotation,
                             const Attributes& attributes) {
  if (!attributes.contains("frequencies")) return "";
  if (attributes.contains("theta") || attributes.contains("scaling")) {
    return "`frequencies` cannot be combined with `theta` or `scaling`";
  }
  const auto pairs = static_cast<int64_t>(rotation.frequencies.size());
  if (rotation.rotary != 2 * pairs) {
    return std::to_string(pairs) + " frequencies for " +
           std::to_string(rotation.rotary) + " rotated values";
  }
  for (const double each : rotation.frequencies) {
    if (!std::isfinite(each)) return "a frequency is not finite";
  }
  return "";
}

std::optional<Shape> infer_rotated(std::span<const Shape> operands,
                                   const Attributes& attributes, Span where,
                                   Diagnostics& diags) {
  const Shape& shape = operands[0];
  const auto dim = find_integer(attributes, "dim", 1, where, diags);
  const auto first = find_integer(attributes, "offset", 0, where, diags);
  if (!dim || !first) return std::nullopt;
  const auto at = find_dim(*dim, shape, where, diags);
  if (!at) return std::nullopt;
  if (static_cast<size_t>(*at) + 1 == shape.size()) {
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

ShardingRule rotation_rule(std::span<const Shape> operands,
                           const Attributes& /*attributes*/) {
  ShardingRule rule;
  const Shape& shape = operands[0];
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    rule.result.push_back(add_factor(
        rule, shape[dim],
        dim + 1 == shape.size() ? FactorKind::Whole : FactorKind::Pass));
  }
  rule.operands.push_back(rule.result);
  return rule;
}

// Returns the frequency of a pair, in radians per position.
double frequency(const Rotation& rotation, int64_t number) {
  if (!rotation.frequencies.empty()) {
    return rotation.frequencies[static_cast<size_t>(number)];
  }
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
std::vector<T> turns_of(const Rotation& rotation, int64_t begin,
                        int64_t count) {
  std::vector<double> frequencies;
  for (int64_t i = 0; i < rotation.rotary / 2; ++i) {
    frequencies.push_back(frequency(rotation, i));
  }
  std::vector<T> turns;
  turns.reserve(static_cast<size_t>(count) * frequencies.size() * 2);
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

std::vector<double> field_turns(const Rotation& rotation, int64_t begin,
                                int64_t count) {
  const int64_t pairs = rotation.rotary / 2;
  std::vector<double> turns;
  turns.reserve(static_cast<size_t>(count * pairs * 2));
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
template <typename T, typename Turn>
void rotate(const Tensor& x, const Rotation& rotation,
            const std::vector<T>& turns, const Turn& turn) {
  const size_t dim = rotation.dim;
  int64_t inner = 1;  // heads between two positions
  for (size_t d = dim + 1; d + 1 < x.shape.size(); ++d) inner *= x.shape[d];
  const int64_t head = x.shape.back();
  const int64_t count = x.shape[dim];
  const int64_t rows = x.elements() == 0 ? 0 : x.elements() / head;
  const int64_t pairs = rotation.rotary / 2;
  const int64_t step = rotation.interleaved ? 2 : 1;
  const int64_t apart = rotation.interleaved ? 1 : pairs;
  T* row = x.data<T>();
  for (int64_t i = 0; i < rows; ++i, row += head) {
    const T* at = turns.data() + i / inner % count * rotation.rotary;
    for (int64_t pair = 0; pair < pairs; ++pair, at += 2) {
      T* const first = row + pair * step;
      turn(first[0], first[apart], at[0], at[1]);
    }
  }
}

Tensor run_rotated(std::span<const Tensor> operands,
                   const Attributes& attributes, const RunContext& context) {
  const Tensor result = copy(operands[0]);
  const Rotation rotation = rotation_of(attributes, result.shape);
  const DimRange part =
      range_of(context.rule->operands[0][rotation.dim], context);
  const int64_t begin = rotation.first + part.begin;
  const int64_t count = result.shape[rotation.dim];
  if (context.arithmetic == Arithmetic::Field) {
    rotate<double>(result, rotation, field_turns(rotation, begin, count),
                   [](double& a, double& b, double cosine, double sine) {
                     const double x = a;
                     a = field::residue(x * cosine - b * sine);
                     b = field::residue(b * cosine + x * sine);
                   });
    return result;
  }
  for_element_type(context.arithmetic, [&](auto type) {
    using T = typename decltype(type)::type;
    rotate<T>(result, rotation, turns_of<T>(rotation, begin, count),
              [](T& a, T& b, T cosine, T sine) {
                const T x = a;
                a = x * cosine - b * sine;
                b = b * cosine + x * sine;
              });
  });
  return result;
}

}  // namespace

OpDef rope_op() {
  OpDef op;
  op.name = "rope";
  op.summary = "heads [.., D] rotated by their positions (RoPE)";
  op.linearity = Linearity::Additive;
  using Kind = AttributeDef::Kind;
  op.attributes = {
      {"dim", Kind::Number, false, "the dimension of positions; default 1"},
      {"theta", Kind::Number, false, "base of the frequencies; default 10000"},
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
       "1: pairs are adjacent; 0 (default): rotary_dim / 2 apart"}};
  op.factors = "every dimension but the last";
  op.infer = infer_rotated;
  op.rule = rotation_rule;
  op.flops = flops_per_element<3>;
  op.run = run_rotated;
  op.recompute_cost = RecomputeCost::Cheap;
  op.inner_steps = [](const Attributes&) { return InnerSteps::Angles; };
  op.gradient = {.operands = ReadOperands::None};
  return op;
}

}  // namespace shardplan
