// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/runner/logical_axes.h"

#include <vector>

#include <doctest/doctest.h>

#include "tests/conformance/cases.h"

namespace shardplan::conformance {
namespace {

constexpr const char* kAxes = "flax.logical_to_mesh_axes";

TEST_CASE("names may be a text, whose letters are names") {
  CHECK(outcome(kAxes, R"({"array_dim_names": "ab", "rules": [["b", "x"]]})",
                R"({"expected": [null, "x"]})") == "passed");
  // `in` and `index` find parts of a text.
  CHECK(outcome(kAxes, R"({"array_dim_names": "abc", "rules": [["bc", "x"]]})",
                R"({"expected": [null, "x", null]})") == "passed");
  CHECK(outcome(kAxes, R"({"array_dim_names": "foo", "rules": []})",
                R"({"error": {"type": "ValueError", "message":
                    "Unsupported: Dimensions ('o',) occur more"}})") ==
        "passed");
}

TEST_CASE("rules may be absent, no list, or hold a tuple within a tuple") {
  CHECK(outcome(kAxes, R"({"array_dim_names": ["a"], "rules": null})",
                R"({"expected": [null]})") == "passed");
  CHECK(outcome(kAxes, R"({"array_dim_names": ["a"], "rules": {"a": "x"}})",
                R"({"error": {"type": "ValueError", "message":
                    "Unknown axis rule specification type."}})") == "passed");
  CHECK(outcome(kAxes,
                R"({"array_dim_names": ["a"], "rules": [["a", [["x"], "y"]]]})",
                R"({"error": {"type": "ValueError", "message":
                    "A tuple cannot contain a nested tuple"}})") == "passed");
  const char* constraint = "flax.with_logical_constraint";
  CHECK(outcome(constraint, R"({"array_dim_names": ["a"], "rules": "bad",
                                "fallback": "raise_error"})",
                R"({"error": {"type": "ValueError", "message":
                    "Unknown axis rule specification type."}})") == "passed");
  CHECK(outcome(constraint, R"({"array_dim_names": ["a"], "rules": {},
                                "fallback": "raise_error"})",
                R"({"expected": {"constraint": "none_applied"}})") == "passed");
}

TEST_CASE("texts in a tree are names letter by letter; None stays") {
  CHECK(outcome(
            "flax.logical_to_mesh",
            R"({"tree": {"a": {"$tuple": ["b", {"$P": ["b"]}]}, "n": null},
                    "rules": [["b", "x"]]})",
            R"({"expected": {"a": {"$tuple": [["x"], ["x"]]}, "n": null}})") ==
        "passed");
}

TEST_CASE("a sharding knows its mesh and uses an axis once") {
  const char* sharding = "flax.logical_to_mesh_sharding";
  const char* rules = R"({"names": ["a"], "rules": [["a", ["x", "x"]]]})";
  CHECK(outcome(sharding, rules,
                R"({"error": {"type": "DuplicateSpecError", "message":
                    "A single spec has duplicate entries for `x`"}})") ==
        "passed");
  CHECK(outcome(sharding,
                R"({"names": ["a"], "rules": [["a", "x"]], "mesh": "tp=2"})",
                R"({"error": {"type": "ValueError", "message":
                    "Resource axis: x is not found in mesh: ('tp',)."}})") ==
        "passed");
}

TEST_CASE("the compatibility mode gives the answer of the year") {
  const char* inputs =
      R"({"array_dim_names": ["a", null], "rules": [[null, "x"]]})";
  CHECK(
      outcome(kAxes, inputs,
              R"({"expected": [null, "x"], "expected_head": [null, null]})") ==
      "passed");
  CHECK(outcome(kAxes, inputs,
                R"({"expected": [null, "y"], "expected_head": [null, null]})")
            .find("in compatibility mode") != std::string::npos);
}

constexpr auto kNow = FlaxVersion::Current;
constexpr auto kThen = FlaxVersion::March2024;

TEST_CASE("what no rule places is left to the fallback") {
  const std::vector<LogicalRule> rules = {{"a", {"x"}, {}, {}},
                                          {"b", {"x"}, {}, {}}};
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

}  // namespace

}  // namespace shardplan::conformance
