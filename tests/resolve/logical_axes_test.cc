// SPDX-License-Identifier: Apache-2.0
#include "resolve/logical_axes.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "tests/support/builders.h"
#include "tests/support/generators.h"

namespace shardplan {
namespace {

constexpr auto kNow = FlaxVersion::Current;
constexpr auto kThen = FlaxVersion::March2024;

using Label = std::optional<std::string>;

// A name and its axes, in the notation of a spec's entry.
struct NamedAxes {
  Label name;
  const char* axes;
};

std::vector<LogicalRule> rules_of(const std::vector<NamedAxes>& entries) {
  std::vector<LogicalRule> rules;
  for (const NamedAxes& entry : entries) {
    rules.push_back(
        {entry.name, testing::spec(entry.axes).dims.front(), {}, {}});
  }
  return rules;
}

std::string mapped(const AxisLabels& labels,
                   const std::vector<NamedAxes>& entries,
                   FlaxVersion version = kNow) {
  const LogicalMapping mapping =
      map_logical_axes(labels, rules_of(entries), version);
  return mapping.repeated.empty() ? spec_text(spec_of(mapping)) : "repeated";
}

TEST_CASE("rules are taken in order, and an axis is given once") {
  CHECK(mapped({"batch", "length", "heads", "features"}, {{"batch", "X"},
                                                          {"features", "X"},
                                                          {"heads", "Y"},
                                                          {"batch", "Z"}}) ==
        "P(X, None, Y, None)");
  // The order of rules decides, not that of dimensions.
  CHECK(mapped({"a", "b"}, {{"b", "x"}, {"a", "x"}}) == "P(None, x)");
  // A later rule of a name is its fallback, and replaces nothing.
  CHECK(mapped({"a", "b"}, {{"a", "x"}, {"b", "x"}, {"b", "y"}}) == "P(x, y)");
  CHECK(mapped({"a"}, {{"a", "x"}, {"a", "y"}}) == "P(x)");
  CHECK(mapped({"a", "b"}, {{"a", "(x, y)"}, {"b", "(y, z)"}, {"b", "z"}}) ==
        "P((x, y), z)");
}

TEST_CASE("a rule to None ends the search for its name") {
  CHECK(mapped({"a", "b"}, {{"a", "None"}, {"a", "x"}, {"b", "x"}}) ==
        "P(None, x)");
  const LogicalMapping mapping =
      map_logical_axes({"a"}, rules_of({{"a", "None"}}));
  CHECK(mapping.dims.front().placed);
  CHECK(mapping.dims.front().rule == 1);
}

TEST_CASE("which rule decided and which were blocked is told") {
  const LogicalMapping mapping = map_logical_axes(
      {"b", "a"},
      rules_of({{"a", "x"}, {"b", "x"}, {"b", "(y, x)"}, {"b", "z"}}));
  CHECK(mapping.dims[0].rule == 4);
  CHECK(mapping.dims[0].blocked == std::vector<int>{2, 3});
  CHECK(mapping.dims[1].rule == 1);
  CHECK(is_placed(mapping));
  CHECK_FALSE(is_placed(map_logical_axes({"a", "b"}, rules_of({{"a", "x"}}))));
}

TEST_CASE("labels given twice are told in the order of the first of each") {
  const auto repeated = [](const AxisLabels& labels, FlaxVersion version) {
    return map_logical_axes(labels, {}, version).repeated;
  };
  CHECK(repeated({"a", "b", "b", "a", "a"}, kNow) ==
        std::vector<std::string>{"a", "b"});
  CHECK(repeated({"a", "b", std::nullopt, std::nullopt}, kThen).empty());
  const std::string open(kUnconstrained);
  CHECK(repeated({open, open}, kNow).empty());
  CHECK(repeated({open, open}, kThen) == std::vector<std::string>{open});
}

TEST_CASE("flax of March 2024 differs where labels or axes are special") {
  const AxisLabels labels = {"a", std::nullopt, std::nullopt};
  const std::vector<NamedAxes> rules = {{"a", "x"}, {std::nullopt, "y"}};
  CHECK(mapped(labels, rules, kNow) == "P(x, None, None)");
  CHECK(mapped(labels, rules, kThen) == "P(x, y, None)");
  // UNCONSTRAINED as the axes of two rules.
  const std::vector<NamedAxes> open = {{"a", "?"}, {"b", "?"}};
  CHECK(mapped({"a", "b"}, open, kNow) == "P(?, ?)");
  CHECK(mapped({"a", "b"}, open, kThen) == "P(?, None)");
  // As a label.
  CHECK(mapped({"?", "a"}, {{"a", "x"}}, kNow) == "P(?, x)");
  CHECK(mapped({"?", "a"}, {{"a", "x"}}, kThen) == "P(None, x)");
}

TEST_CASE("None within a tuple of axes blocks nobody") {
  std::vector<LogicalRule> rules = rules_of({{"a", "x"}, {"b", "y"}});
  for (LogicalRule& rule : rules) rule.axes.emplace_back();
  const LogicalMapping mapping = map_logical_axes({"a", "b"}, rules);
  CHECK(is_placed(mapping));
}

TEST_CASE("reserved axes are in use from the start") {
  const auto rules = rules_of({{"a", "x"}, {"a", "y"}});
  const LogicalMapping mapping =
      map_logical_axes({"a"}, rules, kNow, LogicalReading::Priority, {"x"});
  CHECK(spec_text(spec_of(mapping)) == "P(y)");
  CHECK(mapping.dims.front().blocked == std::vector<int>{1});
}

TEST_CASE("in a mapping every name has its axes, and its last rule counts") {
  const auto rules = rules_of({{"a", "x"}, {"b", "x"}, {"a", "(x, y)"}});
  const LogicalMapping mapping =
      map_logical_axes({"a", "b", "c"}, rules, kNow, LogicalReading::Mapping);
  CHECK(spec_text(spec_of(mapping)) == "P((x, y), x, None)");
  CHECK(mapping.dims.front().rule == 3);
}

TEST_CASE("what no rule places is left to the fallback") {
  const std::vector<LogicalRule> rules = rules_of({{"a", "x"}, {"b", "x"}});
  const auto outcome = [&](const std::optional<AxisLabels>& labels,
                           RulesFallback fallback, FlaxVersion version) {
    return logical_constraint(labels, rules, fallback, version).outcome;
  };
  const AxisLabels blocked = {"a", "b"};
  CHECK(outcome(blocked, RulesFallback::AxisIsUnsharded, kNow) ==
        ConstraintOutcome::Constrained);
  CHECK(outcome(blocked, RulesFallback::RaiseError, kNow) ==
        ConstraintOutcome::Unplaced);
  CHECK(outcome(blocked, RulesFallback::NoConstraint, kNow) ==
        ConstraintOutcome::Unconstrained);
  const AxisLabels unlabelled = {"a", std::nullopt};
  CHECK(outcome(unlabelled, RulesFallback::RaiseError, kNow) ==
        ConstraintOutcome::Constrained);
  CHECK(outcome(unlabelled, RulesFallback::RaiseError, kThen) ==
        ConstraintOutcome::Unplaced);
  CHECK(outcome(AxisLabels{"a", "a"}, RulesFallback::NoConstraint, kNow) ==
        ConstraintOutcome::RepeatedLabel);
  // Nothing to constrain, nothing to check.
  CHECK(outcome(std::nullopt, RulesFallback::RaiseError, kNow) ==
        ConstraintOutcome::Unconstrained);
  CHECK(logical_constraint(AxisLabels{"c", "c"}, {}, RulesFallback::RaiseError,
                           kNow)
            .outcome == ConstraintOutcome::Unconstrained);
}

TEST_CASE("fallbacks are named as in flax") {
  for (const auto fallback :
       {RulesFallback::AxisIsUnsharded, RulesFallback::RaiseError,
        RulesFallback::NoConstraint}) {
    CHECK(find_fallback(fallback_name(fallback)) == fallback);
  }
  CHECK_FALSE(find_fallback("AXIS_IS_UNSHARDED").has_value());
}

// Labels without repetition, and rules for them.
rc::Gen<AxisLabels> any_labels() {
  return rc::gen::map(
      testing::gen::some_of<std::string>({"a", "b", "c", "d", "-"}),
      [](const std::vector<std::string>& names) {
        AxisLabels labels;
        for (const std::string& name : names) {
          labels.push_back(name == "-" ? Label() : Label(name));
        }
        return labels;
      });
}

std::vector<LogicalRule> any_rules() {
  std::vector<LogicalRule> rules;
  const auto count = *rc::gen::inRange(0, 9);
  for (int i = 0; i < count; ++i) {
    const auto name = *rc::gen::element<std::string>("a", "b", "c", "d");
    const auto axes = *testing::gen::some_of<AxisName>({"x", "y", "z"});
    rules.push_back({name, axes, {}, {}});
  }
  return rules;
}

TEST_CASE("no mesh axis is given to two dimensions") {
  CHECK(rc::check([] {
    const LogicalMapping mapping = map_logical_axes(*any_labels(), any_rules());
    std::set<AxisName> used;
    for (const AxisNames& axes : spec_of(mapping).dims) {
      for (const AxisName& axis : axes) RC_ASSERT(used.insert(axis).second);
    }
  }));
}

TEST_CASE("a rule is blocked only by the rules before it") {
  CHECK(rc::check([] {
    const AxisLabels labels = *any_labels();
    std::vector<LogicalRule> rules = any_rules();
    const LogicalMapping before = map_logical_axes(labels, rules);
    // One more rule behind all others places only what was unplaced.
    rules.push_back({*rc::gen::element<std::string>("a", "b"), {"x"}, {}, {}});
    const LogicalMapping after = map_logical_axes(labels, rules);
    for (size_t i = 0; i < labels.size(); ++i) {
      if (!before.dims[i].placed) continue;
      RC_ASSERT(after.dims[i].axes == before.dims[i].axes);
      RC_ASSERT(after.dims[i].rule == before.dims[i].rule);
    }
  }));
}

// The definition, without a mapping that is built up: each rule is asked
// whether its name is still without axes, and whether its axes are free.
PartitionSpec by_definition(const AxisLabels& labels,
                            const std::vector<LogicalRule>& rules) {
  std::vector<std::pair<Label, AxisNames>> taken;
  for (const LogicalRule& rule : rules) {
    bool free = std::count(labels.begin(), labels.end(), rule.name) > 0;
    for (const auto& [name, axes] : taken) {
      free = free && name != rule.name &&
             std::find_first_of(axes.begin(), axes.end(), rule.axes.begin(),
                                rule.axes.end()) == axes.end();
    }
    if (free) taken.emplace_back(rule.name, rule.axes);
  }
  PartitionSpec spec;
  for (const Label& label : labels) {
    spec.dims.emplace_back();
    for (const auto& [name, axes] : taken) {
      if (label && name == label) spec.dims.back() = axes;
    }
  }
  return spec;
}

TEST_CASE("the mapping is that of its definition") {
  CHECK(rc::check([] {
    const AxisLabels labels = *any_labels();
    const std::vector<LogicalRule> rules = any_rules();
    RC_ASSERT(spec_of(map_logical_axes(labels, rules)) ==
              by_definition(labels, rules));
  }));
}

}  // namespace
}  // namespace shardplan
