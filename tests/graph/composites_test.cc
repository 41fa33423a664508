// SPDX-License-Identifier: Apache-2.0

#include "graph/composites.h"

#include <cmath>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "graph/graph.h"
#include "tests/support/built_graph.h"
#include "tests/support/whole_values.h"

namespace shardplan {
namespace {

using testing::built_graph;

// Numbers that are all different, of both signs.
std::vector<double> numbers(int64_t count, double phase) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(std::sin(phase + 1.7 * static_cast<double>(i)));
  }
  return values;
}

// The numbers of inputs and parameters, by name.
using Given = std::map<std::string, std::vector<double>>;

struct Run {
  Given given;
  std::map<std::string, std::vector<double>> results;
  std::string ops;
};

// One operation on `values`: "x: [2, 3], w: [3]".
Run run(const std::string& values, const std::string& op) {
  const auto built =
      built_graph("graph: g\ninputs: {" + values + "}\nops: [" + op + "]\n");
  REQUIRE_MESSAGE(built->graph, built->messages);
  Run result;
  PerValue<Tensor> tensors;
  for (const Value& value : built->graph->values) {
    tensors.emplace_back();
    if (value.kind == Value::Kind::Result) continue;
    const auto count = element_count(value.shape).value();
    const auto phase = static_cast<double>(tensors.size());
    result.given[value.name] = numbers(count, phase);
    tensors.back() =
        make_tensor(Element::F64, value.shape, result.given[value.name]);
  }
  const auto all = evaluate(*built->graph, tensors, Arithmetic::F64);
  for (const ValueId output : built->graph->outputs) {
    result.results[built->graph->values[output].name] = values_of(all[output]);
  }
  result.ops = built->ops();
  return result;
}

void check_close(const std::vector<double>& got,
                 const std::vector<double>& expected) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-12));
  }
}

// Rows of x [rows, 3] times w [3, 4].
std::vector<double> product(const std::vector<double>& x,
                            const std::vector<double>& w) {
  std::vector<double> result;
  for (size_t row = 0; row < x.size() / 3; ++row) {
    for (size_t j = 0; j < 4; ++j) {
      double sum = 0;
      for (size_t k = 0; k < 3; ++k) sum += x[row * 3 + k] * w[k * 4 + j];
      result.push_back(sum);
    }
  }
  return result;
}

TEST_CASE("linear multiplies, scales, then adds the bias") {
  for (const std::string shape : {"[3]", "[2, 3]", "[2, 2, 3]", "[0, 3]"}) {
    CAPTURE(shape);
    for (const auto& row : std::vector<std::pair<std::string, double>>{
             {"", 1},
             {", scale: 0.5", 0.5},
             {", scale: fan_in", 1 / std::sqrt(3.0)},
             {", scale: fan_out", 0.5}}) {
      CAPTURE(row.first);
      const Run made =
          run("x: " + shape + ", w: [3, 4], b: [4]",
              "{op: linear, in: [x, w, b], out: y" + row.first + "}");
      auto expected = product(made.given.at("x"), made.given.at("w"));
      for (size_t i = 0; i < expected.size(); ++i) {
        expected[i] = expected[i] * row.second + made.given.at("b")[i % 4];
      }
      check_close(made.results.at("y"), expected);
      CHECK(made.ops == (row.second == 1 ? "einsum add" : "einsum scale add"));
    }
  }
}

TEST_CASE("linear may have several results, of one product") {
  const Run made = run("x: [2, 3], w: [3, 4]",
                       "{op: linear, in: [x, w], out: [a, b], sizes: [1, 3]}");
  CHECK(made.ops == "einsum slice slice");
  const auto whole = product(made.given.at("x"), made.given.at("w"));
  check_close(made.results.at("a"), {whole[0], whole[4]});
  check_close(made.results.at("b"),
              {whole[1], whole[2], whole[3], whole[5], whole[6], whole[7]});
}

