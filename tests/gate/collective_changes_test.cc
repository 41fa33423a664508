// SPDX-License-Identifier: Apache-2.0
#include "gate/collective_changes.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "resolve/resolve.h"
#include "tests/support/builders.h"
#include "tests/support/loaded_rules.h"
#include "tests/support/memory_host.h"

namespace shardplan {
namespace {

using testing::mesh;

// Two layers of two matrices under rules.
struct CollectiveSide {
  testing::MemoryHost host;
  std::unique_ptr<testing::LoadedRules> loaded;
  Diagnostics diags;
  std::optional<Session> held;

  const Session& session() const { return *held; }
};

std::unique_ptr<CollectiveSide> side_under(const std::string& rules) {
  auto side = std::make_unique<CollectiveSide>();
  side->host.files["rules.yaml"] = rules;
  side->loaded = testing::loaded_rules(side->host, "rules.yaml");
  REQUIRE(side->loaded->rules);
  Manifest manifest;
  for (const char* name : {"layers.0.up.weight", "layers.0.down.weight",
                           "layers.1.up.weight", "layers.1.down.weight"}) {
    manifest.add(name, testing::type("f32[8, 8]"), {});
  }
  auto plan = resolve(manifest, *side->loaded->rules, mesh("fsdp=2,tp=2"), {},
                      side->diags);
  REQUIRE(plan);
  side->held = Session{Model(std::move(manifest)),
                       side->loaded->rules,
                       {},
                       *std::move(plan),
                       {},
                       {},
                       {},
                       {}};
  return side;
}

constexpr const char* kBefore =
    "rules:\n  - [up, [fsdp, tp]]\n  - [down, [tp, fsdp]]\n";
constexpr const char* kAfter =
    "rules:\n  - [up, [fsdp, tp]]\n  - [down, [null, fsdp]]\n";

CollectiveUse sum_after(const char* what, int64_t count, int64_t bytes) {
  CollectiveUse use;
  use.kind = CollectiveKind::AllReduce;
  use.axes = {"tp"};
  use.cause = Cause::PartialSum;
  use.what = what;
  use.after_product = true;
  use.parameters = {"layers.0.up.weight", "layers.0.down.weight"};
  use.count = count;
  use.bytes_per_device = bytes;
  return use;
}

CollectiveUse gather_of(const char* what, int64_t count, int64_t bytes) {
  CollectiveUse use = sum_after(what, count, bytes);
  use.kind = CollectiveKind::AllGather;
  use.axes = {"fsdp"};
  use.cause = Cause::WeightUse;
  use.after_product = false;
  return use;
}

TEST_CASE("collective changes: what is the same on both sides is none") {
  const auto side = side_under(kBefore);
  const std::vector<CollectiveUse> uses = {sum_after("a", 2, 64),
                                           gather_of("b", 2, 32)};
  CHECK(
      collective_changes("t", {side->session(), uses}, {side->session(), uses})
          .empty());
}

TEST_CASE("collective changes: new, gone, more often and larger are apart") {
  const auto before = side_under(kBefore);
  const auto after = side_under(kAfter);
  const auto changes = collective_changes(
      "t",
      {before->session(),
       {sum_after("gone", 2, 1000), sum_after("more", 2, 10),
        sum_after("larger", 2, 100), sum_after("same", 2, 5)}},
      {after->session(),
       {gather_of("new", 3, 48), gather_of("new too", 1, 16),
        sum_after("more", 4, 20), sum_after("larger", 2, 300),
        sum_after("same", 2, 5)}});
  REQUIRE(changes.size() == 4);
  CHECK(changes[0].kind == GateKind::Collective);
  CHECK(changes[0].target == "t");
  CHECK(changes[0].what == "all-reduce over tp after gone");
  CHECK(changes[0].before == ChangeValue(int64_t{2}));
  CHECK(changes[0].after == ChangeValue(int64_t{0}));
  CHECK(changes[0].bytes_per_device == -1000);
  CHECK(changes[0].line.before);
  CHECK(changes[0].line.line == 3);
  // As often as before: bytes tell.
  CHECK(changes[1].what == "all-reduce over tp after larger");
  CHECK(changes[1].before == ChangeValue(ChangeBytes{100}));
  CHECK(changes[1].after == ChangeValue(ChangeBytes{300}));
  // Two alike are one, the larger first.
  CHECK(changes[2].what == "all-gather over fsdp of new and 1 more");
  CHECK(changes[2].before == ChangeValue(int64_t{0}));
  CHECK(changes[2].after == ChangeValue(int64_t{4}));
  CHECK(changes[2].bytes_per_device == 64);
  CHECK(changes[2].text == "gathers before use: `new` and `new too`");
  // The line is that of the parameter which lies elsewhere now.
  CHECK_FALSE(changes[2].line.before);
  CHECK(changes[2].line.file == "rules.yaml");
  CHECK(changes[2].line.line == 3);
  CHECK(changes[3].before == ChangeValue(int64_t{2}));
  CHECK(changes[3].after == ChangeValue(int64_t{4}));
}

TEST_CASE("collective changes: they fail of any-change alone") {
  const auto side = side_under(kBefore);
  const auto changes = collective_changes(
      "t", {side->session(), {}}, {side->session(), {gather_of("new", 3, 48)}});
  REQUIRE(changes.size() == 1);
  FailOn all;
  for (const char* entry :
       {"memory>0", "replicated>0", "new-warnings", "lost-axes"}) {
    CHECK(add_fail_on(entry, all));
  }
  CHECK_FALSE(fails_gate(all, changes[0]));
  CHECK(add_fail_on("any-change", all));
  CHECK(fails_gate(all, changes[0]));
}

TEST_CASE("collective changes: a logical rule is named by its axis") {
  const auto side = side_under(kBefore);
  const auto after = side_under(
      "logical_axis_rules:\n  - [embed, fsdp]\n  - [mlp, tp]\n"
      "rules:\n  - [up, [embed, mlp]]\n  - [down, [mlp, embed]]\n");
  const auto changes =
      collective_changes("t", {side->session(), {}},
                         {after->session(), {gather_of("new", 3, 48)}});
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].line.file == "rules.yaml");
}

}  // namespace
}  // namespace shardplan
