// SPDX-License-Identifier: Apache-2.0
#include "cli/views/rule_changes_report.h"

#include <doctest/doctest.h>

#include "report/figures/figures.h"

namespace shardplan::cli {
namespace {

RuleSetChange contest(const std::string& loser, const std::string& winner) {
  RuleSetChange change;
  change.kind = ChangeKind::Label;
  change.how = ChangeHow::Contest;
  change.what = loser;
  change.by = winner;
  change.before = PartitionSpec{{{"tp"}}};
  change.after = PartitionSpec{{{}}};
  change.lost = {"tp"};
  change.contested = {"tp"};
  change.matters = {"tp"};
  return change;
}

TEST_CASE("contests with one rival share a line, its own kind first") {
  const std::vector<RuleSetChange> changes = {contest("mlp", "act_batch"),
                                              contest("act_mlp", "act_batch")};
  const auto texts = change_texts(changes, {}, false);
  REQUIRE(texts.size() == 1);
  CHECK(texts[0].what == "`act_mlp` and `mlp` lose `tp` to `act_batch`");
  CHECK(change_texts(changes, {}, true).size() == 2);
}

TEST_CASE("contests of one label share a line, too") {
  const std::vector<RuleSetChange> changes = {contest("mlp", "heads"),
                                              contest("mlp", "embed")};
  const auto texts = change_texts(changes, {}, false);
  REQUIRE(texts.size() == 1);
  CHECK(texts[0].what == "`mlp` loses `tp` to `heads` and `embed`");
}

TEST_CASE("lines are columns where all fit, and fold where one does not") {
  const std::vector<ChangeText> texts = {
      {"`a` loses `tp`", "x:1 → y:2", "P(tp) → P()"},
      {"`bbb` is new", "y:3", ""}};
  CHECK(lines_of(ChangeList{texts}, {.width = 80}) ==
        std::vector<std::string>{"`a` loses `tp`  x:1 → y:2  P(tp) → P()",
                                 "`bbb` is new    y:3"});
  CHECK(lines_of(ChangeList{texts}, {.width = 30}) ==
        std::vector<std::string>{"`a` loses `tp`  x:1 → y:2", "    P(tp) → P()",
                                 "`bbb` is new  y:3"});
  CHECK(lines_of(ChangeList{texts}, {.width = 20}) ==
        std::vector<std::string>{"`a` loses `tp`", "    x:1 → y:2",
                                 "    P(tp) → P()", "`bbb` is new  y:3"});
}

TEST_CASE("what fails says so") {
  FailOn fail_on;
  fail_on.lost_axes = true;
  const auto texts = change_texts({contest("a", "b")}, fail_on, false);
  CHECK(texts[0].detail ==
        "[tp] → None in arrays that have both; matters where `tp` > 1; fails");
}

}  // namespace
}  // namespace shardplan::cli
