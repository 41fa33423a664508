// SPDX-License-Identifier: Apache-2.0
#include "sim/values.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "core/types.h"
#include "graph/elementwise.h"
#include "graph/random.h"
#include "graph/tensor.h"

namespace shardplan {
namespace {

// Separates the random numbers of inputs from those of parameters.
constexpr int64_t kInputSeed = 0x1000'0000;

Tensor tensor_of(const std::vector<float>& numbers, const Shape& shape) {
  Tensor tensor = make_tensor(Element::F32, shape);
  std::copy(numbers.begin(), numbers.end(), tensor.data<float>());
  return tensor;
}

Tensor integers(RandomKey key, const Value& value, Element element,
                int threads) {
  std::vector<double> numbers;
  for (const uint32_t bits :
       random_bits(key, *element_count(value.shape), threads)) {
    numbers.push_back(
        static_cast<double>(static_cast<int64_t>(bits) % value.integers_below));
  }
  return make_tensor(element, value.shape, numbers);
}

Tensor residues(RandomKey key, const Shape& shape, int threads) {
  const Tensor tensor = make_tensor(Element::F64, shape);
  const std::vector<uint32_t> bits =
      random_bits(key, tensor.elements(), threads);
  std::transform(
      bits.begin(), bits.end(), tensor.data<double>(),
      [](uint32_t x) { return static_cast<double>(x % field::kPrime); });
  return tensor;
}

// Scales weights: with unit variance, they would make activations grow with
// every layer.
Tensor normal(RandomKey key, const Value& value, int threads) {
  std::vector<float> numbers =
      random_normal(key, *element_count(value.shape), threads);
  if (value.kind == Value::Kind::Parameter && value.shape.size() >= 2) {
    const int64_t fan_in =
        std::max<int64_t>(1, value.shape[value.shape.size() - 2]);
    const float scale = 1 / std::sqrt(static_cast<float>(fan_in));
    for (float& number : numbers) number *= scale;
  }
  return tensor_of(numbers, value.shape);
}

Initialiser initialiser_of(const Value& value) {
  if (!value.initialiser.name.empty()) return value.initialiser;
  return {.name = value.shape.size() >= 2        ? "lecun_normal"
                  : contains(value.name, "bias") ? "zeros"
                                                 : "ones"};
}

std::optional<std::vector<float>> drawn(const Initialiser& how, RandomKey key,
                                        const Shape& shape, int threads) {
  if (!how.per_shard) return initialise(how, key, shape, threads);
  PerShard shards{static_cast<int>(shape[0]), how.split_rngs, {}};
  if (how.mask_except) shards.mask_except = static_cast<int>(*how.mask_except);
  return initialise_shards(how, key, Shape(shape.begin() + 1, shape.end()),
                           shards, threads);
}

// Returns whether an initialiser fits, without drawing: the rank decides.
bool can_draw(const Value& value, Diagnostics& diags) {
  const Initialiser how = initialiser_of(value);
  const size_t rank = value.shape.size() - (how.per_shard ? 1 : 0);
  if (initialise(how, {}, Shape(rank, 0))) return true;
  diags
      .error(Code::InvalidGraph, value.where,
             "`" + how.name + "` cannot draw `" + value.name + "`")
      .fact("its shape is " + shape_text(value.shape))
      .help("a fan-based initialiser needs two dimensions");
  return false;
}

// The largest error of a two-byte recording that counts as rounding.
constexpr double kMostNarrowRounding = 0.05;

double output_error(const Tensor& output, const Tensor& expected) {
  const std::vector<double> got = values_of(output);
  const std::vector<double> wanted = values_of(expected);
  double difference = 0;
  double largest = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (std::isnan(got[i]) || std::isnan(wanted[i])) {
      return std::numeric_limits<double>::quiet_NaN();
    }
    // Equal infinities are no difference. They do not scale the other
    // differences either: relative to an infinity, every difference is zero.
    if (std::isinf(got[i]) || std::isinf(wanted[i])) {
      if (got[i] == wanted[i]) continue;
      return std::numeric_limits<double>::infinity();
    }
    difference = std::max(difference, std::abs(got[i] - wanted[i]));
    largest = std::max(largest, std::abs(wanted[i]));
  }
  return difference == 0 ? 0 : difference / largest;
}

// Returns the larger number, or NaN if either is NaN.
double larger(double a, double b) { return std::isnan(a) || a > b ? a : b; }

// Returns half a unit in the last place of 1.
double roundoff_of(DType dtype) {
  return unit_roundoff(dtype == DType::BF16  ? Storage::BF16
                       : dtype == DType::F16 ? Storage::F16
                                             : Storage::F32);
}

// Returns the error that rounding may cause in a recording. `own` is the error
// of our run in float32. A recording in doubles contains only the rounding of
// its sums.
double expected_tolerance(DType dtype, double own) {
  if (dtype == DType::F64 || !std::isfinite(own)) return kExpectedTolerance;
  const double coarser = roundoff_of(dtype) / unit_roundoff(Storage::F32);
  const double rounding =
      std::min(kTimesOwnRounding * own, kMostRounding) * coarser;
  if (coarser <= 1) return std::max(kExpectedTolerance, rounding);
  // In a two-byte recording, every number is itself rounded.
  return std::max({kExpectedTolerance, roundoff_of(dtype),
                   std::min(rounding, kMostNarrowRounding)});
}

// Reports an output that cannot be compared, and returns whether it can.
bool check_type(const Value& output, const TensorType& type, Span where,
                Diagnostics& diags) {
  const std::string what = "the expected " + in_backticks(output.name) + " is ";
  const std::string shape = shape_text(type.shape);
  if (!is_computable(type.dtype)) {
    diags.error(Code::Usage, where,
                what + std::string(dtype_name(type.dtype)) +
                    ": outputs are floating-point");
    return false;
  }
  if (type.shape != output.shape) {
    diags
        .error(Code::Usage, where,
               what + shape + ", but the run gives " + shape_text(output.shape))
        .help("the expected outputs must come from the same inputs");
    return false;
  }
  if (element_count(type.shape) != 0) return true;
  diags.error(Code::Usage, where,
              what + shape + ": there is nothing to compare");
  return false;
}

// The most tensors of a recording that a message lists.
constexpr size_t kMostNamed = 8;

void report_none(const Graph& graph, const Manifest& expected,
                 Diagnostics& diags) {
  const std::string outputs = joined_of(
      graph.outputs, ", ",
      [&](ValueId output) { return in_backticks(output_name(graph, output)); });
  std::string held;
  for (size_t i = 0; i < expected.size() && i < kMostNamed; ++i) {
    held += (i > 0 ? ", " : "") + in_backticks(expected.name(i));
  }
  if (expected.size() > kMostNamed) held += ", ..";
  diags
      .error(Code::Usage, expected.size() == 0 ? Span() : expected.where(0),
             in_backticks(expected.title) + " has no output of the model")
      .fact("its outputs are " + outputs)
      .fact("the file holds " + (held.empty() ? "no tensors" : held));
}

}  // namespace

