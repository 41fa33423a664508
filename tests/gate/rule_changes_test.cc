// SPDX-License-Identifier: Apache-2.0
#include "gate/rule_changes.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <doctest/doctest.h>
#include <re2/re2.h>

#include "base/shipped.h"
#include "resolve/python_regex.h"
#include "tests/support/builders.h"
#include "tests/support/loaded_rules.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

using How = ChangeHow;
using Kind = ChangeKind;
using testing::rules;
using testing::spec;

std::vector<RuleSetChange> compared_rules(
    const RuleSet& before, const RuleSet& after,
    const std::vector<const Manifest*>& models = {}) {
  Diagnostics diags;
  const auto found = compare_rules({before, after, models, 1}, diags);
  REQUIRE(found.has_value());
  CHECK(found->notes.empty());
  return found->changes;
}

std::vector<const RuleSetChange*> of_how(
    const std::vector<RuleSetChange>& changes, How how) {
  std::vector<const RuleSetChange*> some;
  for (const RuleSetChange& change : changes) {
    if (change.how == how) some.push_back(&change);
  }
  return some;
}

// Rules of a text, alive as long as this is.
std::unique_ptr<testing::LoadedRules> loaded(const std::string& text) {
  testing::MemoryHost host;
  host.files["rules.yaml"] = text;
  auto result = testing::loaded_rules(host, "rules.yaml");
  REQUIRE(result->rules.has_value());
  return result;
}

// The number of the first rule found, by a plain loop; -1: none.
int naive_winner(const RuleSet& set, const std::string& name) {
  for (size_t i = 0; i < set.rules.size(); ++i) {
    const auto pattern = translate_pattern(set.rules[i].pattern, true);
    const std::string& text = std::get<TranslatedPattern>(pattern).re2;
    if (RE2::PartialMatch(name, RE2(text))) return static_cast<int>(i);
  }
  return -1;
}

TEST_CASE("a rule is added, removed or has another spec") {
  const RuleSet before =
      rules({{"q_proj", "fsdp, tp"}, {"gone", "tp"}, {"norm", ""}});
  const RuleSet after =
      rules({{"q_proj", "None, (fsdp, sp)"}, {"norm", ""}, {"fresh", "ep"}});
  const auto changes = compared_rules(before, after);
  REQUIRE(changes.size() == 3);
  const RuleSetChange& changed = changes[0];
  CHECK(changed.how == How::Changed);
  CHECK(changed.what == "q_proj");
  CHECK(changed.before == spec("fsdp, tp"));
  CHECK(changed.after == spec("None, (fsdp, sp)"));
  CHECK(changed.lost == AxisNames{"tp"});
  CHECK(changed.gained == AxisNames{"sp"});
  CHECK(changed.dims == std::vector<DimensionChange>{
                            {0, {"fsdp"}, {}}, {1, {"tp"}, {"fsdp", "sp"}}});
  CHECK(changed.matters == AxisNames{"fsdp", "tp", "sp"});
  CHECK(changed.before_where.text() == "q_proj");
  CHECK(changes[1].how == How::Added);
  CHECK(changes[1].what == "fresh");
  CHECK(changes[1].gained == AxisNames{"ep"});
  CHECK_FALSE(changes[1].before.has_value());
  CHECK(changes[2].how == How::Removed);
  CHECK(changes[2].what == "gone");
  CHECK(changes[2].lost == AxisNames{"tp"});
}

TEST_CASE("axes that change places matter where both cut") {
  const auto changes = compared_rules(rules({{"w", "(fsdp, sp)"}}),
                                      rules({{"w", "(sp, fsdp)"}}));
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].lost.empty());
  CHECK(changes[0].matters == AxisNames{"fsdp", "sp"});
  CHECK(changes[0].matters_together);
}

TEST_CASE("rules of one pattern are told apart by their order") {
  const auto changes = compared_rules(rules({{"w", "tp"}, {"w", "fsdp"}}),
                                      rules({{"w", "tp"}, {"w", "sp"}}));
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].occurrence == 1);
  CHECK(changes[0].lost == AxisNames{"fsdp"});
  // A second rule of a pattern decides nothing, so nothing is lost with it.
  const auto fewer =
      compared_rules(rules({{"w", "tp"}, {"w", "fsdp"}}), rules({{"w", "tp"}}));
  REQUIRE(fewer.size() == 1);
  CHECK(fewer[0].how == How::Removed);
  CHECK(fewer[0].lost.empty());
}

