// SPDX-License-Identifier: Apache-2.0
#include "gate/time_changes.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace shardplan {
namespace {

StepTime step_of(std::vector<std::pair<std::string, double>> parts) {
  StepTime time;
  for (auto& [name, seconds] : parts) {
    StepTimePart row;
    row.part = std::move(name);
    row.seconds = {seconds / 2, seconds, seconds * 2};
    row.exposed = seconds;
    time.total += row.seconds;
    time.parts.push_back(row);
  }
  return time;
}

// A side with this time. The session is empty, since no time is read from it.
TargetSide side_with(const StepTime* time, const std::string& untimed = "",
                     std::string_view timed = "step") {
  static const Session kSession = {
      {}, {}, {}, {Mesh({{"dp", 1}}), {}, {}, {}, {}, {}, {}}, {}, {}, {}, {}};
  static const Diagnostics kNone;
  return {kSession, nullptr, nullptr, {}, kNone, time, timed, untimed};
}

std::vector<GateChange> changes_between(const StepTime* before,
                                        const std::string& no_before,
                                        const StepTime* after,
                                        const std::string& no_after) {
  std::vector<GateChange> changes;
  add_time_changes(side_with(before, no_before), side_with(after, no_after),
                   changes);
  return changes;
}

TEST_CASE("parts that differ are told apart, and the total is last") {
  const StepTime before = step_of({{"products", 1}, {"memory", 2}});
  const StepTime after =
      step_of({{"products", 1}, {"memory", 1}, {"all-reduce over tp", 3}});
  const auto changes = time_part_changes(side_with(&before), side_with(&after));
  REQUIRE(changes.size() == 3);
  CHECK(changes[0].part == "memory");
  CHECK(changes[0].before->exposed == 2);
  CHECK(changes[0].after->seconds == Seconds{0.5, 1, 2});
  CHECK(changes[1].part == "all-reduce over tp");
  CHECK_FALSE(changes[1].before);
  CHECK(changes[2].part == "step");
  CHECK(changes[2].after->seconds.estimate == 5);
  CHECK(time_part_changes(side_with(&before), side_with(&before)).empty());
  CHECK(time_part_changes(side_with(&before), side_with(nullptr)).empty());
}

TEST_CASE("a step that takes longer fails beyond the limit alone") {
  const StepTime before = step_of({{"products", 10}});
  const StepTime after = step_of({{"products", 10}, {"memory", 0.5}});
  const auto changes = changes_between(&before, "", &after, "");
  REQUIRE(changes.size() == 3);
  CHECK(changes[0].what == "step time");
  CHECK(changes[0].time_growth == doctest::Approx(0.05));
  CHECK(changes[0].text == "estimated, exposed: memory +500 ms");
  CHECK(changes[1].what == "step time, at least");
  CHECK(changes[2].what == "step time, at most");
  FailOn limit;
  REQUIRE(add_fail_on("time>4%", limit));
  CHECK(fails_gate(limit, changes[0]));
  CHECK_FALSE(fails_gate(limit, changes[1]));
  CHECK_FALSE(fails_gate(limit, changes[2]));
  REQUIRE(add_fail_on("time>6%", limit));
  CHECK_FALSE(fails_gate(limit, changes[0]));
  CHECK_FALSE(fails_gate(FailOn(), changes[0]));
  CHECK(changes_between(&before, "", &before, "").empty());
  const auto faster = changes_between(&after, "", &before, "");
  REQUIRE(add_fail_on("time>0%", limit));
  CHECK_FALSE(fails_gate(limit, faster[0]));
}

TEST_CASE("a time that is gone fails, and one that is new does not") {
  const StepTime step = step_of({{"products", 10}});
  FailOn limit;
  REQUIRE(add_fail_on("time>4%", limit));
  const auto gone = changes_between(&step, "", nullptr, "no rate");
  REQUIRE(gone.size() == 1);
  CHECK(gone[0].text == "after the change there is no step time: no rate");
  CHECK(gone[0].after == ChangeValue());
  CHECK(fails_gate(limit, gone[0]));
  CHECK_FALSE(fails_gate(FailOn(), gone[0]));
  const auto fresh = changes_between(nullptr, "", &step, "");
  REQUIRE(fresh.size() == 1);
  CHECK(fresh[0].text ==
        "before the change no step time on hardware was requested");
  CHECK_FALSE(fails_gate(limit, fresh[0]));
  CHECK(changes_between(nullptr, "no rate", nullptr, "").empty());
}

TEST_CASE("a token that takes longer is a token, and no step") {
  const StepTime before = step_of({{"products", 10}});
  const StepTime after = step_of({{"products", 11}});
  std::vector<GateChange> changes;
  add_time_changes(side_with(&before, "", "token"),
                   side_with(&after, "", "token"), changes);
  REQUIRE(changes.size() == 3);
  CHECK(changes[0].what == "token time");
  CHECK(changes[2].what == "token time, at most");
  FailOn limit;
  CHECK((add_fail_on("time>4%", limit) && fails_gate(limit, changes[0])));
  CHECK(time_part_changes(side_with(&before, "", "token"),
                          side_with(&after, "", "token"))
            .back()
            .part == "token");
}

TEST_CASE("a prompt is not compared with a token") {
  const StepTime prompt = step_of({{"products", 10}});
  const StepTime token = step_of({{"products", 1}});
  const TargetSide before = side_with(&prompt, "", "prompt");
  const TargetSide after = side_with(&token, "", "token");
  std::vector<GateChange> changes;
  add_time_changes(before, after, changes);
  REQUIRE(changes.size() == 2);
  CHECK(changes[0].what == "prompt time");
  CHECK(changes[0].after == ChangeValue());
  CHECK(changes[0].text ==
        "after the change no prompt time on hardware was requested");
  CHECK(changes[1].what == "token time");
  CHECK(changes[1].before == ChangeValue());
  CHECK(time_part_changes(before, after).empty());
  FailOn limit;
  REQUIRE(add_fail_on("time>4%", limit));
  CHECK(fails_gate(limit, changes[0]));
  CHECK_FALSE(fails_gate(limit, changes[1]));
}

}  // namespace
}  // namespace shardplan
