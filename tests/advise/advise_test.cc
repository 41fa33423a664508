// SPDX-License-Identifier: Apache-2.0
#include "advise/advise.h"

#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "advise/possible_fixes.h"
#include "advise/what_if.h"
#include "tests/support/advised.h"
#include "tests/support/generators.h"
#include "tests/support/property.h"
#include "tests/support/slow_advice.h"

namespace shardplan {
namespace {

using testing::Advised;
using testing::advised;

// A model in which names are like those of real ones and sizes are small.
Manifest model() {
  Manifest manifest;
  const auto layers = draw_in(1, 3);
  for (const std::string leaf :
       {"self_attn/q_proj/kernel", "self_attn/k_proj/kernel", "mlp/up/kernel",
        "mlp/up/bias", "norm/scale"}) {
    TensorType type = testing::draw_tensor_type(3);
    for (int layer = 0; layer < layers; ++layer) {
      ENSURE(manifest.add("layers/" + std::to_string(layer) + "/" + leaf, type,
                          {}));
    }
  }
  ENSURE(manifest.add("embed", testing::draw_tensor_type(2), {}));
  return manifest;
}

// Rules as people write them, each in some layout.
std::string rules_text() {
  std::string text = "# rules\nrules:\n";
  const auto count = draw_in(1, 6);
  for (int i = 0; i < count; ++i) {
    const auto pattern =
        draw_of<std::string>({"kernel", "mlp", "mlp/up", "_proj", "embed",
                              "norm", "bias", "layers/1/", ".*", "nothing"});
    const std::string spec = spec_source(testing::draw_any_spec(), false);
    text += draw_of<std::string>(
        {"  - [\"" + pattern + "\", " + spec + "]  # remark\n",
         "  # above\n  - {pattern: '" + pattern + "', spec: " + spec + "}\n",
         "  - pattern: " + (pattern == ".*" ? "'.*'" : pattern) +
             "\n    spec: " + spec + "\n"});
  }
  return text + "# end\n";
}

TEST_CASE("every fix keeps what it promises, whatever is wrong") {
  int fixes = 0;
  CHECK(holds(
      "a fix that is made removes its finding, brings no error, "
      "and changes bytes as it said",
      [&] {
        ResolveOptions options;
        options.on_indivisible = draw_of(
            {OnIndivisible::Drop, OnIndivisible::Prefix, OnIndivisible::Pad,
             OnIndivisible::Chunk, OnIndivisible::Error});
        Diagnostics severities;
        severities.set_severity(Code::OverlyBroadPattern, Severity::Warning);
        const Advised before =
            advised(testing::draw_manifest(&model), draw_together(&rules_text),
                    testing::draw_mesh(), options, severities);
        const std::string broken = testing::broken_promises(before, fixes);
        if (!broken.empty()) testing::case_log() << before.text;
        ENSURE(broken == "");
      }));
  CHECK(fixes > 100);  // else the property says little
}

TEST_CASE("the cheapest fix of each kind replaces the general help") {
  const Advised before =
      advised(testing::manifest({{"w", "u8[9, 8]"}}),
              "rules:\n  - [\"w\", [tp]]\n", testing::mesh("tp=2"));
  const auto found = before.find(Code::IndivisibleDimension);
  REQUIRE(found.size() == 1);
  CHECK(found[0].help ==
        std::vector<std::string>{
            "write `[null, tp]` as the spec of rule 1 (rules.yaml:2): 36 B "
            "less per device",
            "pad dimension 0 to 10: 32 B less per device",
            "pad dimension 0 to 128 (a multiple of 128): 440 B more per device",
            "use `tp=3`: 48 B less per device"});
  REQUIRE(found[0].fixes.size() >= 3);
  CHECK(found[0].fixes[0].bytes_per_device == -36);
  CHECK(found[0].fixes[0].finding_bytes_per_device == -36);
}

TEST_CASE("where nothing helps the general help stays") {
  const Advised before = advised(
      testing::manifest({{"w", "u8[7]"}, {"step", "i32[]"}}),
      "rules:\n  - [\"step\", []]\n  - [\"w\", [tp]]\n", testing::mesh("tp=7"));
  // Without the rule, `w` is fine; the rule for a scalar may simply go.
  const auto unused = before.find(Code::UnusedRule);
  REQUIRE(unused.size() == 1);
  CHECK(unused[0].fixes.size() == 1);
  CHECK(unused[0].help.back() == "`shardplan inspect` lists the model's names");
}

// A model with more layers than most findings tell apart, labels and facts.
Manifest layered_model() {
  const Manifest manifest = model();
  Manifest result;
  const auto labelled = draw_bool();
  for (size_t i = 0; i < manifest.size(); ++i) {
    TensorType type = manifest.type(i);
    ENSURE(result.add(manifest.name(i), type, {}));
    if (labelled && draw_bool()) {
      AxisLabels labels(type.shape.size());
      for (auto& label : labels) {
        label = draw_of<std::string>({"embed", "mlp"});
      }
      result.set_axes(i, labels);
    }
  }
  if (draw_bool()) {
    result.facts.heads = 4;
    result.facts.kv_heads = 2;
    result.facts.head_dim = 2;
    result.facts.from = FactsFrom::Manifest;
  }
  return result;
}

// Some plan with what is wrong with it. With `rest` there is a tensor that is
// over all axes whatever becomes of the others.
Advised draw_advised(bool rest) {
  ResolveOptions options;
  options.on_indivisible =
      draw_of({OnIndivisible::Drop, OnIndivisible::Prefix, OnIndivisible::Pad,
               OnIndivisible::Chunk, OnIndivisible::Error});
  options.declarations.replicate_kv_heads = draw_bool();
  Diagnostics severities;
  if (draw_bool()) {
    severities.set_severity(Code::OverlyBroadPattern, Severity::Warning);
  }
  if (draw_bool()) severities.deny_warnings();
  std::string text = draw_together(&rules_text);
  for (int i = draw_in(0, 3); i > 0; --i) {
    text +=
        "  - [" + draw_of<std::string>({"absent", "gone", "no"}) + ", [tp]]\n";
  }
  if (draw_bool()) {
    text += "logical_axis_rules: [[embed, tp], [mlp, dp]]\n";
  }
  const Mesh mesh = testing::draw_mesh();
  Manifest manifest = testing::draw_manifest(&layered_model);
  if (rest) {
    ENSURE(manifest.add("rest", {DType::U8, {mesh.devices()}}, {}));
    std::string axes;
    for (const Axis& axis : mesh.axes()) {
      axes += (axes.empty() ? "" : ", ") + axis.name;
    }
    const std::string rules = "rules:\n";
    text.insert(text.find(rules) + rules.size(),
                "  - [rest, [[" + axes + "]]]\n");
  }
  return advised(std::move(manifest), text, mesh, options, severities);
}

TEST_CASE("advice is what trying each change on the whole model gives") {
  // Trials were made anew on every parameter; now kinds of parameters stand
  // for them, and findings share trials. Nothing of what is said may differ.
  int fixes = 0;
  CHECK(holds("fixes are those of the slow way", [&] {
    const Advised before = draw_advised(false);
    for (const Diagnostic& finding : before.diags.all()) {
      const auto slow = testing::slow_fixes(before, finding);
      if (slow != testing::fix_texts(finding)) {
        testing::case_log()
            << before.text << code_id(finding.code) << " " << finding.message;
      }
      ENSURE(testing::fix_texts(finding) == slow);
      fixes += static_cast<int>(slow.size());
    }
  }));
  CHECK(fixes > 100);
}

// The changes of rules that are `number`th of their findings; of those that
// change one rule the first.
struct Asking {
  std::vector<std::vector<uint32_t>> parameters;
  std::vector<PossibleFix> candidates;
  std::vector<const Diagnostic*> findings;

