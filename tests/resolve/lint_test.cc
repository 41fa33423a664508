// SPDX-License-Identifier: Apache-2.0
#include "resolve/lint.h"

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "core/plan.h"
#include "tests/support/builders.h"

namespace shardplan {
namespace {

using Sizes = std::vector<int64_t>;

TEST_CASE("common divisors ascend up to the limit") {
  CHECK(common_divisors(12, 18, 100) == Sizes{1, 2, 3, 6});
  CHECK(common_divisors(36, 36, 10) == Sizes{1, 2, 3, 4, 6, 9});
  CHECK(common_divisors(49, 49, 49) == Sizes{1, 7, 49});
  CHECK(common_divisors(7, 5, 100) == Sizes{1});
  CHECK(common_divisors(int64_t{1} << 62, int64_t{1} << 62, 8) ==
        Sizes{1, 2, 4, 8});
}

TEST_CASE("names are told by the first and how many more") {
  CHECK(names_text({}) == "no parameter");
  CHECK(names_text({"a"}) == "`a`");
  CHECK(names_text({"a", "b", "c"}) == "`a` and 2 more");
}

TEST_CASE("what was requested is counted padded, unknown axes gone") {
  const Plan plan{testing::mesh("tp=4"), {}, true, {}, {}, {}, {}};
  Placement placement;
  placement.type = testing::type("u8[10, 8]");
  placement.requested = testing::spec("tp, zz");
  measure(placement, plan.mesh, plan.on_indivisible);
  CHECK(placement.bytes_per_device == 80);
  CHECK(requested_bytes(plan, placement) == 24);
}

}  // namespace
}  // namespace shardplan
