// SPDX-License-Identifier: Apache-2.0
#include "sim/values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "graph/elementwise.h"
#include "graph/random.h"
#include "tests/support/messages.h"
#include "tests/support/small_graph.h"
#include "tests/support/whole_values.h"

namespace shardplan {
namespace {

using testing::SmallGraph;

struct Linear {
  Linear() : g("tp=1") {
    x = g.input({4, 8}, "");
    kernel = g.parameter({8, 16}, "");
    bias = g.parameter({16}, "");
    ids = g.input({4, 8}, "", 10);
    g.node("add", {g.einsum("bd,df->bf", x, kernel), bias});
  }
  SmallGraph g;
  ValueId x, kernel, bias, ids;
};

const Tensor& of(const PerValue<Tensor>& values, ValueId value) {
  return values[value];
}

size_t distinct(const Tensor& tensor) {
  const std::vector<double> numbers = values_of(tensor);
  return std::set<double>(numbers.begin(), numbers.end()).size();
}

TEST_CASE("values: the names of --values") {
  CHECK(find_value_source("random") == ValueSource::Random);
  CHECK(find_value_source("init") == ValueSource::Init);
  CHECK(find_value_source("field") == ValueSource::Field);
  CHECK_FALSE(find_value_source("zeros").has_value());
}

TEST_CASE("values: a seed draws the same numbers again, another one others") {
  const Linear l;
  for (const ValueSource source :
       {ValueSource::Random, ValueSource::Init, ValueSource::Field}) {
    const PerValue<Tensor> once = l.g.values(source, 3);
    const PerValue<Tensor> again = l.g.values(source, 3);
    const PerValue<Tensor> other = l.g.values(source, 4);
    for (const ValueId value : {l.x, l.kernel, l.ids}) {
      CHECK(bitwise_equal(of(once, value), of(again, value)));
      CHECK_FALSE(bitwise_equal(of(once, value), of(other, value)));
    }
  }
}

TEST_CASE("values: random numbers vary in every tensor, biases too") {
  const Linear l;
  const PerValue<Tensor> values = l.g.values(ValueSource::Random);
  CHECK(distinct(of(values, l.bias)) > 8);
  CHECK(distinct(of(values, l.kernel)) > 64);
  CHECK(of(values, l.x).element == Element::F32);
  // Results are not given.
  CHECK(values.back().storage == nullptr);
}

TEST_CASE("values: weights are scaled by the square root of what they sum") {
  SmallGraph g("tp=1");
  const ValueId w = g.parameter({400, 50}, "");
  const PerValue<Tensor> values = g.values(ValueSource::Random);
  double squares = 0;
  for (const double number : values_of(of(values, w))) {
    squares += number * number;
  }
  // 20,000 numbers of variance 1/400.
  CHECK(squares == doctest::Approx(50).epsilon(0.05));
}

TEST_CASE("values: ids are integers below their limit, and reach it") {
  const Linear l;
  for (const ValueSource source : {ValueSource::Random, ValueSource::Field}) {
    const PerValue<Tensor> values = l.g.values(source);
    std::set<double> seen;
    for (const double id : values_of(of(values, l.ids))) {
      seen.insert(id);
      CHECK(id == static_cast<double>(static_cast<int>(id)));
      CHECK(id >= 0);
      CHECK(id < 10);
    }
    CHECK(seen.size() >= 8);
  }
}

TEST_CASE("values: the field has residues in doubles") {
  const Linear l;
  const PerValue<Tensor> values = l.g.values(ValueSource::Field);
  CHECK(of(values, l.x).element == Element::F64);
  for (const ValueId value : {l.x, l.kernel, l.bias}) {
    for (const double number : values_of(of(values, value))) {
      CHECK(number == static_cast<double>(static_cast<int64_t>(number)));
      CHECK(number >= 0);
      CHECK(number < static_cast<double>(field::kPrime));
    }
  }
}

TEST_CASE(
    "values: init draws parameter i from fold_in(key(seed), i), as "
    "flax.nnx does") {
  Linear l;
  l.g.graph.values[l.bias].initialiser = {"normal", 1, 0.5};
  const PerValue<Tensor> values = l.g.values(ValueSource::Init, 42);
  const auto kernel = initialise({"lecun_normal", 1, 0.01},
                                 fold_in(random_key(42), 0), {8, 16});
  const auto bias =
      initialise({"normal", 1, 0.5}, fold_in(random_key(42), 1), {16});
  REQUIRE(kernel.has_value());
  REQUIRE(bias.has_value());
  const auto floats = [](const Tensor& tensor) {
    return std::vector<float>(tensor.data<float>(),
                              tensor.data<float>() + tensor.elements());
  };
  CHECK(floats(of(values, l.kernel)) == *kernel);
  CHECK(floats(of(values, l.bias)) == *bias);
}

TEST_CASE("values: an initialiser that counts fans refuses a vector") {
  Linear l;
  Value& bias = l.g.graph.values[l.bias];
  bias.initialiser.name = "lecun_normal";
  Diagnostics diags;
  CHECK_FALSE(make_values(l.g.graph, ValueSource::Init, 0, diags).has_value());
  CHECK(testing::messages(diags).find("SP015") != std::string::npos);
}

TEST_CASE("values: shards are drawn as a wrapped module draws them") {
  SmallGraph g("tp=1");
  const ValueId w = g.parameter({3, 8, 4}, "");
  Initialiser& how = g.graph.values[w].initialiser;
  how.name = "lecun_normal";
  how.per_shard = true;
  const Tensor split = of(g.values(ValueSource::Init, 5), w);
  const auto second =
      initialise(how, fold_in(fold_in(random_key(5), 0), 1), {8, 4});
  const std::vector<double> got = values_of(slice(split, 0, 1, 2));
  CHECK(std::equal(got.begin(), got.end(), second->begin(), second->end()));
  how.mask_except = 1;
  const Tensor masked = of(g.values(ValueSource::Init, 5), w);
  CHECK(bitwise_equal(slice(masked, 0, 1, 2), slice(split, 0, 1, 2)));
  CHECK(values_of(slice(masked, 0, 0, 1)) == std::vector<double>(32));
  how.mask_except.reset();
  how.split_rngs = false;
  const Tensor alike = of(g.values(ValueSource::Init, 5), w);
  CHECK(bitwise_equal(slice(alike, 0, 0, 1), slice(alike, 0, 2, 3)));
}

using testing::messages;

// Two outputs: `logits` [2] and `pooler_output` [1], and another value.
Graph two_outputs() {
  Graph graph;
  for (const auto& [name, shape] : std::vector<std::pair<std::string, Shape>>{
           {"x", {2}}, {"logits", {2}}, {"pooler_output", {1}}}) {
    Value value;
    value.name = name;
    value.shape = shape;
    graph.values.push_back(value);
  }
  graph.outputs = {ValueId(1), ValueId(2)};
  return graph;
}

struct Recorded {
  Manifest manifest;
  StoredTensors numbers;

