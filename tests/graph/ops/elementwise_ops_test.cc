// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <string_view>

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
    {"maximum", [](double a, double b) { return std::max(a, b); },
     field::maximum},
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
        // Rounded once more than in float: the same for these.
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

struct UnaryRow {
  const char* op;
  Attributes attributes;
  std::function<double(double)> real;
};

const std::vector<UnaryRow> kUnaryRows = {
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
  for (const UnaryRow& row : kUnaryRows) {
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
  for (const UnaryRow& row : kUnaryRows) {
    for (const Arithmetic arithmetic : kArithmetics) {
      for (const Shape& shape : {Shape{}, Shape{0, 3}}) {
        CHECK(run(row.op, {numbers(arithmetic, shape, 1)}, row.attributes,
                  arithmetic)
                  .shape == shape);
      }
    }
  }
}

struct ActivationsRow {
  const char* op;
  Attributes attributes;
  std::function<long double(long double)> real;
};

const long double kPi = std::acos(-1.0L);

const std::vector<ActivationsRow> kActivationsRows = {
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
    {"softplus", {}, [](long double x) { return std::log1p(std::exp(x)); }},
    {"clamp",
     {{"min", -1.5}, {"max", 0.75}},
     [](long double x) { return std::clamp(x, -1.5L, 0.75L); }},
    {"clamp",
     {{"max", 0.75}},
     [](long double x) { return std::min(x, 0.75L); }},
};

TEST_CASE("clamp has a bound, and not in the wrong order") {
  CHECK(inferred("clamp", {{4}}, {}) ==
        "SP015 clamp has neither `min` nor `max`");
  CHECK(inferred("clamp", {{4}}, {{"min", 1.0}, {"max", 0.5}}) ==
        "SP015 `min` of clamp exceeds `max`");
  CHECK(inferred("clamp", {{4}}, {{"min", 1.0}}) == "[4]");
}

TEST_CASE("activations are what their formulas say") {
  const std::vector<double> in = {-20,  -3,  -1.5, -0.25, -1e-6, 0,
                                  1e-6, 0.5, 1,    2.75,  20};
  const auto count = static_cast<int64_t>(in.size());
  for (const ActivationsRow& row : kActivationsRows) {
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
  CHECK(value("softplus") == ramp);
}

TEST_CASE("what is not a number stays none") {
  const double nan[] = {std::numeric_limits<double>::quiet_NaN()};
  const Tensor x = make_tensor(Element::F32, {1}, nan);
  for (const ActivationsRow& row : kActivationsRows) {
    CAPTURE(row.op);
    CHECK(std::isnan(
        values_of(run(row.op, {x}, row.attributes, Arithmetic::F32))[0]));
  }
}

TEST_CASE("surrogates of different functions differ") {
  const Tensor x = numbers(Arithmetic::Field, {8}, 1);
  std::set<std::vector<double>> seen;
  for (const ActivationsRow& row : kActivationsRows) {
    CAPTURE(row.op);
    if (row.op == std::string_view("clamp") && !seen.insert({-1}).second) {
      continue;  // which has one surrogate
    }
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
