// SPDX-License-Identifier: Apache-2.0
#include "sim/expected.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/messages.h"

namespace shardplan {
namespace {

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
  graph.outputs = {1, 2};
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
  result.errors = compare_expected(
      graph, std::vector<Tensor>{tensor(unsharded), tensor({7})},
      std::vector<Tensor>{tensor(sharded), tensor({7})}, recorded.manifest,
      recorded.numbers, diags);
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
  CHECK((*result.errors)[0].value == 1);
  CHECK((*result.errors)[0].unsharded == 0.5 / 8);
  CHECK((*result.errors)[0].sharded == 2.0 / 8);
  CHECK_FALSE((*result.errors)[0].agrees());
  CHECK((*result.errors)[0].agrees(0.26));
}

TEST_CASE("both runs must agree") {
  Recorded recorded;
  recorded.add("logits", DType::F32, {2}, {1, 8});
  CHECK((*compare(recorded, {1, 8}, {1, 8}).errors)[0].agrees());
  CHECK_FALSE((*compare(recorded, {1, 8}, {1, 9}).errors)[0].agrees());
  CHECK_FALSE((*compare(recorded, {2, 8}, {1, 8}).errors)[0].agrees());
}

TEST_CASE("zeros, infinities and what is no number") {
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
  CHECK((*result.errors)[0].value == 1);
  CHECK((*result.errors)[1].value == 2);
}

TEST_CASE("what cannot be compared is told") {
  Recorded shape;
  shape.add("logits", DType::F32, {1, 2}, {1, 2});
  CHECK(compare(shape, {1, 2}, {1, 2}).messages ==
        "SP010 the expected `logits` is [1, 2], but the run gives [2]");
  Recorded type;
  type.add("logits", DType::I32, {2}, {1, 2});
  CHECK(compare(type, {1, 2}, {1, 2}).messages ==
        "SP010 the expected `logits` is i32: outputs are floating-point "
        "numbers");
  Recorded none;
  none.add("x", DType::F32, {2}, {1, 2});
  none.manifest.title = "e.safetensors";
  CHECK(compare(none, {1, 2}, {1, 2}).messages ==
        "SP010 `e.safetensors` holds no output of the model");
}

}  // namespace
}  // namespace shardplan