  std::vector<RequestedChange> all() const {
    std::vector<RequestedChange> asked;
    for (size_t i = 0; i < candidates.size(); ++i) {
      asked.push_back(
          {&candidates[i].change.rules.front(), findings[i], parameters[i]});
    }
    return asked;
  }
};
Asking asking(const Planned& planned, std::span<const Diagnostic* const> all,
              WhatIf& trial, size_t number) {
  Asking result;
  std::set<int> taken;
  int64_t work = 0;
  for (const Diagnostic* finding : all) {
    std::vector<uint32_t> parameters = trial.parameters_of(*finding);
    PossibleFixes candidates =
        possible_fixes_for({planned, *finding, parameters, work});
    std::erase_if(candidates, [](const PossibleFix& c) {
      return c.change.rules.empty() ||
             c.change.rules.front().kind == RuleChange::Kind::Remove;
    });
    if (number >= candidates.size()) continue;
    PossibleFix& candidate = candidates[number];
    const RuleChange& change = candidate.change.rules.front();
    if (change.kind != RuleChange::Kind::Insert &&
        !taken.insert(change.rule).second) {
      continue;
    }
    result.parameters.push_back(std::move(parameters));
    result.candidates.push_back(std::move(candidate));
    result.findings.push_back(finding);
  }
  return result;
}

TEST_CASE("what changes do together is what each does alone") {
  int effect_count = 0;
  int several = 0;  // of trials that told of more than one
  CHECK(holds("an effect of a joint trial is that of the slow way", [&] {
    const Advised before = draw_advised(true);
    Diagnostics ignored;
    const auto memory = device_memory(before.manifest, before.plan, ignored);
    const Folding folding = fold(before.plan.placement_of, [&](size_t i) {
      return before.manifest.name(i);
    });
    const Planned planned = {before.manifest, before.rules, before.plan,
                             folding,         *memory,      before.resolving,
                             before.linting};
    std::vector<const Diagnostic*> findings;
    for (const Diagnostic& finding : before.diags.all()) {
      findings.push_back(&finding);
    }
    WhatIf trial(planned, findings, before.diags);
    for (size_t number = 0; number < 4; ++number) {
      const Asking asked = asking(planned, findings, trial, number);
      const auto effects = trial.effects_together(asked.all());
      if (!effects) continue;
      int here = 0;
      for (size_t i = 0; i < effects->size(); ++i) {
        if (!(*effects)[i]) continue;
        ++here;
        const auto slow =
            testing::slow_effect(before, asked.candidates[i].change,
                                 *asked.findings[i], asked.parameters[i]);
        if (!slow) {
          testing::case_log()
              << before.text << asked.findings[i]->message << "\n"
              << asked.candidates[i].fix.text;
        }
        ENSURE(slow.has_value());
        ENSURE(slow->bytes_per_device == (*effects)[i]->bytes_per_device);
        ENSURE(slow->finding_bytes_per_device ==
               (*effects)[i]->finding_bytes_per_device);
      }
      effect_count += here;
      several += here > 1 ? 1 : 0;
    }
  }));
  CHECK(effect_count > 40);
  CHECK(several > 10);
}

std::string unused_rules(int count) {
  std::string text = "rules:\n  - ['proj|[abcd]$', [tp]]\n";
  for (int i = 0; i < count; ++i) {
    text += "  - [nothing" + std::to_string(i) + ", [tp]]\n";
  }
  return text;
}

Manifest layers(int count) {
  Manifest manifest;
  for (int i = 0; i < count; ++i) {
    for (const std::string leaf : {"q_proj", "k_proj", "up_proj"}) {
      const std::string name = "l." + std::to_string(i) + "." + leaf;
      CHECK(manifest.add(name, {DType::U8, {8, 8}}, {}));
    }
  }
  return manifest;
}

// Which findings of a code have a fix.
int fixed_by_advice(const Advised& plan, Code code) {
  int count = 0;
  for (const Diagnostic& finding : plan.find(code)) {
    count += finding.fixes.empty() ? 0 : 1;
  }
  return count;
}

TEST_CASE("rules that are found in nothing cost two trials, not one each") {
  // 50 unused rules made `check` of a large model 20 times slower: each was
  // removed in a trial of its own, which looked at every parameter again.
  const Advised few =
      advised(layers(100), unused_rules(50), testing::mesh("tp=2"));
  const Advised many =
      advised(layers(1000), unused_rules(50), testing::mesh("tp=2"));
  CHECK(fixed_by_advice(few, Code::UnusedRule) == 50);
  CHECK(fixed_by_advice(many, Code::UnusedRule) == 50);
  // Ten times the layers are more parameters to read, and no more to try.
  CHECK(many.work - few.work == 2700);
  CHECK(many.work < 3000 + 2000);  // 50 trials visited 150,000 parameters

  // 10,000 of them over 4 tensors took more than 30 seconds.
  const auto tensors = [] {
    return testing::manifest(
        {{"a", "u8[8]"}, {"b", "u8[8]"}, {"c", "u8[8]"}, {"d", "u8[8]"}});
  };
  const Advised once =
      advised(tensors(), unused_rules(500), testing::mesh("tp=2"));
  const Advised twice =
      advised(tensors(), unused_rules(1000), testing::mesh("tp=2"));
  CHECK(fixed_by_advice(twice, Code::UnusedRule) == 1000);
  CHECK(twice.work <= 2 * once.work + 100);
  CHECK(twice.work < 20000);  // a rule at a time: 9 million
}

TEST_CASE("where one rule may not go, the others still share a trial") {
  Manifest manifest = testing::manifest({{"w", "u8[8]"}, {"v", "u8[8]"}});
  std::string text =
      "rules:\n  - [w, [tp]]\n  - ['^v', []]\n  - [same, []]\n"
      "  - [same, [tp]]\n";
  for (int i = 0; i < 6; ++i) {
    text += "  - [gone" + std::to_string(i) + ", []]\n";
  }
  const Advised plan =
      advised(std::move(manifest), text, testing::mesh("tp=2"));
  REQUIRE(plan.find(Code::UnusedRule).size() == 8);
  // Of equal patterns the finding stays when one of them goes.
  CHECK(fixed_by_advice(plan, Code::UnusedRule) == 6);
  for (const Diagnostic& finding : plan.find(Code::UnusedRule)) {
    CHECK(testing::fix_texts(finding) == testing::slow_fixes(plan, finding));
  }
}

TEST_CASE("the work of finding fixes is bounded, whatever the findings") {
  // 10 unused rules over 50,000 unmatched tensors, and 400 rules that do not
  // divide, took half a minute: only the number of trials was bounded, and each
  // reported every finding again.
  constexpr int64_t kMost = 1000000 + 200000;  // and the last trial's own
  Manifest unmatched = testing::manifest({{"a", "u8[8]"}});
  for (int i = 0; i < 1500; ++i) {
    CHECK(
        unmatched.add("x" + std::to_string(i) + "y/w", {DType::U8, {64}}, {}));
  }
  const Advised missing =
      advised(std::move(unmatched), unused_rules(10), testing::mesh("tp=2"));
  CHECK(missing.find(Code::UnmatchedParameter).size() == 1500);
  CHECK(missing.work > 500000);
  CHECK(missing.work < kMost);

  Manifest odd;
  std::string text = "rules:\n";
  for (int i = 0; i < 300; ++i) {
    const std::string name = "x" + std::to_string(i) + "y/w";
    CHECK(odd.add(name, {DType::U8, {63, 64}}, {}));
    text += "  - [\"" + name + "\", [tp]]\n";
  }
  const Advised uneven = advised(std::move(odd), text, testing::mesh("tp=4"));
  CHECK(uneven.find(Code::IndivisibleDimension).size() == 300);
  CHECK(uneven.work < kMost);
  CHECK(fixed_by_advice(uneven, Code::IndivisibleDimension) > 10);
  // Same input, same work: no clock has a say.
  const Advised again = advised(
      [&] {
        Manifest manifest;
        for (size_t i = 0; i < uneven.manifest.size(); ++i) {
          CHECK(manifest.add(uneven.manifest.name(i), uneven.manifest.type(i),
                             {}));
        }
        return manifest;
      }(),
      text, testing::mesh("tp=4"));
  CHECK(again.work == uneven.work);
}

}  // namespace
}  // namespace shardplan
