// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include <doctest/doctest.h>

#include "tests/support/op_samples.h"

namespace shardplan {
namespace {

using testing::fitted;
using testing::inferred;
using testing::kArithmetics;
using testing::numbers;
using testing::run;

TEST_CASE("an embedding is the rows that ids name") {
  for (const Arithmetic arithmetic : kArithmetics) {
    const Tensor table = numbers(arithmetic, {5, 3}, 1);
    const double which[] = {4, 0, 0, 2};
    const Tensor ids = make_tensor(element_of(arithmetic), {2, 2}, which);
    const Tensor out = run("embedding", {table, ids}, {}, arithmetic);
    REQUIRE(out.shape == Shape{2, 2, 3});
    const std::vector<double> rows = values_of(table);
    const std::vector<double> got = values_of(out);
    for (size_t i = 0; i < got.size(); ++i) {
      CHECK(got[i] == rows[static_cast<size_t>(which[i / 3]) * 3 + i % 3]);
    }
  }
}

TEST_CASE("ids that are no rows give NaN on every device, 0 in the field") {
  const double inf = std::numeric_limits<double>::infinity();
  const double odd[] = {
      -1, 4, 1e30, 0.5, inf, -inf, std::numeric_limits<double>::quiet_NaN()};
  const auto fit = fitted("embedding", {{4, 2}, {7}}, {});
  for (const Arithmetic arithmetic : kArithmetics) {
    const Tensor table = numbers(arithmetic, {4, 2}, 1);
    const Tensor ids = make_tensor(element_of(arithmetic), {7}, odd);
    for (const int64_t begin : {0, 2}) {
      RunContext context;
      context.arithmetic = arithmetic;
      context.rule = &fit.rule;
      context.range = {{begin, 0, 0}, {2, 7, 2}};
      const Tensor part = slice(table, 0, begin, begin + 2);
      const std::vector<Tensor> operands = {part, ids};
      for (const double value : values_of(fit.op->run(operands, {}, context))) {
        if (arithmetic == Arithmetic::Field) {
          CHECK(value == 0);
        } else {
          CHECK(std::isnan(value));
        }
      }
    }
  }
}

TEST_CASE("a device gives zeros for rows that it lacks") {
  const auto fit = fitted("embedding", {{4, 1}, {3}}, {});
  const double which[] = {1, 2, 3};
  const double rows[] = {10, 11, 12, 13};
  const Tensor table = make_tensor(Element::F32, {4, 1}, rows);
  RunContext context;
  context.rule = &fit.rule;
  context.range = {{2, 0}, {2, 3}};
  const std::vector<Tensor> operands = {slice(table, 0, 2, 4),
                                        make_tensor(Element::F32, {3}, which)};
  CHECK(values_of(fit.op->run(operands, {}, context)) ==
        std::vector<double>{0, 12, 13});
}

TEST_CASE("the rows of the table are parts of a sum") {
  const ShardingRule rule = fitted("embedding", {{12, 6}, {2, 3}}, {}).rule;
  CHECK(rule.factors ==
        std::vector<Factor>{{12, FactorKind::Sum}, {2}, {3}, {6}});
  CHECK(rule.operands[0] == std::vector<DimFactors>{{0}, {3}});
  CHECK(rule.operands[1] == std::vector<DimFactors>{{1}, {2}});
  CHECK(rule.result == std::vector<DimFactors>{{1}, {2}, {3}});
}

TEST_CASE("one id, no ids and a table without rows have results") {
  CHECK(inferred("embedding", {{4, 2}, {}}, {}) == "[2]");
  const Tensor id = make_tensor(Element::F32, {});
  const Tensor table = numbers(Arithmetic::F32, {4, 2}, 1);
  CHECK(values_of(run("embedding", {table, id}, {}, Arithmetic::F32)) ==
        values_of(slice(table, 0, 0, 1)));
  const Tensor none = make_tensor(Element::F32, {0, 2});
  for (const double value :
       values_of(run("embedding", {none, id}, {}, Arithmetic::F32))) {
    CHECK(std::isnan(value));
  }
}

TEST_CASE("a table that is no matrix is SP015") {
  CHECK(inferred("embedding", {{4}, {2}}, {}) ==
        "SP015 the table [4] of an embedding is no matrix");
}

TEST_CASE("take gives the numbers of a row that its indices name") {
  for (const Arithmetic arithmetic : kArithmetics) {
    const Tensor x = numbers(arithmetic, {2, 4}, 1);
    const double which[] = {3, 0, 0, 1, 2, 3};
    const Tensor indices = make_tensor(element_of(arithmetic), {2, 3}, which);
    const std::vector<double> all = values_of(x);
    const std::vector<double> got =
        values_of(run("take", {x, indices}, {}, arithmetic));
    REQUIRE(got.size() == 6);
    for (size_t i = 0; i < got.size(); ++i) {
      CHECK(got[i] == all[i / 3 * 4 + static_cast<size_t>(which[i])]);
    }
  }
}

TEST_CASE("the numbers of top_k are a row's largest") {
  for (const Arithmetic arithmetic : kArithmetics) {
    const Tensor x = numbers(arithmetic, {3, 8}, 2);
    const Tensor indices = run("top_k", {x}, {{"k", 3.0}}, arithmetic);
    const std::vector<double> best =
        values_of(run("take", {x, indices}, {}, arithmetic));
    std::vector<double> all = values_of(x);
    for (size_t row = 0; row < 3; ++row) {
      const auto first = all.begin() + static_cast<ptrdiff_t>(row * 8);
      std::sort(first, first + 8, std::greater<>());
      CHECK(std::equal(first, first + 3,
                       best.begin() + static_cast<ptrdiff_t>(row * 3)));
    }
  }
}

TEST_CASE("a device gives zeros for what it lacks, NaN for what is nowhere") {
  const auto fit = fitted("take", {{4}, {5}}, {});
  CHECK(fit.rule.factors == std::vector<Factor>{{5}, {4, FactorKind::Sum}});
  const double which[] = {1, 3, 4, -1, 0.5};
  const double row[] = {10, 11, 12, 13};
  for (const Arithmetic arithmetic : kArithmetics) {
    const Element element = element_of(arithmetic);
    RunContext context;
    context.arithmetic = arithmetic;
    context.rule = &fit.rule;
    context.range = {{0, 2}, {5, 2}};
    const std::vector<Tensor> operands = {
        slice(make_tensor(element, {4}, row), 0, 2, 4),
        make_tensor(element, {5}, which)};
    const std::vector<double> got =
        values_of(fit.op->run(operands, {}, context));
    CHECK(got[0] == 0);
    CHECK(got[1] == 13);
    for (size_t i = 2; i < 5; ++i) {
      if (arithmetic == Arithmetic::Field) {
        CHECK(got[i] == 0);
      } else {
        CHECK(std::isnan(got[i]));
      }
    }
  }
}

TEST_CASE("rows and indices that are not alike are SP015") {
  CHECK(inferred("take", {{2, 4}, {2, 3}}, {}) == "[2, 3]");
  CHECK(inferred("take", {{2, 0}, {2, 0}}, {}) == "[2, 0]");
  CHECK(inferred("take", {{2, 4}, {3, 4}}, {}) ==
        "SP015 cannot take from [2, 4] by indices [3, 4]");
  CHECK(inferred("take", {{2, 4}, {4}}, {}) ==
        "SP015 cannot take from [2, 4] by indices [4]");
  CHECK(inferred("take", {{}, {}}, {}) ==
        "SP015 cannot take from [] by indices []");
}

}  // namespace

}  // namespace shardplan
