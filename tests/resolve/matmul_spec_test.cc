// SPDX-License-Identifier: Apache-2.0
#include "resolve/matmul_spec.h"

#include <algorithm>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "tests/support/builders.h"
#include "tests/support/generators.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

using testing::spec;

TEST_CASE("the result has the left side's rows and the right side's columns") {
  struct Row {
    const char* left;
    int left_rank;
    const char* right;
    int right_rank;
    const char* out;
  };
  for (const Row& row : std::initializer_list<Row>{
           {"dp, None, None", 3, "None, tp", 2, "P(dp, None, tp)"},
           {"(dp, sp), None", 2, "None, tp", 2, "P((dp, sp), tp)"},
           {"", 3, "None, tp", 2, "P(None, None, tp)"},
           {"dp", 3, "", 2, "P(dp, None, None)"},
           {"dp, None", 2, "None", 1, "P(dp)"},
           {"None", 1, "None, tp", 2, "P(tp)"},
           {"", 1, "", 1, "P()"},
       }) {
    CAPTURE(row.left);
    CAPTURE(row.right);
    const MatmulOutput output = matmul_output(spec(row.left), row.left_rank,
                                              spec(row.right), row.right_rank);
    CHECK(spec_text(output.spec) == row.out);
    CHECK(output.partial.empty());
    CHECK(output.mismatched.empty());
    CHECK(output.repeated.empty());
  }
}

TEST_CASE("contracting axes leave partial sums, or do not match") {
  const MatmulOutput same =
      matmul_output(spec("dp, (tp, sp)"), 2, spec("(tp, sp), None"), 2);
  CHECK(same.partial == AxisNames{"tp", "sp"});
  CHECK(same.mismatched.empty());
  const MatmulOutput other =
      matmul_output(spec("dp, (tp, sp)"), 2, spec("(tp, ep), None"), 2);
  CHECK(other.partial == AxisNames{"tp"});
  CHECK(other.mismatched == AxisNames{"sp", "ep"});
  const MatmulOutput one_sided =
      matmul_output(spec("None, tp"), 2, spec(""), 2);
  CHECK(one_sided.mismatched == AxisNames{"tp"});
}

TEST_CASE("an axis stays with the first dimension that has it") {
  const MatmulOutput output =
      matmul_output(spec("dp, (dp, tp), None"), 3, spec("None, (tp, ep)"), 2);
  CHECK(spec_text(output.spec) == "P(dp, tp, ep)");
  CHECK(output.repeated == AxisNames{"dp", "tp"});
}

TEST_CASE("the result of legal operands names every axis once") {
  CHECK(holds([] {
    const Mesh mesh = testing::draw_mesh();
    const auto left_rank = draw_in(1, 5);
    const auto right_rank = draw_in(1, 5);
    const auto left = testing::draw_legal_spec(mesh, size_t(left_rank));
    const auto right = testing::draw_legal_spec(mesh, size_t(right_rank));
    const MatmulOutput output =
        matmul_output(left, left_rank, right, right_rank);
    ENSURE(output.spec.dims.size() ==
           size_t(left_rank - 1 + (right_rank > 1 ? 1 : 0)));
    std::set<AxisName> used;
    for (const AxisNames& axes : output.spec.dims) {
      for (const AxisName& axis : axes) ENSURE(used.insert(axis).second);
    }
    // Partial and mismatched axes are told apart.
    for (const AxisName& axis : output.partial) {
      ENSURE(std::count(output.mismatched.begin(), output.mismatched.end(),
                        axis) == 0);
    }
  }));
}

TEST_CASE("the original agrees where specs have the length of their ranks") {
  CHECK(holds([] {
    const Mesh mesh = testing::draw_mesh();
    auto left = testing::draw_legal_spec(mesh, 3);
    auto right = testing::draw_legal_spec(mesh, 2);
    left.dims.resize(3);
    right.dims.resize(2);
    ENSURE(original_matmul_output(left, right) ==
           matmul_output(left, 3, right, 2).spec);
  }));
}

TEST_CASE("the original takes ranks from the lengths of specs") {
  struct Row {
    const char* left;
    const char* right;
    const char* out;
  };
  for (const Row& row : std::initializer_list<Row>{
           {"", "a, b", "P(b)"},
           {"a, b", "", "P(a, None)"},
           {"dp", "None, tp", "P(tp)"},
           {"dp, None", "tp", "P(dp, tp)"},
           {"dp", "", "P(None)"},
           {"dp, tp", "fsdp, tp", "P(dp, tp)"},
           {"dp, None, tp", "ep, tp, fsdp", "P(dp, None, fsdp)"},
           {"(dp, dp), None", "None, None", "P((dp, dp), None)"},
           {"tp, (tp, sp), None", "None, (sp, ep, tp)", "P(tp, sp, ep)"},
       }) {
    CAPTURE(row.left);
    CHECK(spec_text(original_matmul_output(spec(row.left), spec(row.right))) ==
          row.out);
  }
  CHECK(original_matmul_output(std::nullopt, spec("a")).dims.empty());
  CHECK(original_matmul_output(spec("a, b"), std::nullopt).dims.empty());
}

TEST_CASE("to the original None is a name like any other") {
  PartitionSpec left = spec("None, a, None");
  left.dims[1] = {"a", ""};
  CHECK(spec_text(original_matmul_output(left, spec("None, b"))) ==
        "P(None, a, b)");
  left.dims[1] = {"", ""};
  CHECK(original_matmul_output(left, spec("None, b")) == spec("None, None, b"));
}

}  // namespace

}  // namespace shardplan
