// SPDX-License-Identifier: Apache-2.0
#include <functional>

#include <doctest/doctest.h>

#include "tests/support/op_samples.h"

namespace shardplan {
namespace {

using testing::inferred;
using testing::kArithmetics;
using testing::numbers;
using testing::run;

// In double, float or the field, written out.
using Function = std::function<double(double, double)>;

struct Row {
  const char* op;
  Function real;
  Function field;
};

const std::vector<Row> kRows = {
    {"add", [](double a, double b) { return a + b; }, field::add},
    {"subtract", [](double a, double b) { return a - b; },
     [](double a, double b) {
       return field::add(a, static_cast<double>(field::kPrime) - b);
     }},
    {"multiply", [](double a, double b) { return a * b; }, field::multiply},
    {"divide", [](double a, double b) { return a / b; },
     [](double a, double b) {
       return field::multiply(a, field::power(b, field::kPrime - 2));
     }},
};

TEST_CASE("two tensors, element by element, broadcast") {
  for (const Row& row : kRows) {
    CAPTURE(row.op);
    for (const Arithmetic arithmetic : kArithmetics) {
      // [3, 1, 2] and [4, 1]: [3, 4, 2].
      const Tensor x = numbers(arithmetic, {3, 1, 2}, 1);
      const Tensor y = numbers(arithmetic, {4, 1}, 2);
      const std::vector<double> a = values_of(x);
      const std::vector<double> b = values_of(y);
      const Tensor z = run(row.op, {x, y}, {}, arithmetic);
      REQUIRE(z.shape == Shape{3, 4, 2});
      const std::vector<double> c = values_of(z);
      for (size_t i = 0; i < c.size(); ++i) {
        const double p = a[i / 8 * 2 + i % 2];
        const double q = b[i / 2 % 4];
        double expected =
            (arithmetic == Arithmetic::Field ? row.field : row.real)(p, q);
        // Rounded once more than in float: the same for these four.
        if (arithmetic == Arithmetic::F32) {
          expected = static_cast<float>(expected);
        }
        CHECK(c[i] == expected);
      }
    }
  }
}

TEST_CASE("scalars and tensors without elements have results") {
  const Tensor scalar = numbers(Arithmetic::F64, {}, 1);
  const Tensor none = numbers(Arithmetic::F64, {2, 0}, 1);
  for (const Row& row : kRows) {
    CHECK(run(row.op, {scalar, scalar}, {}, Arithmetic::F64).shape == Shape{});
    CHECK(run(row.op, {none, scalar}, {}, Arithmetic::F64).shape ==
          Shape{2, 0});
  }
}

TEST_CASE("dividing by nothing is infinite, in the field 0") {
  const double one[] = {1, 0};
  const Tensor x = make_tensor(Element::F64, {2}, one);
  const Tensor zero = make_tensor(Element::F64, {1});
  const auto real = values_of(run("divide", {x, zero}, {}, Arithmetic::F64));
  CHECK(std::isinf(real[0]));
  CHECK(std::isnan(real[1]));
  CHECK(values_of(run("divide", {x, zero}, {}, Arithmetic::Field)) ==
        std::vector<double>{0, 0});
}

TEST_CASE("shapes that do not broadcast are refused") {
  CHECK(inferred("multiply", {{2, 3}, {4}}, {}) ==
        "SP015 shapes [2, 3] and [4] do not broadcast: 3 against 4");
}

}  // namespace
}  // namespace shardplan
