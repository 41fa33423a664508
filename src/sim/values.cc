// SPDX-License-Identifier: Apache-2.0
#include "sim/values.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "graph/field.h"
#include "graph/initialise.h"
#include "graph/random.h"

namespace shardplan {
namespace {

// Keeps the random numbers of inputs and of parameters apart.
constexpr int64_t kInputSeed = 0x1000'0000;

Tensor tensor_of(const std::vector<float>& numbers, const Shape& shape) {
  Tensor tensor = make_tensor(Element::F32, shape);
  std::copy(numbers.begin(), numbers.end(), tensor.data<float>());
  return tensor;
}

Tensor integers(Key key, const Value& value, Element element) {
  std::vector<double> numbers;
  for (const uint32_t bits : random_bits(key, *element_count(value.shape))) {
    numbers.push_back(
        static_cast<double>(static_cast<int64_t>(bits) % value.integers_below));
  }
  return make_tensor(element, value.shape, numbers);
}

Tensor residues(Key key, const Shape& shape) {
  std::vector<double> numbers;
  for (const uint32_t bits : random_bits(key, *element_count(shape))) {
    numbers.push_back(static_cast<double>(bits % field::kPrime));
  }
  return make_tensor(Element::F64, shape, numbers);
}

// Weights of unit variance would make activations grow with every layer.
Tensor normal(Key key, const Value& value) {
  std::vector<float> numbers = random_normal(key, *element_count(value.shape));
  if (value.kind == Value::Kind::Parameter && value.shape.size() >= 2) {
    const int64_t fan_in =
        std::max<int64_t>(1, value.shape[value.shape.size() - 2]);
    const float scale = 1 / std::sqrt(static_cast<float>(fan_in));
    for (float& number : numbers) number *= scale;
  }
  return tensor_of(numbers, value.shape);
}

// What a parameter without an initialiser is drawn by.
Initialiser default_initialiser(const Value& value) {
  Initialiser chosen;
  const bool is_bias = value.name.find("bias") != std::string::npos;
  chosen.name = value.shape.size() >= 2 ? "lecun_normal"
                : is_bias               ? "zeros"
                                        : "ones";
  return chosen;
}

std::optional<std::vector<float>> drawn(const Initialiser& how, Key key,
                                        const Shape& shape) {
  if (!how.per_shard) return initialise(how, key, shape);
  PerShard shards{static_cast<int>(shape[0]), how.split_rngs, {}};
  if (how.mask_except) shards.mask_except = static_cast<int>(*how.mask_except);
  return initialise_shards(how, key, Shape(shape.begin() + 1, shape.end()),
                           shards);
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
                    uint32_t index) {
  const Key key = fold_in(random_key(seed), index);
  const bool exact = source == ValueSource::Field;
  if (value.integers_below > 0) {
    return integers(key, value, exact ? Element::F64 : Element::F32);
  }
  return exact ? residues(key, value.shape) : normal(key, value);
}

std::optional<std::vector<Tensor>> make_values(const Graph& graph,
                                               ValueSource source, int64_t seed,
                                               Diagnostics& diags) {
  std::vector<Tensor> values(graph.values.size());
  uint32_t inputs = 0;
  uint32_t parameters = 0;
  for (size_t v = 0; v < values.size(); ++v) {
    const Value& value = graph.values[v];
    if (value.kind == Value::Kind::Input) {
      values[v] = random_value(value, source, seed + kInputSeed, inputs++);
      continue;
    }
    if (value.kind != Value::Kind::Parameter) continue;
    const uint32_t index = parameters++;
    if (source != ValueSource::Init) {
      values[v] = random_value(value, source, seed, index);
      continue;
    }
    const Initialiser chosen = value.initialiser.name.empty()
                                   ? default_initialiser(value)
                                   : value.initialiser;
    const auto numbers =
        drawn(chosen, fold_in(random_key(seed), index), value.shape);
    if (!numbers) {
      diags
          .error(Code::InvalidGraph, value.where,
                 "`" + chosen.name + "` cannot draw `" + value.name + "`")
          .fact("its shape is " + shape_text(value.shape))
          .help("an initialiser that counts fans needs two dimensions");
      return std::nullopt;
    }
    values[v] = tensor_of(*numbers, value.shape);
  }
  return values;
}

}  // namespace shardplan
