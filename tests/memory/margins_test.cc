// SPDX-License-Identifier: Apache-2.0
#include "memory/margins.h"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "resolve/resolve.h"
#include "tests/support/builders.h"

namespace shardplan {
namespace {

struct Case {
  Manifest manifest;
  Plan plan;
  LayerUnits units;
  BudgetOptions options;

  std::optional<Budget> budget(const KvRequest& request) const {
    BudgetOptions changed = options;
    changed.kv = request;
    Diagnostics diags;
    return make_budget(manifest, plan, units, changed, diags);
  }
};

Case drawn() {
  Manifest manifest = testing::manifest({
      {"model/layers/0/wq/kernel", "bf16[8, 8]"},
      {"model/layers/1/wq/kernel", "bf16[8, 8]"},
      {"model/layers/2/wq/kernel", "bf16[8, 8]"},
      {"lm_head/kernel", "bf16[8, 16]"},
  });
  manifest.facts.from = FactsFrom::Manifest;
  manifest.facts.layers = 3;
  manifest.facts.kv_heads = 2;
  manifest.facts.head_dim = 3;
  if (*rc::gen::arbitrary<bool>()) manifest.facts.windows = {7, 0, 7};
  Diagnostics diags;
  auto plan = resolve(manifest, testing::rules({{".", ""}}),
                      testing::mesh("pp=3,dp=2"), ResolveOptions(), diags);
  RC_ASSERT(plan.has_value());
  Case c{std::move(manifest), *std::move(plan), {}, {}};
  c.units = layer_units(c.manifest, c.plan.placement_of);
  KvRequest request;
  request.batch = *rc::gen::inRange<int64_t>(1, 9);
  request.seq = *rc::gen::inRange<int64_t>(1, 40);
  request.block = *rc::gen::inRange<int64_t>(1, 5);
  request.prefill = *rc::gen::arbitrary<bool>();
  c.options.kv = request;
  c.options.kv_sharding.batch = 2;
  c.options.fragmentation = *rc::gen::element(0.0, 0.05, 0.333333);
  c.options.reserve = *rc::gen::inRange<int64_t>(0, 200);
  const auto room = *rc::gen::inRange<int64_t>(1, 20'000);
  c.options.limit = DeviceLimit{"test", room, room, false};
  if (*rc::gen::arbitrary<bool>()) c.options.stages = Stages{"pp", {}};
  return c;
}

// With `found` it fits, and with one more it does not.
void check_last(const Case& c, std::optional<int64_t> found,
                int64_t KvRequest::*member) {
  KvRequest request = *c.options.kv;
  const auto fits = [&](int64_t value) {
    request.*member = value;
    const auto budget = c.budget(request);
    return budget && budget->fits();
  };
  if (!found) {
    RC_ASSERT(fits(kMaxKvCount));
    return;
  }
  if (*found > 0) RC_ASSERT(fits(*found));
  RC_ASSERT(!fits(*found + 1));
}

TEST_CASE("margins are where the budget itself stops to fit") {
  CHECK(rc::check("margins", [] {
    const Case c = drawn();
    const auto budget = c.budget(*c.options.kv);
    RC_ASSERT(budget.has_value());
    const Margins margins =
        find_margins(c.manifest, c.plan, c.units, c.options, *budget);
    check_last(c, margins.batch, &KvRequest::batch);
    check_last(c, margins.context, &KvRequest::seq);
  }));
}

}  // namespace
}  // namespace shardplan