std::optional<ValueSource> find_value_source(std::string_view name) {
  if (name == "random") return ValueSource::Random;
  if (name == "init") return ValueSource::Init;
  if (name == "field") return ValueSource::Field;
  if (name == "checkpoint") return ValueSource::Checkpoint;
  return std::nullopt;
}

Tensor random_value(const Value& value, ValueSource source, int64_t seed,
                    uint32_t index, int threads) {
  const RandomKey key = fold_in(random_key(seed), index);
  const bool exact = source == ValueSource::Field;
  if (value.integers_below > 0) {
    return integers(key, value, exact ? Element::F64 : Element::F32, threads);
  }
  return exact ? residues(key, value.shape, threads)
               : normal(key, value, threads);
}

std::optional<ReadValue> draw_values(const Graph& graph, ValueSource source,
                                     int64_t seed, Diagnostics& diags,
                                     int threads) {
  // The number of every input among inputs, and of every parameter among
  // parameters.
  PerValue<uint32_t> numbers;
  uint32_t inputs = 0;
  uint32_t parameters = 0;
  for (const Value& value : graph.values) {
    const bool is_input = value.kind == Value::Kind::Input;
    numbers.push_back(is_input ? inputs : parameters);
    inputs += is_input;
    if (value.kind != Value::Kind::Parameter) continue;
    ++parameters;
    if (source == ValueSource::Init && !can_draw(value, diags)) {
      return std::nullopt;
    }
  }
  return [&graph, source, seed, numbers, threads](ValueId v, Element element) {
    const Value& value = graph.values[v];
    if (value.kind == Value::Kind::Input) {
      return converted(
          random_value(value, source, seed + kInputSeed, numbers[v], threads),
          element);
    }
    if (source != ValueSource::Init) {
      return converted(random_value(value, source, seed, numbers[v], threads),
                       element);
    }
    const RandomKey key = fold_in(random_key(seed), numbers[v]);
    const auto drawn_numbers =
        drawn(initialiser_of(value), key, value.shape, threads);
    return converted(tensor_of(drawn_numbers.value(), value.shape), element);
  };
}

std::optional<std::vector<ExpectedError>> compare_expected(
    const Graph& graph, const RunOutputs& outputs, const Manifest& expected,
    const StoredTensors& numbers, Diagnostics& diags) {
  SHARDPLAN_CHECK(outputs.exact_unsharded.size() == graph.outputs.size() &&
                  outputs.exact_sharded.size() == graph.outputs.size() &&
                  outputs.unsharded.size() == graph.outputs.size() &&
                  outputs.sharded.size() == graph.outputs.size() &&
                  numbers.size() == expected.size());
  std::unordered_map<std::string_view, size_t> places;
  for (size_t i = 0; i < expected.size(); ++i) {
    places.emplace(expected.name(i), i);
  }
  std::vector<ExpectedError> errors;
  bool comparable = true;
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const ValueId value = graph.outputs[i];
    const Value& output = graph.values[value];
    auto found = places.find(output_name(graph, value));
    if (found == places.end()) found = places.find(output.name);
    if (found == places.end() && graph.outputs.size() == 1 &&
        expected.size() == 1) {
      found = places.begin();
    }
    if (found == places.end()) continue;
    if (!check_type(output, expected.type(found->second),
                    expected.where(found->second), diags)) {
      comparable = false;
      continue;
    }
    const Tensor wanted = load(numbers[found->second], Element::F64);
    const double own =
        output_error(outputs.unsharded[i],
                     converted(outputs.exact_unsharded[i], Element::F64));
    errors.push_back(
        {value, output_error(outputs.unsharded[i], wanted),
         output_error(outputs.sharded[i], wanted),
         larger(output_error(outputs.exact_unsharded[i], wanted),
                output_error(outputs.exact_sharded[i], wanted)),
         expected_tolerance(expected.type(found->second).dtype, own)});
  }
  if (!comparable) return std::nullopt;
  if (errors.empty()) {
    report_none(graph, expected, diags);
    return std::nullopt;
  }
  return errors;
}

}  // namespace shardplan
