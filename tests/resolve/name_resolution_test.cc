// SPDX-License-Identifier: Apache-2.0
#include "resolve/name_resolution.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "resolve/correct.h"
#include "tests/support/builders.h"
#include "tests/support/generators.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

constexpr auto kNow = FlaxVersion::Current;
constexpr auto kThen = FlaxVersion::March2024;

using Label = std::optional<std::string>;

// A name and its axes, in the notation of a spec's entry.
struct AxesOfName {
  Label name;
  const char* axes;
};

std::vector<LogicalRule> rules_of(const std::vector<AxesOfName>& entries) {
  std::vector<LogicalRule> rules;
  for (const AxesOfName& entry : entries) {
    rules.push_back(
        {entry.name, testing::spec(entry.axes).dims.front(), {}, {}});
  }
  return rules;
}

std::string mapped(const AxisLabels& labels,
                   const std::vector<AxesOfName>& entries,
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

TEST_CASE("which rule decided and which were blocked is reported") {
  const LogicalMapping mapping = map_logical_axes(
      {"b", "a"},
      rules_of({{"a", "x"}, {"b", "x"}, {"b", "(y, x)"}, {"b", "z"}}));
  CHECK(mapping.dims[0].rule == 4);
  CHECK(mapping.dims[0].blocked == std::vector<int>{2, 3});
  CHECK(mapping.dims[1].rule == 1);
  CHECK(is_placed(mapping));
  CHECK_FALSE(is_placed(map_logical_axes({"a", "b"}, rules_of({{"a", "x"}}))));
}

TEST_CASE("labels given twice are reported in the order of the first of each") {
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
  const std::vector<AxesOfName> rules = {{"a", "x"}, {std::nullopt, "y"}};
  CHECK(mapped(labels, rules, kNow) == "P(x, None, None)");
  CHECK(mapped(labels, rules, kThen) == "P(x, y, None)");
  // UNCONSTRAINED as the axes of two rules.
  const std::vector<AxesOfName> open = {{"a", "?"}, {"b", "?"}};
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

TEST_CASE("fallbacks are named as in flax") {
  for (const auto fallback :
       {RulesFallback::AxisIsUnsharded, RulesFallback::RaiseError,
        RulesFallback::NoConstraint}) {
    CHECK(find_fallback(fallback_name(fallback)) == fallback);
  }
  CHECK_FALSE(find_fallback("AXIS_IS_UNSHARDED").has_value());
}

// Labels without repetition, and rules for them.
AxisLabels any_labels() {
  AxisLabels labels;
  for (const std::string& name : draw_some_of({"a", "b", "c", "d", "-"})) {
    labels.push_back(name == "-" ? Label() : Label(name));
  }
  return labels;
}

std::vector<LogicalRule> any_rules() {
  std::vector<LogicalRule> rules;
  const auto count = draw_in(0, 9);
  for (int i = 0; i < count; ++i) {
    const auto name = draw_of<std::string>({"a", "b", "c", "d"});
    const auto axes = draw_some_of({"x", "y", "z"});
    rules.push_back({name, {axes.begin(), axes.end()}, {}, {}});
  }
  return rules;
}

TEST_CASE("no mesh axis is given to two dimensions") {
  CHECK(holds([] {
    const LogicalMapping mapping = map_logical_axes(any_labels(), any_rules());
    std::set<AxisName> used;
    for (const AxisNames& axes : spec_of(mapping).dims) {
      for (const AxisName& axis : axes) ENSURE(used.insert(axis).second);
    }
  }));
}

TEST_CASE("a rule is blocked only by the rules before it") {
  CHECK(holds([] {
    const AxisLabels labels = any_labels();
    std::vector<LogicalRule> rules = any_rules();
    const LogicalMapping before = map_logical_axes(labels, rules);
    // One more rule behind all others places only what was unplaced.
    rules.push_back({draw_of<std::string>({"a", "b"}), {"x"}, {}, {}});
    const LogicalMapping after = map_logical_axes(labels, rules);
    for (size_t i = 0; i < labels.size(); ++i) {
      if (!before.dims[i].placed) continue;
      ENSURE(after.dims[i].axes == before.dims[i].axes);
      ENSURE(after.dims[i].rule == before.dims[i].rule);
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
  CHECK(holds([] {
    const AxisLabels labels = any_labels();
    const std::vector<LogicalRule> rules = any_rules();
    ENSURE(spec_of(map_logical_axes(labels, rules)) ==
           by_definition(labels, rules));
  }));
}

using testing::spec;

RuleSet logical(std::vector<std::pair<std::string, AxisNames>> rules,
                AxisNames declared = {}) {
  RuleSet set;
  for (auto& [name, axes] : rules) {
    set.logical_rules.push_back({name, std::move(axes), {}, {}});
  }
  set.declared_axes = std::move(declared);
  return set;
}

ResolvedNames names_meant(const RuleSet& rules, const char* written,
                          size_t rank, const char* mesh = "dp=2,fsdp=4,tp=2",
                          const NameReading& reading = {}) {
  const Mesh on = testing::mesh(mesh);
  return Vocabulary(rules, on, reading).of(spec(written), rank);
}

TEST_CASE("a name that the mesh has is that axis, whatever else it could be") {
  const RuleSet rules = logical({{"embed", {"tp"}}}, {"sp"});
  const Mesh mesh = testing::mesh("embed=2,HEAD=4");
  const Vocabulary names(rules, mesh, {});
  CHECK(names.kind_of("HEAD") == NameKind::Mesh);
  CHECK(names.kind_of("sp") == NameKind::Mesh);
  CHECK(names.kind_of("embed") == NameKind::Mesh);
  CHECK(names.kind_of("logical:embed") == NameKind::Logical);
  CHECK(names.kind_of("mesh:nowhere") == NameKind::Mesh);
  CHECK(names.kind_of("__BATCH__") == NameKind::Semantic);
  CHECK(names.kind_of("BATCH") == NameKind::Semantic);
  CHECK(names.kind_of("batch") == NameKind::Unknown);
  CHECK(names.kind_of(kUnconstrained) == NameKind::Mesh);
}

TEST_CASE(
    "None beside an axis was left out, so that the dimension was sharded: the "
    "whole dimension stays whole, as eFormer has it") {
  const RuleSet rules;
  const Mesh on = testing::mesh("dp=2,sp=4,tp=2");
  const auto corrected = [&](const PartitionSpec& written) {
    return correct(Vocabulary(rules, on, {}).of(written, 2).spec, {8, 8}, on,
                   {}, OnIndivisible::Drop);
  };
  for (const char* none : {"KV_HEAD_DIM", "_", "EXPERT_GATE"}) {
    for (const bool first : {false, true}) {
      const AxisNames dim =
          first ? AxisNames{none, "LENGTH"} : AxisNames{"LENGTH", none};
      const CorrectedSpec result = corrected({{dim, {"KV_HEAD"}}});
      CHECK(spec_text(result.spec) == "P(None, tp)");
      REQUIRE(result.corrections.size() == 1);
      CHECK(result.corrections[0].code == Code::UnknownAxis);
    }
    // Alone it says so itself.
    const CorrectedSpec alone = corrected({{{none}, {"KV_HEAD"}}});
    CHECK(spec_text(alone.spec) == "P(None, tp)");
    CHECK(alone.corrections.empty());
  }
  // Beside an axis that means several, all count, in order.
  CHECK(names_meant(rules, "(BATCH, SP), TP", 2).spec ==
        spec("(fsdp, dp, sp), tp"));
}

TEST_CASE("the axes that rules mention stand in many places") {
  RuleSet rules = logical({{"embed", {"a"}}});
  rules.rules = testing::rules({{"x", "b, embed"}, {"y", "mesh:c"}}).rules;
  rules.activations = testing::rules({{"z", "d"}}).rules;
  rules.mesh = {{"e", 2, {}, {}, {}}};
  const Mesh on = testing::mesh("a=2,b=2,c=2,d=2,e=2,f=2");
  const auto mentioned = [&] { return Vocabulary(rules, on, {}).mentioned(); };
  CHECK(mentioned() == AxisNames{"a", "b", "c", "d", "e"});
  // Whoever uses one semantic axis has a PartitionAxis.
  rules.rules = testing::rules({{"x", "HEAD"}}).rules;
  CHECK(mentioned() ==
        AxisNames{"a", "d", "dp", "e", "ep", "fsdp", "sp", "tp"});
  rules.rules = testing::rules({{"x", "_"}}).rules;
  CHECK(mentioned() == AxisNames{"a", "d", "e"});
}

TEST_CASE("a mesh axis with logical rules is ambiguous unless it says which") {
  const Mesh mesh = testing::mesh("embed=2,expert=4,tp=2");
  const RuleSet rules =
      logical({{"embed", {"tp"}}, {"expert", {"expert"}}, {"mlp", {"tp"}}});
  const Vocabulary names(rules, mesh, {});
  CHECK(names.is_ambiguous("embed"));
  CHECK_FALSE(names.is_ambiguous("mesh:embed"));
  CHECK_FALSE(names.is_ambiguous("logical:embed"));
  CHECK_FALSE(names.is_ambiguous("expert"));
  CHECK_FALSE(names.is_ambiguous("mlp"));
}

TEST_CASE("semantic axes are those of PartitionAxis in the mode") {
  RuleSet rules;
  CHECK(names_meant(rules, "BATCH, _, HEAD", 3).spec ==
        spec("(fsdp, dp), None, tp"));
  CHECK(names_meant(rules, "(FSDP, SP), TP", 2).spec == spec("(fsdp, sp), tp"));
  Diagnostics diags;
  PartitionAxis axis = default_partition_axis();
  axis[*find_partition_field("decode_head_axis")] = AxisValue{{"fsdp"}};
  rules.partition_axis = resolve_partition_axis(axis, diags);
  NameReading decode;
  decode.mode = Mode::Decode;
  CHECK(names_meant(rules, "HEAD", 1).spec == spec("tp"));
  CHECK(names_meant(rules, "HEAD", 1, "fsdp=2,tp=2", decode).spec ==
        spec("fsdp"));
}

TEST_CASE("literal axes are reserved before logical ones are placed") {
  const RuleSet rules =
      logical({{"embed", {"fsdp"}}, {"embed", {"dp"}}, {"mlp", {"tp"}}});
  const ResolvedNames mixed = names_meant(rules, "embed, fsdp, mlp", 3);
  CHECK(mixed.spec == spec("dp, fsdp, tp"));
  CHECK(mixed.logical_rules == std::vector<int>{2, 0, 3});
  CHECK(mixed.corrections.empty());
}

TEST_CASE("entries beyond the rank keep their names and reserve nothing") {
  const RuleSet rules = logical({{"embed", {"fsdp"}}});
  const ResolvedNames cut = names_meant(rules, "embed, fsdp", 1);
  CHECK(cut.spec == spec("fsdp, fsdp"));
}

TEST_CASE("a logical axis that no rule could place says why") {
  const RuleSet rules = logical({{"embed", {"fsdp"}}, {"mlp", {"fsdp"}}});
  const ResolvedNames blocked = names_meant(rules, "mlp, embed, logical:kv", 3);
  CHECK(blocked.spec == spec("None, fsdp, None"));
  REQUIRE(blocked.corrections.size() == 2);
  CHECK(blocked.corrections[0].dim == 0);
  CHECK(blocked.corrections[0].code == Code::UnplacedLogicalAxis);
  CHECK(blocked.corrections[0].dropped == AxisNames{"mlp"});
  CHECK(
      blocked.corrections[0].reason ==
      "every rule for `mlp` names an axis already in use: `embed` uses `fsdp`");
  CHECK(blocked.corrections[1].reason == "no logical axis rule names `kv`");
}

TEST_CASE("an axis that the spec names itself blocks, too") {
  const RuleSet rules = logical({{"embed", {"fsdp"}}});
  const ResolvedNames blocked = names_meant(rules, "fsdp, embed", 2);
  REQUIRE(blocked.corrections.size() == 1);
  CHECK(blocked.corrections[0].reason.ends_with(
      "the spec itself names one of its axes"));
}

TEST_CASE("labels given twice place nothing") {
  const RuleSet rules = logical({{"a", {"fsdp"}}, {"b", {"tp"}}});
  const ResolvedNames twice = names_meant(rules, "a, a, b", 3);
  CHECK(names_no_axis(twice.spec));
  REQUIRE(twice.corrections.size() == 3);
  for (const Correction& c : twice.corrections) {
    CHECK(c.code == Code::RepeatedLogicalAxis);
  }
}

TEST_CASE("no_constraint leaves the whole array as it is") {
  const RuleSet rules = logical({{"a", {"fsdp"}}});
  NameReading reading;
  reading.fallback = RulesFallback::NoConstraint;
  CHECK(names_meant(rules, "a, logical:b", 2, "fsdp=2", reading).spec ==
        PartitionSpec());
  const ResolvedNames left =
      names_meant(rules, "a, logical:b, dp", 3, "dp=2", reading);
  REQUIRE(left.corrections.size() == 3);
  CHECK(left.corrections[1].dropped == AxisNames{"fsdp"});
  CHECK(left.corrections[2].dropped == AxisNames{"dp"});
  CHECK(names_meant(rules, "a, None", 2, "fsdp=2", reading).spec ==
        spec("fsdp, None"));
}

TEST_CASE("a manifest's labels are logical axes even if the mesh has them") {
  const RuleSet rules = logical({{"tp", {"fsdp"}}});
  const Mesh mesh = testing::mesh("fsdp=2,tp=2");
  const ResolvedNames found =
      Vocabulary(rules, mesh, {}).of_labels({"tp", std::nullopt});
  CHECK(found.spec == spec("fsdp, None"));
}

TEST_CASE("a mapping gives every axis what it means, taken or not") {
  RuleSet rules = logical({{"a", {"fsdp"}}, {"b", {"fsdp"}}, {"a", {"tp"}}});
  rules.logical_reading = LogicalReading::Mapping;
  CHECK(names_meant(rules, "a, b", 2).spec == spec("tp, fsdp"));
  rules.logical_rules.pop_back();
  CHECK(names_meant(rules, "a, b", 2).spec == spec("fsdp, fsdp"));
}

TEST_CASE("specs of the last dimensions are shifted, or lose their first") {
  Rule rule;
  const auto aligned = [&](const char* text, size_t rank) {
    rule.spec = spec(text);
    return aligned_to_last(rule, rank);
  };
  CHECK(aligned("tp, None", 3) == spec("None, tp, None"));
  CHECK(aligned("tp, None", 2) == spec("tp, None"));
  CHECK(aligned("tp, fsdp", 1) == spec("fsdp"));
  CHECK(aligned("tp", 0) == PartitionSpec());
  rule.short_uses_first = true;
  CHECK(aligned("tp, None", 3) == spec("None, tp, None"));
  CHECK(aligned("tp, None", 1) == spec("tp"));
}

TEST_CASE("placed logical axes never name a mesh axis twice") {
  CHECK(holds([] {
    const AxisNames pool = {"dp", "fsdp", "tp"};
    RuleSet rules;
    const auto count = draw_in(0, 8);
    for (int i = 0; i < count; ++i) {
      LogicalRule rule;
      rule.name = std::string(1, draw_in('a', 'e'));
      for (const AxisName& axis : pool) {
        if (draw_bool()) rule.axes.push_back(axis);
      }
      rules.logical_rules.push_back(rule);
    }
    PartitionSpec written;
    written.dims.push_back({draw_of(std::vector(pool.begin(), pool.end()))});
    for (const char* label : {"logical:a", "logical:b", "logical:c"}) {
      if (draw_bool()) written.dims.push_back({label});
    }
    const Mesh mesh = testing::mesh("dp=2,fsdp=4,tp=2");
    const ResolvedNames found =
        Vocabulary(rules, mesh, {}).of(written, written.dims.size());
    std::set<AxisName> used;
    for (const AxisNames& axes : found.spec.dims) {
      for (const AxisName& axis : axes) ENSURE(used.insert(axis).second);
    }
    // Every label is placed by a rule, or a correction says why not.
    for (size_t dim = 1; dim < written.dims.size(); ++dim) {
      bool corrected = false;
      for (const Correction& c : found.corrections) {
        corrected = corrected || c.dim == static_cast<int>(dim);
      }
      ENSURE(corrected != (found.logical_rules[dim] > 0));
    }
  }));
}

}  // namespace

}  // namespace shardplan
