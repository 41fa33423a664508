// SPDX-License-Identifier: Apache-2.0
#include "advise/candidates.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/advised.h"

namespace shardplan {
namespace {

using testing::advised;
using testing::spec;

TEST_CASE("free axes go where they divide, and the least bytes lead") {
  const auto plan =
      advised(testing::manifest({{"w", "u8[6, 8]"}}), "rules:\n  - [w, []]\n",
              testing::mesh("dp=3,tp=4"));
  Diagnostics ignored;
  const auto memory = device_memory(plan.manifest, plan.plan, ignored);
  const Folding folding = fold(plan.plan.placement_of,
                               [&](size_t i) { return plan.manifest.name(i); });
  const Planned planned = {plan.manifest, plan.rules,     plan.plan,   folding,
                           *memory,       plan.resolving, plan.linting};
  const AxisNames free = free_axes(plan.plan, {});
  CHECK(free == AxisNames{"dp", "tp"});
  const std::vector<PartitionSpec> ways =
      spread(planned, plan.plan.placements[0], {}, free);
  // 48 / 12 with both; tp alone gives 12, dp alone 16.
  REQUIRE(ways.size() == 3);
  CHECK(ways[0] == spec("dp, tp"));
  CHECK(ways[1] == spec("None, tp"));
  CHECK(ways[2] == spec("dp, None"));
  CHECK(free_axes(plan.plan, spec("tp")) == AxisNames{"dp"});
}

TEST_CASE("a rule that is bad for some parameters only is split") {
  Manifest manifest = testing::manifest({{"l/0/q_proj/w", "u8[32, 32]"},
                                         {"l/1/q_proj/w", "u8[32, 32]"},
                                         {"l/0/k_proj/w", "u8[32, 9]"},
                                         {"l/1/k_proj/w", "u8[32, 9]"}});
  const auto plan =
      advised(std::move(manifest), "rules:\n  - [\"_proj\", [null, tp]]\n",
              testing::mesh("tp=4"));
  const auto found = plan.find(Code::IndivisibleDimension);
  REQUIRE(found.size() == 1);
  REQUIRE_FALSE(found[0].fixes.empty());
  const Fix& fix = found[0].fixes.front();
  CHECK(fix.text ==
        "put `[\"k_proj/w$\", [tp, null]]` in front of rule 1 (rules.yaml:2)");
  CHECK(edited(plan.text, fix.edits) ==
        "rules:\n  - [\"k_proj/w$\", [tp, null]]\n  - [\"_proj\", [null, "
        "tp]]\n");
  CHECK(testing::broken_promise(plan, found[0], fix) == "");
}

}  // namespace
}  // namespace shardplan