TEST_CASE("a moved rule takes names, of a model, a family or the patterns") {
  const RuleSet before = rules({{"q_proj", "fsdp, tp"}, {"weight$", "tp"}});
  const RuleSet after = rules({{"weight$", "tp"}, {"q_proj", "fsdp, tp"}});
  const auto by_family = compared_rules(before, after);
  REQUIRE(by_family.size() == 1);
  CHECK(by_family[0].how == How::Takeover);
  CHECK(by_family[0].what == "weight$");
  CHECK(by_family[0].by == "q_proj");
  CHECK(by_family[0].witness == "model.layers.0.self_attn.q_proj.weight");
  CHECK(by_family[0].witness_of == "llama");
  CHECK(by_family[0].lost == AxisNames{"fsdp"});
  CHECK(by_family[0].before == spec("fsdp, tp"));

  const Manifest model = testing::manifest({{"my/q_proj/weight", "f32[4, 4]"}});
  const auto by_model = compared_rules(before, after, {&model});
  REQUIRE(by_model.size() == 1);
  CHECK(by_model[0].from == RuleSetChange::From::Model);
  CHECK(by_model[0].witness == "my/q_proj/weight");

  const auto by_patterns =
      compared_rules(rules({{"zig_[0-9]+", "tp"}, {"zag$", "fsdp"}}),
                     rules({{"zag$", "fsdp"}, {"zig_[0-9]+", "tp"}}));
  REQUIRE(by_patterns.size() == 1);
  CHECK(by_patterns[0].how == How::Takeover);
  CHECK(by_patterns[0].from == RuleSetChange::From::Patterns);
}

TEST_CASE("without a witness a move is reported as one") {
  const auto changes =
      compared_rules(rules({{"^zig$", "tp"}, {"^zag$", "fsdp"}}),
                     rules({{"^zag$", "fsdp"}, {"^zig$", "tp"}}));
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].how == How::Moved);
  CHECK(changes[0].crossed == 1);
  CHECK_FALSE(changes[0].is_shadowed);
  CHECK(changes[0].witness.empty());
  // An earlier rule has all that both match.
  const auto shadowed =
      compared_rules(rules({{"z", "sp"}, {"zig", "tp"}, {"zag", "fsdp"}}),
                     rules({{"z", "sp"}, {"zag", "fsdp"}, {"zig", "tp"}}));
  REQUIRE(shadowed.size() == 1);
  CHECK(shadowed[0].how == How::Moved);
  CHECK(shadowed[0].is_shadowed);
  // Of equal specs it does not matter who decides.
  CHECK(compared_rules(rules({{"zig", "tp"}, {"zag", "tp"}}),
                       rules({{"zag", "tp"}, {"zig", "tp"}}))
            .empty());
}

TEST_CASE("a new rule before old ones takes their names") {
  const auto changes =
      compared_rules(rules({{"attn", "tp"}, {".*", ""}}),
                     rules({{"attn/bias", ""}, {"attn", "tp"}, {".*", ""}}));
  REQUIRE(changes.size() == 2);
  CHECK(changes[0].how == How::Added);
  CHECK(changes[0].crossed == 0);
  CHECK(changes[1].how == How::Takeover);
  CHECK(changes[1].what == "attn/bias");
  CHECK(changes[1].by == "attn");
  CHECK(changes[1].lost == AxisNames{"tp"});
}

TEST_CASE("what names of a model keep, a removed rule did not lose") {
  const RuleSet before = rules({{"q_proj", "tp"}, {"v_proj", "tp"}});
  const RuleSet after = rules({{"(q|v)_proj", "tp"}});
  const auto alone = compared_rules(before, after);
  CHECK(of_how(alone, How::Removed).size() == 2);
  CHECK(of_how(alone, How::Removed)[0]->lost == AxisNames{"tp"});
  CHECK(of_how(alone, How::Takeover).empty());
  const Manifest model = testing::manifest(
      {{"q_proj/kernel", "f32[4]"}, {"v_proj/kernel", "f32[4]"}});
  const auto known = compared_rules(before, after, {&model});
  for (const RuleSetChange& change : known) CHECK(change.lost.empty());
  // And where a name is left without a rule, it is.
  const auto left = compared_rules(before, rules({{"q_proj", "tp"}}), {&model});
  REQUIRE(of_how(left, How::Removed).size() == 1);
  CHECK(of_how(left, How::Removed)[0]->witness == "v_proj/kernel");
  CHECK(of_how(left, How::Removed)[0]->lost == AxisNames{"tp"});
}

