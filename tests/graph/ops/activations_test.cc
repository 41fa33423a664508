// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include <doctest/doctest.h>

#include "tests/support/op_samples.h"

namespace shardplan {
namespace {

using testing::inferred;
using testing::numbers;
using testing::run;

struct Row {
  const char* op;
  Attributes attributes;
  std::function<long double(long double)> real;
};

const long double kPi = std::acos(-1.0L);

const std::vector<Row> kRows = {
    {"relu", {}, [](long double x) { return std::max(x, 0.0L); }},
    {"gelu",
     {},
     [](long double x) {
       const long double u = std::sqrt(2 / kPi) * (x + 0.044715L * x * x * x);
       return x / 2 * (1 + std::tanh(u));
     }},
    {"gelu",
     {{"approximate", std::string("none")}},
     [](long double x) { return x / 2 * std::erfc(-x / std::sqrt(2.0L)); }},
    {"silu", {}, [](long double x) { return x / (1 + std::exp(-x)); }},
    {"tanh", {}, [](long double x) { return std::tanh(x); }},
    {"sigmoid", {}, [](long double x) { return 1 / (1 + std::exp(-x)); }},
};

TEST_CASE("activations are what their formulas say") {
  const std::vector<double> in = {-20,  -3,  -1.5, -0.25, -1e-6, 0,
                                  1e-6, 0.5, 1,    2.75,  20};
  const auto count = static_cast<int64_t>(in.size());
  for (const Row& row : kRows) {
    CAPTURE(row.op);
    for (const Arithmetic arithmetic : {Arithmetic::F32, Arithmetic::F64}) {
      const double tolerance = arithmetic == Arithmetic::F32 ? 1e-6 : 1e-14;
      const Tensor x = make_tensor(element_of(arithmetic), {count}, in);
      const std::vector<double> rounded = values_of(x);
      const std::vector<double> out =
          values_of(run(row.op, {x}, row.attributes, arithmetic));
      for (size_t i = 0; i < in.size(); ++i) {
        CAPTURE(in[i]);
        const auto expected = static_cast<double>(row.real(rounded[i]));
        CHECK(std::abs(out[i] - expected) <= tolerance);
      }
    }
  }
}

TEST_CASE("activations of huge numbers are their limits") {
  const double extremes[] = {-3e38, -1e30, -1e4, 1e4, 1e30, 3e38};
  const Tensor x = make_tensor(Element::F32, {6}, extremes);
  const auto value = [&](const char* op, const Attributes& attributes = {}) {
    return values_of(run(op, {x}, attributes, Arithmetic::F32));
  };
  const std::vector<double> in = values_of(x);
  const std::vector<double> ramp = {0, 0, 0, in[3], in[4], in[5]};
  CHECK(value("relu") == ramp);
  CHECK(value("silu") == ramp);
  CHECK(value("gelu") == ramp);
  CHECK(value("gelu", {{"approximate", std::string("none")}}) == ramp);
  CHECK(value("tanh") == std::vector<double>{-1, -1, -1, 1, 1, 1});
  CHECK(value("sigmoid") == std::vector<double>{0, 0, 0, 1, 1, 1});
}

TEST_CASE("what is no number stays none") {
  const double nan[] = {std::numeric_limits<double>::quiet_NaN()};
  const Tensor x = make_tensor(Element::F32, {1}, nan);
  for (const Row& row : kRows) {
    CAPTURE(row.op);
    CHECK(std::isnan(
        values_of(run(row.op, {x}, row.attributes, Arithmetic::F32))[0]));
  }
}

TEST_CASE("surrogates of different functions differ") {
  const Tensor x = numbers(Arithmetic::Field, {8}, 1);
  std::set<std::vector<double>> seen;
  for (const Row& row : kRows) {
    CAPTURE(row.op);
    CHECK(seen.insert(values_of(
                          run(row.op, {x}, row.attributes, Arithmetic::Field)))
              .second);
  }
  CHECK(seen.insert(values_of(run("exp", {x}, {}, Arithmetic::Field))).second);
}

TEST_CASE("gelu has two kinds") {
  CHECK(inferred("gelu", {{2}}, {{"approximate", std::string("erf")}}) ==
        "SP015 `approximate` of gelu is `erf`");
}

}  // namespace
}  // namespace shardplan
