// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/einsum.h"

#include <cmath>
#include <map>
#include <string>

#include <doctest/doctest.h>

#include "tests/support/messages.h"
#include "tests/support/op_samples.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

// The equation as text, or the messages.
std::string read(const std::string& text) {
  Diagnostics diags;
  const auto equation = parse_equation(text, {}, diags);
  return equation ? equation_text(*equation) : testing::messages(diags);
}

TEST_CASE("equations print as they are read, without blanks") {
  CHECK(read("bse,em->bsm") == "bse,em->bsm");
  CHECK(read(" bqhd , bkhd -> bhqk ") == "bqhd,bkhd->bhqk");
  CHECK(read("ab,AB->aB") == "ab,AB->aB");
  CHECK(read(",a->") == ",a->");
  CHECK(read(",->") == ",->");
}

TEST_CASE("what is not an equation is SP015") {
  CHECK(read("ab,bc") == "SP015 equation `ab,bc` has no `->`");
  CHECK(read("") == "SP015 equation `` has no `->`");
  CHECK(read("ab->ba") == "SP015 equation `ab->ba` has only one operand");
  CHECK(read("a,b,c->a") ==
        "SP015 equation `a,b,c->a` has `,` where a letter belongs");
  CHECK(read("...a,a->a") ==
        "SP015 equation `...a,a->a` has `.` where a letter belongs");
  CHECK(read("ä,b->b") ==
        "SP015 equation `ä,b->b` has `ä` where a letter belongs");
  CHECK(read("a\n,b->b") ==
        "SP015 equation `a\n,b->b` has `\n` where a letter belongs");
  CHECK(read("a,b->a->b") ==
        "SP015 equation `a,b->a->b` has `-` where a letter belongs");
  CHECK(read("aba,b->a") == "SP015 equation `aba,b->a` has `a` twice in `aba`");
  CHECK(read("a,b->aa") == "SP015 equation `a,b->aa` has `a` twice in `aa`");
  CHECK(read("a,b->c") == "SP015 equation `a,b->c` has `c` only in the result");
}

TEST_CASE("letters of the result come first") {
  Diagnostics diags;
  CHECK(letters_of(*parse_equation("bse,em->bsm", {}, diags)) == "bsme");
  CHECK(letters_of(*parse_equation("ab,cd->", {}, diags)) == "abcd");
}

using testing::fitted;
using testing::inferred;
using testing::kArithmetics;
using testing::numbers;
using testing::run;

Attributes equation(const std::string& text) { return {{"equation", text}}; }

// The definition: for every combination of indices, a product is added.
std::vector<double> by_definition(const std::string& text, const Tensor& a,
                                  const Tensor& b, Arithmetic arithmetic) {
  Diagnostics diags;
  const Equation parsed = *parse_equation(text, {}, diags);
  const std::string letters = letters_of(parsed);
  std::map<char, int64_t> sizes;
  for (size_t i = 0; i < parsed.operands[0].size(); ++i) {
    sizes[parsed.operands[0][i]] = a.shape[i];
  }
  for (size_t i = 0; i < parsed.operands[1].size(); ++i) {
    sizes[parsed.operands[1][i]] = b.shape[i];
  }
  int64_t all = 1;
  for (const auto& [letter, size] : sizes) all *= size;
  int64_t elements = 1;
  for (const char letter : parsed.result) elements *= sizes[letter];
  std::vector<double> result(static_cast<size_t>(elements), 0.0);
  const std::vector<double> left = values_of(a);
  const std::vector<double> right = values_of(b);
  for (int64_t i = 0; i < all; ++i) {
    std::map<char, int64_t> index;
    int64_t rest = i;
    for (const char letter : letters) {
      index[letter] = rest % sizes[letter];
      rest /= sizes[letter];
    }
    const auto place = [&](const std::string& tensor) {
      int64_t at = 0;
      for (const char letter : tensor) at = at * sizes[letter] + index[letter];
      return static_cast<size_t>(at);
    };
    const double x = left[place(parsed.operands[0])];
    const double y = right[place(parsed.operands[1])];
    double& sum = result[place(parsed.result)];
    sum = arithmetic == Arithmetic::Field
              ? field::add(sum, field::multiply(x, y))
              : sum + x * y;
  }
  return result;
}

// Numbers of which all products and sums here are exact in float.
Tensor small_integers(Arithmetic arithmetic, const Shape& shape,
                      uint64_t seed) {
  return numbers(arithmetic, shape, seed, {testing::Domain::Integers, 16});
}