TEST_CASE("a pattern that cannot be compiled is refused") {
  Diagnostics diags;
  const RuleSet good = rules({{"w", "tp"}});
  const RuleSet bad = rules({{"(", "tp"}});
  CHECK_FALSE(compare_rules({good, bad, {}, 1}, diags).has_value());
  REQUIRE(diags.all().size() == 1);
  CHECK(diags.all()[0].code == Code::UnsupportedPattern);
}

TEST_CASE("rules of values and axes are compared too") {
  const auto before = loaded(
      "axes: [tp]\nmesh: {fsdp: 4, ep: 2}\nrules: [[w, [tp]]]\n"
      "activations: [[residual, [tp]]]\n");
  const auto after = loaded(
      "axes: [sp]\nmesh: {ep: 2, fsdp: 8}\nrules: [[w, [tp]]]\n"
      "activations: [[residual, [fsdp]]]\n");
  const auto changes = compared_rules(*before->rules, *after->rules);
  std::vector<std::string> texts;
  for (const RuleSetChange& change : changes) {
    texts.push_back(std::string(kind_name(change.kind)) + " " +
                    std::string(how_name(change.how)) + " " + change.what +
                    " " + change.text_before + ">" + change.text_after);
  }
  CHECK(texts == std::vector<std::string>{
                     "rule changed residual >",
                     "axis changed fsdp size 4>size 8",
                     "axis added sp >declared", "axis removed tp declared>",
                     "axis moved mesh (fsdp, ep)>(ep, fsdp)"});
  CHECK(changes[0].of_values);
}

// Labels.

TEST_CASE("a label loses and gains by its own rules") {
  const auto before = loaded(
      "logical_axis_rules:\n  - [embed, fsdp]\n  - [mlp, tp]\n"
      "  - [mlp, sp]\n  - [old, ep]\n");
  const auto after = loaded(
      "logical_axis_rules:\n  - [embed, [fsdp, ep]]\n  - [mlp, tp]\n"
      "  - [mlp, null]\n  - [fresh, null]\n");
  const auto changes = compared_rules(*before->rules, *after->rules);
  REQUIRE(changes.size() == 4);
  CHECK(changes[0].what == "embed");
  CHECK(changes[0].gained == AxisNames{"ep"});
  CHECK(changes[0].matters == AxisNames{"ep"});
  CHECK(changes[1].how == How::Fallback);
  CHECK(changes[1].occurrence == 1);
  CHECK(changes[1].lost == AxisNames{"sp"});
  CHECK(changes[2].how == How::Added);
  CHECK(changes[2].what == "fresh");
  CHECK(changes[3].how == How::Removed);
  CHECK(changes[3].lost == AxisNames{"ep"});
}

TEST_CASE("an earlier label that gains an axis takes it from a later one") {
  const auto before = loaded(
      "logical_axis_rules:\n  - [batch_moe, [data, fsdp]]\n"
      "  - [exp, expert]\n");
  const auto after = loaded(
      "logical_axis_rules:\n  - [batch_moe, [data, fsdp, expert]]\n"
      "  - [exp, expert]\n");
  const auto changes = compared_rules(*before->rules, *after->rules);
  REQUIRE(changes.size() == 2);
  CHECK(changes[0].what == "batch_moe");
  CHECK(changes[0].gained == AxisNames{"expert"});
  CHECK(changes[1].how == How::Contest);
  CHECK(changes[1].what == "exp");
  CHECK(changes[1].by == "batch_moe");
  CHECK(changes[1].lost == AxisNames{"expert"});
  CHECK(changes[1].contested == AxisNames{"expert"});
  CHECK(changes[1].matters == AxisNames{"expert"});
  CHECK(changes[1].by_where.text() == "batch_moe");
  const auto back = compared_rules(*after->rules, *before->rules);
  REQUIRE(back.size() == 2);
  CHECK(back[0].lost == AxisNames{"expert"});
  CHECK(back[1].gained == AxisNames{"expert"});
  CHECK(back[1].by == "batch_moe");
}

TEST_CASE("a later label is passed over as a whole") {
  const auto before = loaded(
      "logical_axis_rules:\n  - [exp, expert]\n  - [batch, [data, fsdp]]\n");
  const auto after = loaded(
      "logical_axis_rules:\n  - [exp, expert]\n"
      "  - [batch, [data, fsdp, expert]]\n");
  const auto changes = compared_rules(*before->rules, *after->rules);
  REQUIRE(changes.size() == 2);
  CHECK(changes[1].what == "batch");
  CHECK(changes[1].by == "exp");
  CHECK(changes[1].lost == AxisNames{"data", "fsdp"});
  CHECK(changes[1].contested == AxisNames{"expert"});
}

