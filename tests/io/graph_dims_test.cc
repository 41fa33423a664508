// SPDX-License-Identifier: Apache-2.0
#include "io/graph_dims.h"

#include <memory>
#include <string>

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "io/graph_file.h"
#include "tests/support/messages.h"

namespace shardplan {
namespace {

const DimSizes kDims = {{"heads", 8}, {"head_dim", 64}, {"none", 0}};

std::string size(const std::string& text) {
  std::string why;
  const auto value = evaluate_size(text, kDims, why);
  return value ? std::to_string(*value) : why;
}

TEST_CASE("sizes are numbers, names and what these make") {
  CHECK(size("12") == "12");
  CHECK(size("heads") == "8");
  CHECK(size("heads*head_dim") == "512");
  CHECK(size(" heads * 3 / 4 ") == "6");
  CHECK(size("head_dim/heads/4*none") == "0");
}

TEST_CASE("what is no size says why") {
  CHECK(size("head") ==
        "`head` is neither a number nor a name in `dims`; `heads` is");
  CHECK(size("") == "`` is neither a number nor a name in `dims`");
  CHECK(size("heads*") == "`` is neither a number nor a name in `dims`");
  CHECK(size("-1") == "`-1` is neither a number nor a name in `dims`");
  CHECK(size("heads/3") == "3 does not divide 8");
  CHECK(size("heads/none") == "0 does not divide 8");
  CHECK(size("9007199254740992*2") == "the product exceeds 2^53");
  CHECK(size("99999999999999999999") ==
        "`99999999999999999999` is neither a number nor a name in `dims`");
}

TEST_CASE("a product of sizes is their product") {
  rc::check("a product of sizes is their product", [] {
    const auto a = *rc::gen::inRange<int64_t>(0, 1 << 20);
    const auto b = *rc::gen::inRange<int64_t>(1, 1 << 20);
    const DimSizes dims = {{"a", a}, {"b", b}};
    std::string why;
    RC_ASSERT(evaluate_size("a*b", dims, why) == a * b);
    RC_ASSERT(evaluate_size("a*b/b", dims, why) == a);
    RC_ASSERT(evaluate_size("a/b", dims, why).has_value() == (a % b == 0));
  });
}

std::string dims_of(const std::string& dims, const DimSizes& chosen) {
  Diagnostics diags;
  const auto graph = read_graph(
      std::make_shared<SourceFile>(
          "g", "graph: g\ndims: " + dims + "\ninputs: {x: [a, b]}\nops: []\n"),
      chosen, diags);
  return graph ? shape_text(*graph->inputs.front().shape)
               : testing::messages(diags);
}

TEST_CASE("sizes follow from those before them, and may be chosen") {
  CHECK(dims_of("{a: 2, b: a*3}", {}) == "[2, 6]");
  CHECK(dims_of("{a: 2, b: a*3}", {{"a", 5}}) == "[5, 15]");
  CHECK(dims_of("{a: 2, b: a*3}", {{"b", 7}}) == "[2, 7]");
  CHECK(dims_of("{b: a*3, a: 2}", {}) ==
        "SP015 g:2:11 `a*3` is no size: `a` is neither a number nor a name in "
        "`dims`");
  CHECK(dims_of("{batch: 2, a: 1, b: 1}", {{"bach", 7}}) ==
        "SP015 the graph has no size named `bach`");
  CHECK(dims_of("{a: 2, b: 3}", {{"a", -1}}) ==
        "SP015 `a` must be from 0 to 2^53");
  CHECK(dims_of("{a: 2, b: -3}", {}) ==
        "SP002 g:2:17 a size must be from 0 to 2^53");
  CHECK(dims_of("{a-b: 2}", {}) == "SP002 g:2:8 `a-b` is no name of a size");
  CHECK(dims_of("[2]", {}) == "SP002 g:2:7 `dims` must be a map, not a list");
}

}  // namespace
}  // namespace shardplan
