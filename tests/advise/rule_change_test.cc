// SPDX-License-Identifier: Apache-2.0
#include "advise/rule_change.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/builders.h"

namespace shardplan {
namespace {

using testing::spec;

RuleSet three() {
  return testing::rules({{"a", "tp"}, {"b", "tp"}, {"c", "tp"}});
}

std::string patterns(const ChangedRules& change) {
  std::string text;
  for (size_t i = 0; i < change.rules.rules.size(); ++i) {
    text +=
        change.rules.rules[i].pattern + std::to_string(change.origin[i]) + " ";
  }
  return text;
}

TEST_CASE("each change says which rule became which") {
  RuleChange change;
  change.rule = 3;
  change.before = 1;
  change.kind = RuleChange::Kind::Move;
  CHECK(patterns(changed(three(), change)) == "c2 a0 b1 ");
  change.rule = 2;
  change.kind = RuleChange::Kind::Remove;
  CHECK(patterns(changed(three(), change)) == "a0 c2 ");
  change.kind = RuleChange::Kind::SetPattern;
  change.pattern = "x";
  CHECK(patterns(changed(three(), change)) == "a0 x-1 c2 ");
  change.kind = RuleChange::Kind::Insert;
  change.added = {{"x", {}}, {"y", {}}};
  CHECK(patterns(changed(three(), change)) == "a0 x-1 y-1 b1 c2 ");
  change.rule = 4;
  CHECK(patterns(changed(three(), change)) == "a0 b1 c2 x-1 y-1 ");
  change.rule = 2;
  change.kind = RuleChange::Kind::SetSpec;
  change.spec = spec("None, tp");
  const ChangedRules set = changed(three(), change);
  CHECK(patterns(set) == "a0 b1 c2 ");
  CHECK(set.rules.rules[1].spec == spec("None, tp"));
  CHECK(set.rules.rules[2].spec == spec("tp"));
}

TEST_CASE("new rules go where a file can be edited") {
  RuleSet rules = three();
  CHECK(insertion_place(rules, 3) == 3);  // nothing can be edited
  rules.rules[0].item_where = rules.rules[0].where;
  CHECK(insertion_place(rules, 1) == 1);
  CHECK(insertion_place(rules, 4) == 2);  // behind the one that can
  rules.rules[0].shipped = true;
  CHECK_FALSE(is_editable(rules.rules[0]));
  CHECK(insertion_place(rules, 4) == 4);
}

}  // namespace
}  // namespace shardplan
