// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <functional>
#include <limits>

#include <doctest/doctest.h>

#include "tests/support/op_samples.h"

namespace shardplan {
namespace {

using testing::kArithmetics;
using testing::numbers;
using testing::run;

struct Row {
  const char* op;
  Attributes attributes;
  std::function<double(double)> real;
};

const std::vector<Row> kRows = {
    {"scale", {{"by", 0.3}}, [](double x) { return 0.3 * x; }},
    {"negate", {}, [](double x) { return -x; }},
    {"square", {}, [](double x) { return x * x; }},
    {"exp", {}, [](double x) { return std::exp(x); }},
    {"rsqrt",
     {{"epsilon", 0.5}},
     [](double x) { return 1 / std::sqrt(x + 0.5); }},
    {"rsqrt", {}, [](double x) { return 1 / std::sqrt(x); }},
};

TEST_CASE("functions of one number, in float and double") {
  for (const Row& row : kRows) {
    CAPTURE(row.op);
    for (const Arithmetic arithmetic : {Arithmetic::F32, Arithmetic::F64}) {
      const double unit = arithmetic == Arithmetic::F32 ? 0x1p-23 : 0x1p-52;
      const Tensor x =
          numbers(arithmetic, {2, 5}, 1, {testing::Domain::Positive});
      const std::vector<double> in = values_of(x);
      const std::vector<double> out =
          values_of(run(row.op, {x}, row.attributes, arithmetic));
      for (size_t i = 0; i < in.size(); ++i) {
        CHECK(out[i] == doctest::Approx(row.real(in[i])).epsilon(4 * unit));
      }
    }
  }
}

TEST_CASE("multiples and squares are those of the field") {
  const double three[] = {3, 0, static_cast<double>(field::kPrime - 1)};
  const Tensor x = make_tensor(Element::F64, {3}, three);
  const auto value = [&](const char* op, const Attributes& attributes) {
    return values_of(run(op, {x}, attributes, Arithmetic::Field));
  };
  const double minus_one = static_cast<double>(field::kPrime - 1);
  CHECK(value("negate", {}) == std::vector<double>{minus_one - 2, 0, 1});
  CHECK(value("square", {}) == std::vector<double>{9, 0, 1});
  // 0.25 is 1/4: four times it gives the number back.
  const std::vector<double> quarters = value("scale", {{"by", 0.25}});
  for (size_t i = 0; i < quarters.size(); ++i) {
    CHECK(field::multiply(quarters[i], 4) == three[i]);
  }
}

TEST_CASE("exp of a masked score is 0, and nothing overflows unseen") {
  const double extremes[] = {-std::numeric_limits<double>::infinity(), -1000, 0,
                             1000};
  for (const Element element : {Element::F32, Element::F64}) {
    const Tensor x = make_tensor(element, {4}, extremes);
    const Arithmetic arithmetic =
        element == Element::F32 ? Arithmetic::F32 : Arithmetic::F64;
    CHECK(
        values_of(run("exp", {x}, {}, arithmetic)) ==
        std::vector<double>{0, 0, 1, std::numeric_limits<double>::infinity()});
  }
}

TEST_CASE("a scalar and an empty tensor keep their shapes") {
  for (const Row& row : kRows) {
    for (const Arithmetic arithmetic : kArithmetics) {
      for (const Shape& shape : {Shape{}, Shape{0, 3}}) {
        CHECK(run(row.op, {numbers(arithmetic, shape, 1)}, row.attributes,
                  arithmetic)
                  .shape == shape);
      }
    }
  }
}

}  // namespace
}  // namespace shardplan
