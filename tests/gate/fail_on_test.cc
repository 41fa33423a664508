// SPDX-License-Identifier: Apache-2.0
#include "gate/fail_on.h"

#include <doctest/doctest.h>

#include "gate/rule_changes.h"

namespace shardplan {
namespace {

TEST_CASE("what fails is read from a list") {
  FailOn fail_on;
  for (const std::string& form : fail_on_forms()) {
    CAPTURE(form);
    CHECK(add_fail_on(form, fail_on));
  }
  CHECK(fail_on == FailOn{0.01, 0.0, true, true, true, true, {}, 0.03});
  CHECK(without_meaning_for_rules(fail_on) ==
        std::vector<std::string>{"memory", "replicated", "time", "new-errors",
                                 "new-warnings"});
  FailOn other;
  CHECK(add_fail_on("memory>0.5", other));
  CHECK(other.memory == 0.5);
  for (const char* wrong :
       {"", "memory", "memory>", "memory>x", "memory>-1%", "memory>nan",
        "replicated>1%%", "lost_axes", "time", "time>", "time>3", "time>1s",
        "time>-1%", "time>inf"}) {
    CAPTURE(wrong);
    CHECK_FALSE(add_fail_on(wrong, other));
  }
}

TEST_CASE("a change fails by what it lost, or because it is one") {
  RuleSetChange gained;
  gained.gained = {"tp"};
  RuleSetChange lost;
  lost.lost = {"tp"};
  FailOn nothing;
  CHECK_FALSE(fails(lost, nothing));
  FailOn lost_axes;
  lost_axes.lost_axes = true;
  CHECK(fails(lost, lost_axes));
  CHECK_FALSE(fails(gained, lost_axes));
  FailOn any;
  any.any_change = true;
  CHECK(fails(gained, any));
}

}  // namespace
}  // namespace shardplan
