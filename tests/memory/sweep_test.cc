// SPDX-License-Identifier: Apache-2.0
#include "memory/sweep.h"

#include <doctest/doctest.h>

#include "resolve/resolve.h"
#include "tests/support/builders.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

struct SweepCase {
  Manifest manifest;
  Plan plan;
  LayerGroups groups;
  BudgetOptions options;

  std::optional<Budget> budget(const KvRequest& request) const {
    BudgetOptions changed = options;
    changed.kv = request;
    Diagnostics diags;
    return make_budget(manifest, plan, groups, changed, diags);
  }
};

SweepCase drawn() {
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
  if (draw_bool()) manifest.facts.windows = {7, 0, 7};
  Diagnostics diags;
  auto plan = resolve(manifest, testing::rules({{".", ""}}),
                      testing::mesh("pp=3,dp=2"), ResolveOptions(), diags);
  ENSURE(plan.has_value());
  SweepCase c{std::move(manifest), *std::move(plan), {}, {}};
  c.groups = layer_groups(c.manifest, c.plan.placement_of);
  KvRequest request;
  request.batch = draw_in<int64_t>(1, 9);
  request.seq = draw_in<int64_t>(1, 40);
  request.block = draw_in<int64_t>(1, 5);
  request.prefill = draw_bool();
  c.options.kv = request;
  c.options.kv_sharding.batch = 2;
  c.options.fragmentation = draw_of({0.0, 0.05, 0.333333});
  c.options.reserve = draw_in<int64_t>(0, 200);
  const auto room = draw_in<int64_t>(1, 20'000);
  c.options.limit = DeviceLimit{"test", room, room, false};
  if (draw_bool()) c.options.stages = Stages{"pp", {}};
  return c;
}

// With `found` it fits, and with one more it does not.
void check_last(const SweepCase& c, std::optional<int64_t> found,
                int64_t KvRequest::*member) {
  KvRequest request = *c.options.kv;
  const auto fits = [&](int64_t value) {
    request.*member = value;
    const auto budget = c.budget(request);
    return budget && budget->fits();
  };
  if (!found) {
    ENSURE(fits(kMaxKvCount));
    return;
  }
  if (*found > 0) ENSURE(fits(*found));
  ENSURE(!fits(*found + 1));
}

TEST_CASE("margins are where the budget itself stops to fit") {
  CHECK(holds("margins", [] {
    const SweepCase c = drawn();
    const auto budget = c.budget(*c.options.kv);
    ENSURE(budget.has_value());
    const WorkloadHeadroom workload_headroom =
        find_headroom(c.manifest, c.plan, c.groups, c.options, *budget);
    check_last(c, workload_headroom.batch, &KvRequest::batch);
    check_last(c, workload_headroom.context, &KvRequest::seq);
  }));
}

using testing::mesh;

TEST_CASE("a number of devices is cut over axes in every way, once each") {
  const auto found = factorizations(12, {"a", "b"}, 100);
  REQUIRE(found);
  std::vector<std::string> texts;
  for (const Mesh& m : *found) texts.push_back(mesh_text(m));
  CHECK(texts == std::vector<std::string>{"a=12,b=1", "a=6,b=2", "a=4,b=3",
                                          "a=3,b=4", "a=2,b=6", "a=1,b=12"});
  // Of 2^3 over 3 axes: ways to deal 3 factors to 3 axes.
  CHECK(factorizations(8, {"a", "b", "c"}, 10)->size() == 10);
  CHECK_FALSE(factorizations(8, {"a", "b", "c"}, 9));
  CHECK(factorizations(1, {"a"}, 1)->size() == 1);
}

SweepMesh swept(const char* text, int64_t errors = 0) {
  return {
      {mesh(text), OnIndivisible::Drop, true, {}, {}, {}, {}}, {}, errors, 0};
}
SweepPoint point(size_t mesh, int64_t total, bool fits = true,
                 std::optional<int64_t> batch = std::nullopt) {
  SweepPoint result;
  result.mesh = mesh;
  result.total = total;
  result.fit.usable = 1;
  result.fit.fits = fits;
  result.batch = batch;
  return result;
}

TEST_CASE("the frontier has fewer devices or less memory than all others") {
  std::vector<SweepMesh> meshes;
  meshes.push_back(swept("tp=8"));
  meshes.push_back(swept("tp=4"));
  meshes.push_back(swept("tp=2,dp=2"));
  meshes.push_back(swept("tp=16"));
  meshes.push_back(swept("tp=32", 1));
  // 4 devices: 50 beats 60; 8 take 40; 16 take no less; 2 x 2 does not fit the
  // second workload; what has errors does not count.
  const std::vector<SweepPoint> points = {
      point(0, 40),          point(1, 60),
      point(2, 50),          point(3, 40),
      point(4, 1),           point(0, 70, true, 2),
      point(2, 5, false, 2), point(3, 70, false, 2),
  };
  CHECK(frontier(points, meshes) == std::vector<size_t>{2, 0, 5});
  CHECK(frontier({point(0, 7), point(0, 7)}, meshes) ==
        std::vector<size_t>{0, 1});
  CHECK(frontier({}, meshes).empty());
}

TEST_CASE("a point is the budget of its mesh with its margins") {
  Manifest manifest =
      testing::manifest({{"model/layers/0/wq/kernel", "bf16[8, 8]"}});
  manifest.facts.from = FactsFrom::Manifest;
  manifest.facts.layers = 1;
  manifest.facts.kv_heads = 2;
  manifest.facts.head_dim = 4;
  Diagnostics diags;
  auto plan = resolve(manifest, testing::rules({{".", "tp"}}), mesh("tp=2"),
                      ResolveOptions(), diags);
  REQUIRE(plan);
  const LayerGroups groups = layer_groups(manifest, plan->placement_of);
  const SweepMesh on{*std::move(plan), {2, 1, 1}, 0, 0};
  BudgetOptions options;
  options.kv_sharding = on.kv_sharding;
  options.limit = DeviceLimit{"test", 1000, 1000, false};
  auto found = sweep_point(manifest, on, groups, options, diags);
  REQUIRE(found);
  CHECK(found->total == 64);  // half of 8 x 8 x 2
  CHECK(found->fit.headroom == 936);
  CHECK_FALSE(found->seq);
  CHECK_FALSE(found->workload_headroom.batch);
  options.kv = KvRequest{2, 10, DType::BF16, 1, false};
  found = sweep_point(manifest, on, groups, options, diags);
  REQUIRE(found);
  // One head, 4 + 4 elements of 2 bytes: 16 a token.
  CHECK(found->total == 64 + 2 * 10 * 16);
  CHECK(found->batch == 2);
  CHECK(found->workload_headroom.batch == 5);     // 936 / 160
  CHECK(found->workload_headroom.context == 29);  // 936 / 32
  manifest.facts.head_dim = std::nullopt;
  CHECK_FALSE(sweep_point(manifest, on, groups, options, diags));
  CHECK(diags.cannot_run());
}

}  // namespace

}  // namespace shardplan