TEST_CASE("einsum is what the equation says, for any equation") {
  CHECK(holds([] {
    // Every letter is in the left operand, the right one, both, and kept or
    // not.
    std::string left;
    std::string right;
    std::string kept;
    std::map<char, int64_t> sizes;
    const auto count = draw_in<size_t>(0, 6);
    for (size_t i = 0; i < count; ++i) {
      const char letter = "abcXYZ"[i];
      const auto where = draw_in(0, 3);
      const auto at = [](std::string& text) {
        return text.begin() +
               draw_in<std::ptrdiff_t>(
                   0, static_cast<std::ptrdiff_t>(text.size()) + 1);
      };
      if (where != 1) left.insert(at(left), letter);
      if (where != 0) right.insert(at(right), letter);
      if (draw_bool()) kept.insert(at(kept), letter);
      sizes[letter] = draw_in<int64_t>(0, 5);
    }
    const std::string text = left + "," + right + "->" + kept;
    const auto shape_of = [&](const std::string& letters) {
      Shape shape;
      for (const char letter : letters) shape.push_back(sizes[letter]);
      return shape;
    };
    for (const Arithmetic arithmetic : kArithmetics) {
      const Tensor a = small_integers(arithmetic, shape_of(left), 1);
      const Tensor b = small_integers(arithmetic, shape_of(right), 2);
      const Tensor c = run("einsum", {a, b}, equation(text), arithmetic);
      ENSURE(c.shape == shape_of(kept));
      ENSURE(values_of(c) == by_definition(text, a, b, arithmetic));
    }
  }));
}

TEST_CASE("einsum is exact in the field over long sums") {
  const Tensor a = numbers(Arithmetic::Field, {3, 20000}, 1);
  const Tensor b = numbers(Arithmetic::Field, {20000}, 2);
  CHECK(values_of(
            run("einsum", {a, b}, equation("mk,k->m"), Arithmetic::Field)) ==
        by_definition("mk,k->m", a, b, Arithmetic::Field));
}

TEST_CASE("einsum is what the equation says in batches, large and small") {
  struct Row {
    const char* text;
    Shape left;
    Shape right;
  };
  for (const Row& row :
       std::initializer_list<Row>{{"abc,abc->abc", {2, 3, 4}, {2, 3, 4}},
                                  {"abc,c->abc", {2, 40, 3}, {3}},
                                  {"ab,ab->a", {3, 600}, {3, 600}},
                                  {"a,b->ab", {40}, {30}},
                                  {"bik,bkj->bji", {2, 12, 20}, {2, 20, 11}}}) {
    CAPTURE(row.text);
    for (const Arithmetic arithmetic : kArithmetics) {
      const Tensor a = small_integers(arithmetic, row.left, 1);
      const Tensor b = small_integers(arithmetic, row.right, 2);
      CHECK(values_of(run("einsum", {a, b}, equation(row.text), arithmetic)) ==
            by_definition(row.text, a, b, arithmetic));
    }
  }
}

TEST_CASE("einsum takes views and broadcast operands") {
  const Tensor x = small_integers(Arithmetic::F32, {2, 6, 4}, 1);
  const Tensor w = small_integers(Arithmetic::F32, {8, 10}, 2);
  const Tensor part = slice(slice(w, 0, 2, 6), 1, 3, 8);
  CHECK(values_of(run("einsum", {x, part}, equation("bse,em->bsm"),
                      Arithmetic::F32)) ==
        by_definition("bse,em->bsm", x, part, Arithmetic::F32));
  const Tensor wide =
      broadcast_to(small_integers(Arithmetic::F32, {1, 5}, 3), {4, 5});
  CHECK(values_of(run("einsum", {x, wide}, equation("bse,em->bsm"),
                      Arithmetic::F32)) ==
        by_definition("bse,em->bsm", x, wide, Arithmetic::F32));
}

TEST_CASE("einsum gives the same for any number of threads") {
  for (const std::string text :
       {"bik,bkj->bij", "bik,bkj->ij", "ibk,kj->bij"}) {
    CAPTURE(text);
    const bool shared = text == "ibk,kj->bij";
    const Shape left = {3, 128, 128};
    const Shape right = shared ? Shape{128, 128} : Shape{3, 128, 128};
    for (const Arithmetic arithmetic : kArithmetics) {
      const std::vector<Tensor> operands = {numbers(arithmetic, left, 1),
                                            numbers(arithmetic, right, 2)};
      const auto fit = fitted("einsum", {left, right}, equation(text));
      RunContext context;
      context.arithmetic = arithmetic;
      context.rule = &fit.rule;
      const Tensor one = fit.op->run(operands, fit.attributes, context);
      // Fewer than entries, and more.
      for (const int threads : {2, 4}) {
        context.threads = threads;
        CHECK(
            bitwise_equal(fit.op->run(operands, fit.attributes, context), one));
      }
    }
  }
}

