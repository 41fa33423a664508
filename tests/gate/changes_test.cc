// SPDX-License-Identifier: Apache-2.0
#include "gate/changes.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/text.h"
#include "gate/baseline.h"

namespace shardplan {
namespace {

Diagnostic finding(Code code, std::vector<std::string> parameters,
                   Severity severity = Severity::Warning) {
  Diagnostic diagnostic;
  diagnostic.code = code;
  diagnostic.severity = severity;
  diagnostic.message = "it costs 12 bytes";
  diagnostic.findings = static_cast<int64_t>(parameters.size());
  diagnostic.parameters = std::move(parameters);
  return diagnostic;
}

Diagnostics all_of(const std::vector<Diagnostic>& findings) {
  Diagnostics diags;
  for (const Diagnostic& each : findings) diags.add(each);
  return diags;
}

TEST_CASE("findings are new by their parameters, not by their numbers") {
  const Diagnostics two =
      all_of({finding(Code::IndivisibleDimension, {"a/0/w", "a/1/w"})});
  CHECK(finding_changes(two, two).empty());
  // More layers of the same are told, and are not new.
  const Diagnostics three = all_of(
      {finding(Code::IndivisibleDimension, {"a/0/w", "a/1/w", "a/2/w"})});
  auto changes = finding_changes(two, three);
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].what == "SP203");
  CHECK(changes[0].severity == Severity::Off);
  CHECK(changes[0].before == ChangeValue(int64_t{2}));
  CHECK(changes[0].after == ChangeValue(int64_t{3}));
  // Another parameter is new.
  changes = finding_changes(
      two, all_of({finding(Code::IndivisibleDimension, {"a/0/w", "b/0/w"})}));
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].severity == Severity::Warning);
  // So is what became an error.
  changes = finding_changes(
      two, all_of({finding(Code::IndivisibleDimension, {"a/0/w", "a/1/w"},
                           Severity::Error)}));
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].severity == Severity::Error);
  // What is gone is told, and never fails but for any-change.
  changes = finding_changes(two, {});
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].severity == Severity::Off);
  CHECK(changes[0].after == ChangeValue(int64_t{0}));
}

TEST_CASE("a plan that did not fit before is not a new error when it grows") {
  const auto over = [](const char* message) {
    Diagnostic diagnostic = finding(Code::OverMemory, {}, Severity::Error);
    diagnostic.message = message;
    diagnostic.findings = 1;
    return all_of({diagnostic});
  };
  const Diagnostics before =
      over("the plan needs 998.5 MiB per device, 1,2 B over capacity");
  // Shown, since its numbers are others, and not as new.
  const auto grown = finding_changes(
      before, over("the plan needs 2 GiB per device, 7 over capacity"));
  REQUIRE(grown.size() == 1);
  CHECK(grown[0].severity == Severity::Off);
  CHECK(grown[0].text.starts_with("the plan needs 2 GiB"));
  CHECK(finding_changes(before, before).empty());
  CHECK(finding_changes(before, over("the plan needs nothing")).size() == 2);
}

TEST_CASE("notes are no findings of a gate") {
  CHECK(finding_changes(
            {}, all_of({finding(Code::SmallParameter, {"a"}, Severity::Note)}))
            .empty());
}

GateChange change_of_kind(GateKind kind) {
  GateChange change;
  change.kind = kind;
  return change;
}