TEST_CASE("the order of labels is their priority") {
  const auto before =
      loaded("logical_axis_rules:\n  - [embed, tp]\n  - [mlp, tp]\n");
  const auto after =
      loaded("logical_axis_rules:\n  - [mlp, tp]\n  - [embed, tp]\n");
  const auto changes = compared_rules(*before->rules, *after->rules);
  REQUIRE(changes.size() == 2);
  for (const RuleSetChange& change : changes) {
    CHECK(change.how == How::Contest);
    CHECK(change.by == (change.what == "mlp" ? "embed" : "mlp"));
    CHECK((change.what == "mlp" ? change.gained : change.lost) ==
          AxisNames{"tp"});
  }
}

TEST_CASE("labels of known arrays compete where they stand together") {
  const auto before =
      loaded("logical_axis_rules:\n  - [a, null]\n  - [b, tp]\n  - [c, tp]\n");
  const auto after =
      loaded("logical_axis_rules:\n  - [a, tp]\n  - [b, tp]\n  - [c, tp]\n");
  Manifest model = testing::manifest({{"w", "f32[4, 4]"}, {"x", "f32[4]"}});
  model.set_axes(0, {"c", "a"});
  model.set_axes(1, {"b"});
  const auto changes = compared_rules(*before->rules, *after->rules, {&model});
  std::set<std::pair<std::string, std::string>> contests;
  for (const RuleSetChange* change : of_how(changes, How::Contest)) {
    contests.emplace(change->what, change->witness);
  }
  // Where nothing is known of `b`'s arrays it may meet `a`, too.
  CHECK(contests ==
        std::set<std::pair<std::string, std::string>>{{"c", "w"}, {"b", ""}});
  model.set_axes(1, {"b", "c"});
  contests.clear();
  const auto known = compared_rules(*before->rules, *after->rules, {&model});
  for (const RuleSetChange* change : of_how(known, How::Contest)) {
    contests.emplace(change->what, change->witness);
  }
  CHECK(contests == std::set<std::pair<std::string, std::string>>{{"c", "w"}});
}

TEST_CASE("semantic axes are labels") {
  const auto before =
      loaded("partition_axis: {head_axis: tp}\nrules: [[w, [HEAD]]]\n");
  const auto after =
      loaded("partition_axis: {head_axis: ep}\nrules: [[w, [HEAD]]]\n");
  const auto changes = compared_rules(*before->rules, *after->rules);
  REQUIRE_FALSE(changes.empty());
  CHECK(changes[0].kind == Kind::Label);
  CHECK(changes[0].what == "head_axis");
  CHECK(changes[0].lost == AxisNames{"tp"});
  CHECK(changes[0].gained == AxisNames{"ep"});
}

TEST_CASE("a shipped set is the same as itself") {
  for (const std::string_view folder : kRuleFolders) {
    for (const ShippedFile& file : shipped_files(folder)) {
      CAPTURE(file.path);
      const auto set = loaded(std::string(file.text));
      CHECK(compared_rules(*set->rules, *set->rules).empty());
    }
  }
}

// Properties.

using Entries = std::vector<testing::PatternAndSpec>;

// Rules of few letters, so that they are found in one another's names.
Entries some_entries() {
  Entries entries;
  const auto count = testing::draw_in(1, 7);
  for (int i = 0; i < count; ++i) {
    entries.push_back(
        {testing::draw_of<std::string>({"a", "b$", "^a", "a.b", ".*", "(a|b)/",
                                        "[0-9]", "a{2}", "/b", "ab?", "^a/b$",
                                        "^0.*b$"}),
         testing::draw_of<std::string>(
             {"", "tp", "fsdp", "tp, fsdp", "(tp, fsdp)", "None, tp"})});
  }
  return entries;
}

Manifest some_names() {
  std::set<std::string> names;
  const auto count = testing::draw_in(1, 12);
  for (int i = 0; i < count; ++i) {
    const auto name = testing::draw_text("ab/0");
    if (!name.empty()) names.insert(name);
  }
  std::vector<testing::NamedType> tensors;
  for (const std::string& name : names) tensors.push_back({name, "f32[4]"});
  return testing::manifest(tensors);
}

Entries reordered(Entries entries) {
  for (size_t i = entries.size(); i > 1; --i) {
    std::swap(entries[i - 1], entries[testing::draw_in<size_t>(0, i)]);
  }
  return entries;
}

std::vector<RuleSetChange> property_changes(
    const RuleSet& before, const RuleSet& after,
    const std::vector<const Manifest*>& models) {
  Diagnostics diags;
  const auto found = compare_rules({before, after, models, 1}, diags);
  ENSURE(found.has_value());
  return found->changes;
}