TEST_CASE("einsum of several devices at once is that of each by itself") {
  struct Case {
    const char* equation;
    std::vector<Shape> shapes;
  };
  for (const Case& each :
       {Case{"bse,em->bsm", {{2, 60, 96}, {96, 130}}},
        Case{"bse,me->bsm", {{2, 60, 96}, {130, 96}}},
        Case{"bqhd,bkhd->bhqk", {{2, 9, 3, 8}, {2, 9, 3, 8}}},
        Case{"bik,kj->ij", {{3, 5, 4}, {4, 2}}},
        Case{"ij,jk->ki", {{100, 40}, {40, 120}}}}) {
    CAPTURE(each.equation);
    const auto fit = fitted("einsum", each.shapes, equation(each.equation));
    for (const Arithmetic arithmetic : kArithmetics) {
      RunContext context;
      context.arithmetic = arithmetic;
      context.rule = &fit.rule;
      const Tensor x = numbers(arithmetic, each.shapes[0], 1);
      const Tensor y = numbers(arithmetic, each.shapes[0], 2);
      const Tensor w = numbers(arithmetic, each.shapes[1], 3);
      // A device that has other rows, one with numbers of its own, and one
      // whose part is of another size.
      std::vector<DevicePart> parts = {{{x, w}, context},
                                       {{y, w}, context},
                                       {{x, copy(w)}, context},
                                       {{copy(x), w}, context}};
      const std::string_view letters = each.equation;
      if (letters[1] == 's' || letters.substr(0, 2) == "ij") {
        const int dim = letters[1] == 's' ? 1 : 0;
        parts.push_back({{slice(x, dim, 3, 50), w}, context});
      }
      for (const int threads : {1, 3}) {
        const std::vector<Tensor> together =
            fit.op->run_all(parts, fit.attributes, threads);
        REQUIRE(together.size() == parts.size());
        for (size_t i = 0; i < parts.size(); ++i) {
          CHECK(bitwise_equal(
              together[i],
              fit.op->run(parts[i].operands, fit.attributes, context)));
        }
      }
    }
  }
}

TEST_CASE("every letter is a factor, those that are summed by kind") {
  const auto fit =
      fitted("einsum", {{2, 3, 4}, {4, 6}}, equation("bse,em->bsm"));
  CHECK(fit.rule.factors ==
        std::vector<Factor>{{2}, {3}, {6}, {4, FactorKind::Sum}});
  CHECK(fit.rule.operands[0] == std::vector<DimFactors>{{0}, {1}, {3}});
  CHECK(fit.rule.operands[1] == std::vector<DimFactors>{{3}, {2}});
  CHECK(fit.rule.result == std::vector<DimFactors>{{0}, {1}, {2}});
}

TEST_CASE("a product takes two operations per multiply-add") {
  const auto flops = [](const char* text, const std::vector<Shape>& operands) {
    const auto fit = fitted("einsum", operands, equation(text));
    return fit.op->flops(operands, fit.result, fit.attributes);
  };
  CHECK(flops("bse,em->bsm", {{2, 3, 4}, {4, 6}}) == 2 * 2 * 3 * 4 * 6);
  // c is summed beforehand.
  CHECK(flops("abc,b->a", {{2, 3, 5}, {3}}) == 2 * 2 * 3 + 2 * 3 * 5);
  constexpr int64_t kLong = int64_t{1} << 30;
  CHECK(flops("ab,bc->ac", {{kLong, kLong}, {kLong, kLong}}) ==
        std::numeric_limits<int64_t>::max());
}

TEST_CASE("operands that do not fit the equation are SP015") {
  CHECK(inferred("einsum", {{2, 3}, {4, 5}}, equation("ab,bc->ac")) ==
        "SP015 equation `ab,bc->ac` does not fit [2, 3] and [4, 5]: `b` is 3 "
        "and 4");
  CHECK(inferred("einsum", {{2, 1}, {4, 5}}, equation("ab,bc->ac")) ==
        "SP015 equation `ab,bc->ac` does not fit [2, 1] and [4, 5]: `b` is 1 "
        "and 4");
  CHECK(inferred("einsum", {{2, 3, 4}, {4, 5}}, equation("ab,bc->ac")) ==
        "SP015 equation `ab,bc->ac` does not fit [2, 3, 4] and [4, 5]: `ab` "
        "has a different rank than [2, 3, 4]");
  CHECK(inferred("einsum", {{2}, {2}}, equation("a")) ==
        "SP015 equation `a` has no `->`");
  constexpr int64_t kLong = int64_t{1} << 40;
  CHECK(inferred("einsum", {{kLong}, {kLong}}, equation("a,b->ab")) ==
        "SP015 the result [1099511627776, 1099511627776] has too many "
        "elements");
}

}  // namespace

}  // namespace shardplan