TEST_CASE("what fails is what was asked for, and nothing else") {
  const auto fail_on = [](std::string_view text) {
    FailOn all;
    REQUIRE(add_fail_on(text, all));
    return all;
  };
  GateChange memory = change_of_kind(GateKind::Memory);
  memory.what = "fullest device";
  memory.bytes_per_device = 11;
  memory.of_bytes = 1000;
  CHECK(fails_gate(fail_on("memory>1%"), memory));
  CHECK(fails_gate(fail_on("memory>10B"), memory));
  CHECK_FALSE(fails_gate(fail_on("memory>11B"), memory));
  CHECK_FALSE(fails_gate(fail_on("memory>1.1%"), memory));
  CHECK_FALSE(fails_gate(fail_on("replicated>0"), memory));
  memory.bytes_per_device = -11;
  CHECK_FALSE(fails_gate(fail_on("memory>0"), memory));
  memory.what = "replicated parameters";
  memory.bytes_per_device = 1;
  CHECK(fails_gate(fail_on("replicated>0"), memory));
  CHECK_FALSE(fails_gate(fail_on("memory>0"), memory));

  GateChange placement = change_of_kind(GateKind::Placement);
  placement.gained = {"tp"};
  CHECK_FALSE(fails_gate(fail_on("lost-axes"), placement));
  placement.lost = {"fsdp"};
  CHECK(fails_gate(fail_on("lost-axes"), placement));
  CHECK_FALSE(fails_gate(fail_on("new-errors"), placement));

  GateChange found = change_of_kind(GateKind::Finding);
  CHECK_FALSE(fails_gate(fail_on("new-warnings"), found));
  found.severity = Severity::Warning;
  CHECK(fails_gate(fail_on("new-warnings"), found));
  CHECK_FALSE(fails_gate(fail_on("new-errors"), found));
  found.severity = Severity::Error;
  CHECK(fails_gate(fail_on("new-errors"), found));
  CHECK(fails_gate(fail_on("new-warnings"), found));
  for (const GateChange& change : {memory, placement, found}) {
    CHECK(fails_gate(fail_on("any-change"), change));
  }
}

Baseline read(const std::string& text) {
  Diagnostics diags;
  auto baseline = read_baseline(
      std::make_shared<const SourceFile>("baseline.yaml", text), diags);
  REQUIRE(baseline.has_value());
  return *std::move(baseline);
}

TEST_CASE("a finding is accepted when all that it is about is") {
  const Baseline baseline = read(
      "accepted:\n"
      "  - {code: SP203, target: \"llama*\", about: \"a/*/w\", reason: r}\n"
      "  - {code: SP204, reason: any of them}\n");
  const auto accepted = [&](const char* target, const Diagnostic& found) {
    return accepting_entries(baseline, target, found);
  };
  const Diagnostic one = finding(Code::IndivisibleDimension, {"a/0/w"});
  CHECK(accepted("llama[tp=2]", one) == std::vector<size_t>{0});
  CHECK(accepted("qwen", one).empty());
  CHECK(accepted("llama", finding(Code::IndivisibleDimension, {"a/0/w", "b"}))
            .empty());
  CHECK(accepted("qwen", finding(Code::UnusedAxis, {"x"})) ==
        std::vector<size_t>{1});
  CHECK(accepted("llama", finding(Code::SplitUnit, {"a/0/w"})).empty());

  Diagnostics diags = all_of({one, finding(Code::SplitUnit, {"a/0/w"})});
  std::vector<bool> used;
  accept(baseline, "llama", diags, used);
  CHECK(diags.all().size() == 1);
  CHECK(diags.allowed() == 1);
  CHECK(used == std::vector<bool>{true, false});
}

TEST_CASE("a baseline that is written accepts what it was written from") {
  Diagnostics diags =
      all_of({finding(Code::IndivisibleDimension, {"a/0/w", "a/1/w", "b: c"}),
              finding(Code::UnusedAxis, {}),
              finding(Code::SplitUnit, {"x\n\x1b"}, Severity::Error)});
  const Baseline baseline =
      read(baseline_text({{"llama[tp=2]", &diags}}, "as it was"));
  std::vector<bool> used;
  accept(baseline, "llama[tp=2]", diags, used);
  CHECK(diags.all().empty());
  CHECK(used == std::vector<bool>(baseline.accepted.size(), true));
}

TEST_CASE("`*` is any text, everything else is itself") {
  CHECK(matches_glob("", ""));
  CHECK(matches_glob("*", ""));
  CHECK(matches_glob("a*c", "abc"));
  CHECK(matches_glob("a*b*c", "a-b-b-c"));
  CHECK(matches_glob("llama[*]", "llama[tp=2]"));
  CHECK_FALSE(matches_glob("a*c", "abcd"));
  CHECK_FALSE(matches_glob("a", "A"));
  CHECK_FALSE(matches_glob("", "a"));
}

}  // namespace
}  // namespace shardplan