TEST_CASE("matmul multiplies matrices one by one, or all by one") {
  const Run one =
      run("x: [2, 3], w: [3, 4]", "{op: matmul, in: [x, w], out: y}");
  check_close(one.results.at("y"),
              product(one.given.at("x"), one.given.at("w")));
  const Run many =
      run("x: [2, 1, 3], w: [2, 3, 4]", "{op: matmul, in: [x, w], out: y}");
  std::vector<double> expected;
  for (size_t i = 0; i < 2; ++i) {
    const auto& x = many.given.at("x");
    const auto& w = many.given.at("w");
    const auto at = static_cast<std::ptrdiff_t>(i);
    for (const double number :
         product({x.begin() + at * 3, x.begin() + at * 3 + 3},
                 {w.begin() + at * 12, w.begin() + at * 12 + 12})) {
      expected.push_back(number);
    }
  }
  check_close(many.results.at("y"), expected);
}

// Rows of five, normalised as a definition says.
std::vector<double> normalised(const Run& made, bool centred, double epsilon,
                               bool weight, bool bias) {
  std::vector<double> result;
  const auto& x = made.given.at("x");
  for (size_t row = 0; row < x.size() / 5; ++row) {
    double mean = 0;
    for (size_t i = 0; i < 5; ++i) mean += x[row * 5 + i] / 5;
    if (!centred) mean = 0;
    double square = 0;
    for (size_t i = 0; i < 5; ++i) {
      square += std::pow(x[row * 5 + i] - mean, 2) / 5;
    }
    for (size_t i = 0; i < 5; ++i) {
      double y = (x[row * 5 + i] - mean) / std::sqrt(square + epsilon);
      if (weight) y *= made.given.at("w")[i];
      if (bias) y += made.given.at("b")[i];
      result.push_back(y);
    }
  }
  return result;
}

TEST_CASE("norms are what their definitions say") {
  const std::string values = "x: [3, 5], w: [5], b: [5]";
  const Run rms = run(values, "{op: rms_norm, in: [x, w], out: y}");
  check_close(rms.results.at("y"), normalised(rms, false, 1e-6, true, false));
  const Run bare = run(values, "{op: rms_norm, in: x, out: y, epsilon: 0.25}");
  check_close(bare.results.at("y"),
              normalised(bare, false, 0.25, false, false));
  const Run layer = run(values, "{op: layer_norm, in: [x, w, b], out: y}");
  check_close(layer.results.at("y"), normalised(layer, true, 1e-6, true, true));
  const Run weighted =
      run(values, "{op: layer_norm, in: [x, w], out: y, epsilon: 0.5}");
  check_close(weighted.results.at("y"),
              normalised(weighted, true, 0.5, true, false));
  const Run plain = run(values, "{op: layer_norm, in: x, out: y}");
  check_close(plain.results.at("y"),
              normalised(plain, true, 1e-6, false, false));
}

TEST_CASE("softmax is taken along any dimension") {
  const Run last = run("x: [2, 3]", "{op: softmax, in: x, out: y}");
  const Run first = run("x: [2, 3]", "{op: softmax, in: x, out: y, dim: 0}");
  const auto& x = last.given.at("x");
  std::vector<double> rows(6);
  std::vector<double> columns(6);
  for (size_t i = 0; i < 6; ++i) {
    double in_row = 0;
    for (size_t j = 0; j < 3; ++j) in_row += std::exp(x[i / 3 * 3 + j]);
    rows[i] = std::exp(x[i]) / in_row;
    columns[i] = std::exp(x[i]) / (std::exp(x[i % 3]) + std::exp(x[i % 3 + 3]));
  }
  check_close(last.results.at("y"), rows);
  check_close(first.results.at("y"), columns);
}

TEST_CASE("a sink takes a share of softmax that nobody gets") {
  const Run one =
      run("x: [2, 3], s: [2, 1]", "{op: softmax, in: [x, s], out: y}");
  const auto& x = one.given.at("x");
  const auto& sink = one.given.at("s");
  std::vector<double> rows(6);
  for (size_t i = 0; i < 6; ++i) {
    double in_row = std::exp(sink[i / 3]);
    for (size_t j = 0; j < 3; ++j) in_row += std::exp(x[i / 3 * 3 + j]);
    rows[i] = std::exp(x[i]) / in_row;
  }
  check_close(one.results.at("y"), rows);
}

