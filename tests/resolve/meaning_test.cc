// SPDX-License-Identifier: Apache-2.0
#include "resolve/meaning.h"

#include <set>

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "resolve/correct.h"
#include "tests/support/builders.h"

namespace shardplan {
namespace {

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

Meaning meaning(const RuleSet& rules, const char* written, size_t rank,
                const char* mesh = "dp=2,fsdp=4,tp=2",
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
  CHECK(meaning(rules, "(BATCH, SP), TP", 2).spec ==
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
  CHECK(meaning(rules, "BATCH, _, HEAD", 3).spec ==
        spec("(fsdp, dp), None, tp"));
  CHECK(meaning(rules, "(FSDP, SP), TP", 2).spec == spec("(fsdp, sp), tp"));
  Diagnostics diags;
  PartitionAxis axis = default_partition_axis();
  axis[*find_partition_field("decode_head_axis")] = AxisValue{{"fsdp"}};
  rules.partition_axis = resolve_partition_axis(axis, diags);
  NameReading decode;
  decode.mode = Mode::Decode;
  CHECK(meaning(rules, "HEAD", 1).spec == spec("tp"));
  CHECK(meaning(rules, "HEAD", 1, "fsdp=2,tp=2", decode).spec == spec("fsdp"));
}

TEST_CASE("literal axes are reserved before logical ones are placed") {
  const RuleSet rules =
      logical({{"embed", {"fsdp"}}, {"embed", {"dp"}}, {"mlp", {"tp"}}});
  const Meaning mixed = meaning(rules, "embed, fsdp, mlp", 3);
  CHECK(mixed.spec == spec("dp, fsdp, tp"));
  CHECK(mixed.logical_rules == std::vector<int>{2, 0, 3});
  CHECK(mixed.corrections.empty());
}

TEST_CASE("entries beyond the rank keep their names and reserve nothing") {
  const RuleSet rules = logical({{"embed", {"fsdp"}}});
  const Meaning cut = meaning(rules, "embed, fsdp", 1);
  CHECK(cut.spec == spec("fsdp, fsdp"));
}

TEST_CASE("a logical axis that no rule could place says why") {
  const RuleSet rules = logical({{"embed", {"fsdp"}}, {"mlp", {"fsdp"}}});
  const Meaning blocked = meaning(rules, "mlp, embed, logical:kv", 3);
  CHECK(blocked.spec == spec("None, fsdp, None"));
  REQUIRE(blocked.corrections.size() == 2);
  CHECK(blocked.corrections[0].dim == 0);
  CHECK(blocked.corrections[0].code == Code::UnplacedLogicalAxis);
  CHECK(blocked.corrections[0].dropped == AxisNames{"mlp"});
  CHECK(
      blocked.corrections[0].reason ==
      "every rule for `mlp` names an axis that is in use: `embed` has `fsdp`");
  CHECK(blocked.corrections[1].reason == "no logical axis rule names `kv`");
}

TEST_CASE("an axis that the spec names itself blocks, too") {
  const RuleSet rules = logical({{"embed", {"fsdp"}}});
  const Meaning blocked = meaning(rules, "fsdp, embed", 2);
  REQUIRE(blocked.corrections.size() == 1);
  CHECK(blocked.corrections[0].reason.ends_with(
      "the spec names an axis of it itself"));
}

TEST_CASE("labels given twice place nothing") {
  const RuleSet rules = logical({{"a", {"fsdp"}}, {"b", {"tp"}}});
  const Meaning twice = meaning(rules, "a, a, b", 3);
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
  CHECK(meaning(rules, "a, logical:b", 2, "fsdp=2", reading).spec ==
        PartitionSpec());
  const Meaning left = meaning(rules, "a, logical:b, dp", 3, "dp=2", reading);
  REQUIRE(left.corrections.size() == 3);
  CHECK(left.corrections[1].dropped == AxisNames{"fsdp"});
  CHECK(left.corrections[2].dropped == AxisNames{"dp"});
  CHECK(meaning(rules, "a, None", 2, "fsdp=2", reading).spec ==
        spec("fsdp, None"));
}

TEST_CASE("a manifest's labels are logical axes even if the mesh has them") {
  const RuleSet rules = logical({{"tp", {"fsdp"}}});
  const Mesh mesh = testing::mesh("fsdp=2,tp=2");
  const Meaning found =
      Vocabulary(rules, mesh, {}).of_labels({"tp", std::nullopt});
  CHECK(found.spec == spec("fsdp, None"));
}

TEST_CASE("a mapping gives every axis what it means, taken or not") {
  RuleSet rules = logical({{"a", {"fsdp"}}, {"b", {"fsdp"}}, {"a", {"tp"}}});
  rules.logical_reading = LogicalReading::Mapping;
  CHECK(meaning(rules, "a, b", 2).spec == spec("tp, fsdp"));
  rules.logical_rules.pop_back();
  CHECK(meaning(rules, "a, b", 2).spec == spec("fsdp, fsdp"));
}

TEST_CASE("specs of the last dimensions are shifted, or lose their first") {
  CHECK(aligned_to_last(spec("tp, None"), 3) == spec("None, tp, None"));
  CHECK(aligned_to_last(spec("tp, None"), 2) == spec("tp, None"));
  CHECK(aligned_to_last(spec("tp, fsdp"), 1) == spec("fsdp"));
  CHECK(aligned_to_last(spec("tp"), 0) == PartitionSpec());
}

TEST_CASE("placed logical axes never name a mesh axis twice") {
  CHECK(rc::check([] {
    const AxisNames pool = {"dp", "fsdp", "tp"};
    RuleSet rules;
    const auto count = *rc::gen::inRange(0, 8);
    for (int i = 0; i < count; ++i) {
      LogicalRule rule;
      rule.name = std::string(1, *rc::gen::inRange('a', 'e'));
      for (const AxisName& axis : pool) {
        if (*rc::gen::arbitrary<bool>()) rule.axes.push_back(axis);
      }
      rules.logical_rules.push_back(rule);
    }
    PartitionSpec written;
    written.dims.push_back({*rc::gen::elementOf(pool)});
    for (const char* label : {"logical:a", "logical:b", "logical:c"}) {
      if (*rc::gen::arbitrary<bool>()) written.dims.push_back({label});
    }
    const Mesh mesh = testing::mesh("dp=2,fsdp=4,tp=2");
    const Meaning found =
        Vocabulary(rules, mesh, {}).of(written, written.dims.size());
    std::set<AxisName> used;
    for (const AxisNames& axes : found.spec.dims) {
      for (const AxisName& axis : axes) RC_ASSERT(used.insert(axis).second);
    }
    // Every label is placed by a rule, or a correction says why not.
    for (size_t dim = 1; dim < written.dims.size(); ++dim) {
      bool corrected = false;
      for (const Correction& c : found.corrections) {
        corrected = corrected || c.dim == static_cast<int>(dim);
      }
      RC_ASSERT(corrected != (found.logical_rules[dim] > 0));
    }
  }));
}

}  // namespace
}  // namespace shardplan
