// SPDX-License-Identifier: Apache-2.0
#include "spmd/layout.h"

#include <doctest/doctest.h>

#include "tests/support/builders.h"
#include "tests/support/small_graph.h"

namespace shardplan {
namespace {

using testing::layout;
using testing::mesh;
using testing::partial;
using testing::spec;

TEST_CASE("layout: a spec is padded to the rank, without axes of size 1") {
  const Mesh m = mesh("dp=2,pp=1,tp=4");
  CHECK(layout_of(m, spec("(dp, pp), tp"), 3).spec == spec("dp, tp, None"));
  CHECK(layout_of(m, spec("pp"), 1) == replicated(1));
  CHECK(layout_of(m, spec(""), 0) == replicated(0));
}

TEST_CASE("layout: every axis of a dimension divides the shard") {
  const Mesh m = mesh("dp=2,tp=4");
  CHECK(local_shape(m, layout("(dp, tp), None", 2), {16, 3}) == Shape{2, 3});
  CHECK(local_shape(m, layout("None, dp", 2), {16, 6}) == Shape{16, 3});
  // A part of a sum is as large as the sum.
  CHECK(local_shape(m, partial("None", 1, {"tp"}), {16}) == Shape{16});
  CHECK(local_shape(m, layout("dp", 1), {0}) == Shape{0});
}

TEST_CASE("layout: axes in use shard a dimension or hold parts") {
  CHECK(axes_in_use(replicated(2)).empty());
  const auto axes = axes_in_use(partial("dp, (tp, sp)", 2, {"ep"}));
  CHECK(AxisNames(axes.begin(), axes.end()) ==
        AxisNames{"ep", "dp", "tp", "sp"});
}

TEST_CASE("layout: parts of sums can be summed, but not taken apart again") {
  const Layout whole = replicated(1);
  const Layout parts = partial("None", 1, {"dp", "tp"});
  CHECK(covers(parts, whole));
  CHECK(covers(parts, partial("None", 1, {"tp"})));
  CHECK(covers(whole, whole));
  CHECK_FALSE(covers(whole, parts));
  CHECK_FALSE(covers(partial("None", 1, {"tp"}), parts));
}

TEST_CASE("layout: mesh order is major to minor, each axis once") {
  const Mesh m = mesh("a=2,b=2,c=2");
  CHECK(in_mesh_order(m, {"c", "a"}) == AxisNames{"a", "c"});
  CHECK(in_mesh_order(m, {"b", "b"}) == AxisNames{"b"});
  CHECK(in_mesh_order(m, {}).empty());
}

TEST_CASE("layout: text says along which axes there are parts") {
  CHECK(layout_text(layout("fsdp, None", 2)) == "P(fsdp, None)");
  CHECK(layout_text(partial("fsdp, None", 2, {"tp"})) ==
        "P(fsdp, None) partial over tp");
  CHECK(layout_text(partial("None", 1, {"dp", "tp"})) ==
        "P(None) partial over dp, tp");
}

}  // namespace
}  // namespace shardplan
