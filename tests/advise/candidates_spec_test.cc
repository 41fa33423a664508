// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/advised.h"

namespace shardplan {
namespace {

using testing::Advised;
using testing::advised;

// The rules once the first fix of the first finding with a code is made.
std::string fixed(const Advised& plan, Code code, size_t which = 0) {
  const auto found = plan.find(code);
  REQUIRE_FALSE(found.empty());
  REQUIRE(found[0].fixes.size() > which);
  const Fix& fix = found[0].fixes[which];
  CHECK(testing::broken_promise(plan, found[0], fix) == "");
  return edited(plan.text, fix.edits);
}

Manifest two() {
  return testing::manifest({{"a/w", "f32[512, 1024]"}, {"b/w", "f32[8, 8]"}});
}

TEST_CASE("an unknown axis: the one that was meant, or none") {
  const Advised plan = advised(two(), "rules:\n  - [w, [fsdb, tp]]\n",
                               testing::mesh("fsdp=2,tp=2"));
  CHECK(fixed(plan, Code::UnknownAxis) == "rules:\n  - [w, [fsdp, tp]]\n");
  // Without it the mesh would have an axis that no rule names (SP208).
  CHECK(plan.find(Code::UnknownAxis)[0].fixes.size() == 1);
  const Advised fewer =
      advised(two(), "rules:\n  - [w, [zzzz, tp]]\n", testing::mesh("tp=2"));
  CHECK(fixed(fewer, Code::UnknownAxis) == "rules:\n  - [w, [null, tp]]\n");
}

TEST_CASE("None becomes null, and a rule that decides nothing is mended too") {
  const Advised plan =
      advised(two(), "rules:\n  - [w, [None, tp]]\n  - [zz, [tq]]\n",
              testing::mesh("tp=2"));
  CHECK(fixed(plan, Code::UnknownAxis) ==
        "rules:\n  - [w, [null, tp]]\n  - [zz, [tq]]\n");
  const auto found = plan.find(Code::UnknownAxis);
  REQUIRE(found.size() == 2);
  REQUIRE_FALSE(found[1].fixes.empty());
  CHECK(edited(plan.text, found[1].fixes[0].edits) ==
        "rules:\n  - [w, [None, tp]]\n  - [zz, [tp]]\n");
}

TEST_CASE("a repeated axis: the later use goes") {
  const Advised plan =
      advised(two(), "rules:\n  - [w, [tp, tp]]\n", testing::mesh("tp=2"));
  CHECK(fixed(plan, Code::RepeatedAxis) == "rules:\n  - [w, [tp, null]]\n");
  CHECK(fixed(plan, Code::RepeatedAxis, 1) == "rules:\n  - [w, [null, tp]]\n");
}

TEST_CASE("a spec beyond the rank is cut, or split off") {
  const Advised whole = advised(two(), "rules:\n  - [w, [tp, null, null]]\n",
                                testing::mesh("tp=2"));
  CHECK(fixed(whole, Code::SpecLongerThanRank) ==
        "rules:\n  - [w, [tp, null]]\n");
  Manifest mixed = testing::manifest({{"a/w", "u8[4, 4]"}, {"a/b", "u8[4]"}});
  const Advised some = advised(
      std::move(mixed), "rules:\n  - [a, [tp, null]]\n", testing::mesh("tp=2"));
  CHECK(fixed(some, Code::SpecLongerThanRank) ==
        "rules:\n  - [\"a/b$\", [tp]]\n  - [a, [tp, null]]\n");
}

TEST_CASE("a large replicated parameter gets the free axes") {
  const Advised plan =
      advised(two(), "rules:\n  - [\"a/w\", []]\n  - [w, [[fsdp, tp]]]\n",
              testing::mesh("fsdp=2,tp=2"));
  const std::string after = fixed(plan, Code::LargeReplicatedParameter);
  CHECK(after.find("[\"a/w\", []]") == std::string::npos);
  CHECK(
      plan.find(Code::LargeReplicatedParameter)[0].fixes[0].bytes_per_device ==
      -(512 * 1024 * 4 / 4 * 3));
}

TEST_CASE("an unused axis is named where most bytes are") {
  const Advised plan =
      advised(two(), "rules:\n  - [\"a/w\", [tp]]\n  - [w, [tp]]\n",
              testing::mesh("fsdp=2,tp=2"));
  CHECK(fixed(plan, Code::UnmentionedAxis) ==
        "rules:\n  - [\"a/w\", [[tp, fsdp], null]]\n  - [w, [tp]]\n");
  const Advised declared = advised(
      two(), "axes: [fsdp]\nrules:\n  - [\"a/w\", [tp]]\n  - [w, [tp]]\n",
      testing::mesh("fsdp=2,tp=2"));
  CHECK(fixed(declared, Code::UnusedAxis) ==
        "axes: [fsdp]\nrules:\n  - [\"a/w\", [[tp, fsdp], null]]\n"
        "  - [w, [tp]]\n");
  // One for copies, or called otherwise, is not put into rules.
  const Advised copies =
      advised(two(), "rules:\n  - [w, [tp]]\n", testing::mesh("dp=2,tp=2"));
  CHECK(copies.find(Code::UnmentionedAxis).at(0).fixes.empty());
  const Advised other =
      advised(two(), "axes: [tp, fsdp]\nrules:\n  - [w, [tp, fsdp]]\n",
              testing::mesh("fsdp=2,tensor=2"));
  CHECK(other.find(Code::UnmentionedAxis).at(0).fixes.empty());
}

}  // namespace
}  // namespace shardplan