TEST_CASE("gate: nothing changed where nothing changed") {
  CHECK(testing::holds([] {
    const RuleSet set = rules(some_entries());
    const Manifest model = some_names();
    ENSURE(property_changes(set, set, {&model}).empty());
  }));
}

TEST_CASE("gate: a witness has another rule and spec on each side") {
  CHECK(testing::holds([] {
    const RuleSet before = rules(some_entries());
    const RuleSet after = rules(
        testing::draw_bool() ? some_entries() : reordered(some_entries()));
    for (const RuleSetChange& change : property_changes(before, after, {})) {
      if (change.how != How::Takeover) continue;
      const int was = naive_winner(before, change.witness);
      const int is = naive_winner(after, change.witness);
      const auto pattern = [](const RuleSet& set, int rule) {
        return rule < 0 ? std::string()
                        : set.rules[static_cast<size_t>(rule)].pattern;
      };
      ENSURE(pattern(before, was) == change.by);
      ENSURE(pattern(after, is) == change.what);
      const bool same_spec = was >= 0 && is >= 0 &&
                             before.rules[static_cast<size_t>(was)].spec ==
                                 after.rules[static_cast<size_t>(is)].spec;
      ENSURE(!same_spec);
    }
  }));
}

TEST_CASE("gate: a reorder that changes a model's winner is told") {
  CHECK(testing::holds([] {
    const Entries entries = some_entries();
    const RuleSet before = rules(entries);
    const RuleSet after = rules(reordered(entries));
    const Manifest model = some_names();
    const auto changes = property_changes(before, after, {&model});
    for (size_t i = 0; i < model.size(); ++i) {
      const std::string name(model.name(i));
      const int was = naive_winner(before, name);
      const int is = naive_winner(after, name);
      if (was < 0 || is < 0) continue;
      const Rule& old_rule = before.rules[static_cast<size_t>(was)];
      const Rule& new_rule = after.rules[static_cast<size_t>(is)];
      if (old_rule.spec == new_rule.spec) continue;
      // Of one pattern it is the first rule, with another spec.
      const bool is_reported = std::any_of(
          changes.begin(), changes.end(), [&](const RuleSetChange& change) {
            return old_rule.pattern == new_rule.pattern
                       ? change.how == How::Changed &&
                             change.what == old_rule.pattern
                       : change.how == How::Takeover &&
                             change.by == old_rule.pattern &&
                             change.what == new_rule.pattern &&
                             change.from == RuleSetChange::From::Model;
          });
      ENSURE(is_reported);
    }
  }));
}

// What a change says, the other way round if asked; what is found by trying
// names made up along the way is left out, since these differ.
using ChangeKey =
    std::tuple<How, std::string, std::string, std::optional<PartitionSpec>,
               std::optional<PartitionSpec>, std::string>;

std::multiset<ChangeKey> change_keys(const std::vector<RuleSetChange>& changes,
                                     bool reversed) {
  std::multiset<ChangeKey> all;
  for (const RuleSetChange& change : changes) {
    if (change.how == How::Moved) continue;
    const bool is_takeover = change.how == How::Takeover;
    if (is_takeover && change.from != RuleSetChange::From::Model) continue;
    ChangeKey key = {change.how,    change.what,  is_takeover ? change.by : "",
                     change.before, change.after, change.witness};
    if (reversed) {
      if (is_takeover) std::swap(std::get<1>(key), std::get<2>(key));
      std::swap(std::get<3>(key), std::get<4>(key));
      if (change.how == How::Added) std::get<0>(key) = How::Removed;
      if (change.how == How::Removed) std::get<0>(key) = How::Added;
    }
    all.insert(key);
  }
  return all;
}

TEST_CASE("gate: the other way round before and after are swapped") {
  CHECK(testing::holds([] {
    const RuleSet before = rules(some_entries());
    const RuleSet after = rules(some_entries());
    const Manifest model = some_names();
    // Every name has a rule, so that none is what a new rule is there for.
    RuleSet full_before = before;
    RuleSet full_after = after;
    const RuleSet rest = rules({{"", "sp"}});
    full_before.rules.push_back(rest.rules[0]);
    full_after.rules.push_back(rest.rules[0]);
    const auto forth = property_changes(full_before, full_after, {&model});
    const auto back = property_changes(full_after, full_before, {&model});
    ENSURE(change_keys(forth, true) == change_keys(back, false));
  }));
}

}  // namespace
}  // namespace shardplan
