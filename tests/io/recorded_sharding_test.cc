// SPDX-License-Identifier: Apache-2.0
#include "io/recorded_sharding.h"

#include <doctest/doctest.h>

#include "resolve/match.h"
#include "tests/support/builders.h"
#include "tests/support/messages.h"

namespace shardplan {
namespace {

RecordedSharding recorded(const std::string& name, const std::string& mesh,
                          const std::string& spec) {
  RecordedSharding sharding;
  sharding.name = name;
  if (!mesh.empty()) {
    const Mesh parsed = testing::mesh(mesh);
    for (const Axis& axis : parsed.axes()) {
      sharding.mesh.push_back({axis.name, axis.size, {}, {}, {}});
    }
  }
  sharding.spec = testing::spec(spec);
  return sharding;
}

// Whether the pattern of a recorded name is found in another.
bool finds(const std::string& recorded_name, const std::string& name) {
  RuleSet rules;
  Rule rule;
  rule.pattern = recorded_pattern(recorded_name);
  rules.rules.push_back(rule);
  Diagnostics diags;
  const auto matcher = Matcher::compile(rules, true, diags);
  REQUIRE(matcher.has_value());
  std::vector<int> found;
  matcher->find(name, found);
  return !found.empty();
}

TEST_CASE("a recorded name is found with either separator, and alone") {
  CHECK(recorded_pattern("params.w") == "^params[./]w$");
  CHECK(finds("params.params.w", "params/params/w"));
  CHECK(finds("params/params/w", "params.params.w"));
  CHECK_FALSE(finds("params.w", "params/params/w"));
  CHECK_FALSE(finds("params.w", "params/w2"));
  CHECK_FALSE(finds("params.w", "paramsxw"));
  CHECK(finds("a+b[0]\\.c", "a+b[0]\\/c"));
}

TEST_CASE("the box that NNX puts last may be there or not") {
  CHECK(recorded_pattern("model.w.value") == "^model[./]w([./]value)?$");
  CHECK(finds("model.w.value", "model/w"));
  CHECK(finds("model.w.value", "model/w/value"));
  CHECK_FALSE(finds("model.w", "model/w/value"));
  CHECK(recorded_pattern("value") == "^value$");
  CHECK(recorded_pattern("xvalue") == "^xvalue$");
}

TEST_CASE(
    "the mesh is that of the first, and others are not dropped silently") {
  Diagnostics diags;
  CHECK(common_mesh({}, diags).axes.empty());
  const auto mesh = common_mesh(
      {recorded("step", "", ""), recorded("a", "fsdp=4,tp=2", "fsdp"),
       recorded("b", "fsdp=4,tp=2", "")},
      diags);
  CHECK(axes_text(mesh.axes) == "fsdp=4,tp=2");
  CHECK(diags.all().empty());
  const auto other =
      common_mesh({recorded("a", "fsdp=4", ""), recorded("b", "fsdp=8", ""),
                   recorded("c", "tp=4", "")},
                  diags);
  CHECK(axes_text(other.axes) == "fsdp=4");
  CHECK(testing::messages(diags) ==
        "SP007 warning 2 arrays recorded on another mesh than the first");
}

TEST_CASE("each parameter gives a rule, the optimizer's state a note") {
  RuleSet rules;
  Diagnostics diags;
  add_recorded_rules({recorded("params.w", "fsdp=4", "None, fsdp"),
                      recorded("opt_state.0.mu.w", "fsdp=4", "fsdp"),
                      recorded("step", "", "")},
                     rules, diags);
  REQUIRE(rules.rules.size() == 1);
  CHECK(spec_text(rules.rules[0].spec) == "P(None, fsdp)");
  CHECK(rules.rules[0].dim_where.size() == 2);
  CHECK(testing::messages(diags) ==
        "SP012 note 2 shardings of the optimizer's state and of counters left "
        "out");
}

TEST_CASE("a state that is all optimizer gives rules too") {
  RuleSet rules;
  Diagnostics diags;
  add_recorded_rules({recorded("opt_state.0.mu.w", "fsdp=4", "fsdp")}, rules,
                     diags);
  CHECK(rules.rules.size() == 1);
  CHECK(diags.all().empty());
}

}  // namespace
}  // namespace shardplan