TEST_CASE("split cuts where its sizes say, or evenly") {
  const Run even = run("x: [2, 4]", "{op: split, in: x, out: [a, b]}");
  const auto& x = even.given.at("x");
  check_close(even.results.at("a"), {x[0], x[1], x[4], x[5]});
  check_close(even.results.at("b"), {x[2], x[3], x[6], x[7]});
  const Run uneven = run(
      "x: [2, 4]", "{op: split, in: x, out: [a, b], dim: 0, sizes: [0, 2]}");
  CHECK(uneven.results.at("a").empty());
  check_close(uneven.results.at("b"), uneven.given.at("x"));
}

// What is wrong with one operation on these values.
std::string wrong(const std::string& op) {
  return built_graph(
             "graph: g\n"
             "inputs: {s: [], x: [2, 3], w: [3, 4], v: [2, 3, 4], n: [0, 4]}\n"
             "ops: [" +
             op + "]\n")
      ->messages;
}

TEST_CASE("composites that do not fit are refused with the shapes") {
  CHECK(wrong("{op: linear, in: [s, w], out: y}") ==
        "SP015 g:3:12 cannot multiply [] and [3, 4]");
  CHECK(wrong("{op: linear, in: [x, v], out: y}") ==
        "SP015 g:3:12 the kernel of `linear` has shape [2, 3, 4]");
  CHECK(wrong("{op: linear, in: [x, w, x], out: y}") ==
        "SP015 g:3:12 the bias of `linear` has shape [2, 3]");
  CHECK(wrong("{op: linear, in: [x, w], out: y, scale: bogus}") ==
        "SP015 g:3:12 `scale` cannot be `bogus`");
  CHECK(wrong("{op: linear, in: [x, w], out: [y, z], scale: fan_out}") ==
        "SP015 g:3:12 `scale: fan_out` is ambiguous with several results");
  CHECK(
      wrong("{op: linear, in: [x, n], out: y, scale: fan_in}") ==
      "SP015 g:3:12 `scale` needs a fan above 0: the kernel has shape [0, 4]");
  CHECK(wrong("{op: linear, in: [x, w], out: [a, b, c]}") ==
        "SP015 g:3:12 cannot split a dimension of size 4 into 3 equal parts");
  CHECK(wrong("{op: split, in: x, out: [a, b], sizes: [1, 1]}") ==
        "SP015 g:3:12 `sizes` does not fit");
  CHECK(wrong("{op: split, in: x, out: [a, b], sizes: [4, -1]}") ==
        "SP015 g:3:12 `sizes` does not fit");
  CHECK(wrong("{op: split, in: x, out: [a, b], dim: 2}") ==
        "SP015 g:3:12 `dim` is not a dimension of [2, 3]");
  CHECK(wrong("{op: split, in: s, out: [a, b]}") ==
        "SP015 g:3:12 `dim` is not a dimension of []");
  CHECK(wrong("{op: softmax, in: x, out: y, dim: 0.5}") ==
        "SP015 g:3:12 `dim` is not a dimension of [2, 3]");
  CHECK(wrong("{op: softmax, in: [x, x], out: y, dim: 5}") ==
        "SP015 g:3:12 [2, 3] has no dimension 5");
  CHECK(wrong("{op: softmax, in: [x, x], out: y}") ==
        "SP015 g:3:12 the sinks of a softmax over [2, 3] have shape [2, 3]");
  CHECK(wrong("{op: rms_norm, in: s, out: y}") ==
        "SP015 g:3:12 a scalar has no features to normalise");
  CHECK(wrong("{op: layer_norm, in: [x, w], out: y}") ==
        "SP015 g:3:12 a norm of [2, 3] has a parameter of shape [3, 4]");
}

TEST_CASE("composites are not called as operations are, and say what they do") {
  std::set<std::string> names;
  for (const CompositeDef& composite : composites()) {
    CAPTURE(composite.name);
    CHECK(find_op(composite.name) == nullptr);
    CHECK(find_composite(composite.name) == &composite);
    CHECK_FALSE(composite.summary.empty());
    CHECK(names.insert(std::string(composite.name)).second);
  }
  CHECK(find_composite("einsum") == nullptr);
}

}  // namespace

}  // namespace shardplan