  void add(const std::string& name, DType dtype, const Shape& shape,
           const std::vector<float>& values) {
    REQUIRE(manifest.add(name, {dtype, shape}, {}));
    const auto bytes = std::make_shared<std::vector<float>>(values);
    numbers.push_back({dtype, shape,
                       reinterpret_cast<const std::byte*>(bytes->data()),
                       bytes});
  }
};

Tensor tensor(std::vector<double> values) {
  return make_tensor(Element::F32, {static_cast<int64_t>(values.size())},
                     values);
}

struct Compared {
  std::optional<std::vector<ExpectedError>> errors;
  std::string messages;
};

Compared compare(const Recorded& recorded, const std::vector<double>& unsharded,
                 const std::vector<double>& sharded) {
  const Graph graph = two_outputs();
  Diagnostics diags;
  Compared result;
  const std::vector<Tensor> plain = {tensor(unsharded), tensor({7})};
  const std::vector<Tensor> parts = {tensor(sharded), tensor({7})};
  result.errors = compare_expected(graph, {plain, parts, plain, parts},
                                   recorded.manifest, recorded.numbers, diags);
  result.messages = messages(diags);
  CHECK(result.errors.has_value() == !diags.has_errors());
  return result;
}

TEST_CASE("errors are relative to the largest number that is expected") {
  Recorded recorded;
  recorded.add("input_ids", DType::I64, {1}, {0, 0});
  recorded.add("logits", DType::F32, {2}, {1, -8});
  const Compared result = compare(recorded, {1.5, -8}, {1, -6});
  REQUIRE(result.errors);
  REQUIRE(result.errors->size() == 1);
  CHECK((*result.errors)[0].value == ValueId(1));
  CHECK((*result.errors)[0].unsharded == 0.5 / 8);
  CHECK((*result.errors)[0].sharded == 2.0 / 8);
  CHECK_FALSE((*result.errors)[0].agrees());
  CHECK((*result.errors)[0].exact == doctest::Approx(0.25));
}

TEST_CASE("both runs must agree") {
  Recorded recorded;
  recorded.add("logits", DType::F32, {2}, {1, 8});
  CHECK((*compare(recorded, {1, 8}, {1, 8}).errors)[0].agrees());
  CHECK_FALSE((*compare(recorded, {1, 8}, {1, 9}).errors)[0].agrees());
  CHECK_FALSE((*compare(recorded, {2, 8}, {1, 8}).errors)[0].agrees());
}

TEST_CASE("zeros, infinities and what is not a number") {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Recorded zeros;
  zeros.add("logits", DType::F32, {2}, {0, 0});
  CHECK((*compare(zeros, {0, 0}, {0, -0.0}).errors)[0].agrees());
  CHECK((*compare(zeros, {0, 0}, {0, 1}).errors)[0].sharded == inf);
  CHECK_FALSE((*compare(zeros, {0, nan}, {0, 0}).errors)[0].agrees());
  Recorded infinite;
  infinite.add("logits", DType::F32, {2},
               {std::numeric_limits<float>::infinity(), 0});
  CHECK((*compare(infinite, {inf, 0}, {inf, 0}).errors)[0].agrees());
  CHECK_FALSE((*compare(infinite, {inf, 0}, {-inf, 0}).errors)[0].agrees());
  // Beside an infinite number every difference was nothing.
  CHECK_FALSE((*compare(infinite, {inf, 0}, {inf, 5}).errors)[0].agrees());
  Recorded both;
  both.add("logits", DType::F32, {2},
           {-std::numeric_limits<float>::infinity(), 4});
  CHECK((*compare(both, {-inf, 4}, {-inf, 4}).errors)[0].agrees());
  CHECK((*compare(both, {-inf, 4}, {-inf, 5}).errors)[0].sharded == 0.25);
  CHECK_FALSE((*compare(both, {-inf, 4}, {nan, 4}).errors)[0].agrees());
}

TEST_CASE("every output that is there is compared, in the graph's order") {
  Recorded recorded;
  recorded.add("pooler_output", DType::F32, {1}, {7});
  recorded.add("logits", DType::F32, {2}, {1, 2});
  const Compared result = compare(recorded, {1, 2}, {1, 2});
  REQUIRE(result.errors);
  REQUIRE(result.errors->size() == 2);
  CHECK((*result.errors)[0].value == ValueId(1));
  CHECK((*result.errors)[1].value == ValueId(2));
}

TEST_CASE("what cannot be compared is reported") {
  Recorded shape;
  shape.add("logits", DType::F32, {1, 2}, {1, 2});
  CHECK(compare(shape, {1, 2}, {1, 2}).messages ==
        "SP010 the expected `logits` is [1, 2], but the run gives [2]");
  Recorded type;
  type.add("logits", DType::I32, {2}, {1, 2});
  CHECK(compare(type, {1, 2}, {1, 2}).messages ==
        "SP010 the expected `logits` is i32: outputs are floating-point");
  Recorded none;
  none.add("x", DType::F32, {2}, {1, 2});
  none.manifest.title = "e.safetensors";
  CHECK(compare(none, {1, 2}, {1, 2}).messages ==
        "SP010 `e.safetensors` has no output of the model");
}

}  // namespace

}  // namespace shardplan
