// SPDX-License-Identifier: Apache-2.0
#include "io/pattern_rules.h"

#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "tests/support/messages.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

constexpr auto kStrict = PatternReading::Strict;
constexpr auto kOriginal = PatternReading::Original;

// "a -> P(x); b -> P(y)", then what was reported.
std::string read_patterns(const std::string& text, PatternReading reading) {
  Diagnostics diags;
  RuleSet rules;
  const auto source = std::make_shared<SourceFile>("--pattern", text);
  const bool good = read_pattern(source, reading, rules, diags);
  CHECK(good != diags.has_errors());
  std::string out;
  for (const Rule& rule : rules.rules) {
    out += (out.empty() ? "" : "; ") + rule.pattern + " -> " +
           spec_text(rule.spec);
  }
  const std::string said = testing::messages(diags);
  return said.empty() ? out : out + (out.empty() ? "" : " | ") + said;
}

TEST_CASE("rules, alternatives and entries are split as the original does") {
  CHECK(read_patterns("attention|mlp->data,hidden->model", kOriginal) ==
        "attention -> P(data); mlp -> P(data); hidden -> P(model)");
  CHECK(read_patterns("w->data.model", kOriginal) == "w -> P(data, model)");
  CHECK(read_patterns("w->.model", kOriginal) == "w -> P(None, model)");
  CHECK(read_patterns("w->", kOriginal) == "w -> P(None)");
  CHECK(read_patterns("w->None", kOriginal) == "w -> P(None)");
  CHECK(read_patterns("", kOriginal).empty());
  CHECK(read_patterns("a b -> x", kOriginal) == "a b  -> P( x)");
  CHECK(read_patterns("|a->x", kOriginal) == " -> P(x); a -> P(x)");
}

TEST_CASE("the original splits within brackets and escapes, too") {
  CHECK(read_patterns("(q|k)/w->x", kOriginal) == "(q -> P(x); k)/w -> P(x)");
  CHECK(read_patterns("a\\|b->x", kOriginal) == "a\\ -> P(x); b -> P(x)");
  CHECK(read_patterns("a{1,2}->x", kOriginal) ==
        "2} -> P(x) | SP109 warning --pattern:1:1 `a{1` has no arrow and is "
        "dropped");
  CHECK(read_patterns("a->b->c", kOriginal) ==
        "SP002 --pattern:1:1 `a->b->c` has more than one arrow");
}

TEST_CASE("the strict reading splits outside of brackets only") {
  CHECK(read_patterns("w->fsdp.tp,norm->None", kStrict)
            .starts_with("w -> P(fsdp, tp); norm -> P(None)"));
  CHECK(read_patterns("(q|k)/w->x", kStrict).starts_with("(q|k)/w -> P(x)"));
  CHECK(read_patterns("a{1,2}[,|]\\,b->x", kStrict)
            .starts_with("a{1,2}[,|]\\,b -> P(x)"));
  CHECK(read_patterns(" a | b -> x . y ", kStrict)
            .starts_with("a -> P(x, y); b -> P(x, y)"));
  CHECK(read_patterns("a->fsdp+tp.None.sp", kStrict)
            .starts_with("a -> P((fsdp, tp), None, sp)"));
}

TEST_CASE("where both readings agree, nothing is said") {
  CHECK(read_patterns("attention|mlp->data,hidden->model.", kStrict) ==
        "attention -> P(data); mlp -> P(data); hidden -> P(model, None)");
  CHECK(read_patterns("(q|k)->x", kStrict) ==
        "(q|k) -> P(x) | SP109 warning --pattern:1:1 eformer reads this "
        "pattern differently");
}

TEST_CASE("the strict reading refuses what the original drops or takes on") {
  for (const auto& row :
       std::initializer_list<std::pair<const char*, const char*>>{
           {"", "SP002 --pattern:1:1 the pattern is empty"},
           {"a,b->x", "SP002 --pattern:1:1 `a` has no arrow"},
           {"a->b->c", "SP002 --pattern:1:1 `a->b->c` has more than one arrow"},
           {"a|->x", "SP002 --pattern:1:1 an empty pattern matches every name"},
           {"a->x/y", "SP002 --pattern:1:4 `x/y` is not an axis name"},
           {"a->x+", "SP002 --pattern:1:6 `` is not an axis name"},
       }) {
    CAPTURE(row.first);
    CHECK(read_patterns(row.first, kStrict) == row.second);
  }
  // All of them, not only the first.
  Diagnostics diags;
  RuleSet rules;
  CHECK_FALSE(
      read_pattern(std::make_shared<SourceFile>("--pattern", "a,b->1,|c->x"),
                   kStrict, rules, diags));
  CHECK(diags.count(Severity::Error) == 3);
  CHECK(rules.rules.empty());
}

TEST_CASE("places are those of pattern, spec and entries") {
  Diagnostics diags;
  RuleSet rules;
  const auto source =
      std::make_shared<SourceFile>("--pattern", "a | b -> x . y");
  REQUIRE(read_pattern(source, kStrict, rules, diags));
  CHECK(rules.rules[1].where.text() == "b");
  CHECK(rules.rules[1].spec_where.text() == " x . y");
  CHECK(rules.rules[1].dim_where[1].text() == "y");
}

TEST_CASE("any text is read or refused under both readings") {
  CHECK(holds([] {
    const auto text = draw_text("ab->,|.()[]\\+ ");
    for (const PatternReading reading : {kStrict, kOriginal}) {
      Diagnostics diags;
      RuleSet rules;
      const auto source = std::make_shared<SourceFile>("--pattern", text);
      const bool good = read_pattern(source, reading, rules, diags);
      ENSURE(good != diags.has_errors());
      for (const Rule& rule : rules.rules) {
        ENSURE(rule.dim_where.size() == rule.spec.dims.size());
      }
    }
  }));
}

}  // namespace
}  // namespace shardplan
