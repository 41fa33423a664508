// SPDX-License-Identifier: Apache-2.0
// What is written is read back to the same plan, for every target that can
// hold it.
#include "io/export.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <re2/re2.h>

#include "core/partition_axis.h"
#include "io/dialects.h"
#include "io/python/rules.h"
#include "resolve/resolve.h"
#include "syntax/python.h"
#include "tests/support/builders.h"
#include "tests/support/exported.h"
#include "tests/support/generators.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

using namespace testing;

std::vector<LogicalRule> any_logical_rules() {
  std::vector<LogicalRule> rules;
  const auto count = draw_in<size_t>(1, 6);
  for (size_t i = 0; i < count; ++i) {
    rules.push_back({draw_of<std::string>({"embed", "mlp", "heads"}),
                     draw_of({AxisNames(), AxisNames{"fsdp"}, AxisNames{"tp"},
                              AxisNames{"dp", "fsdp"}}),
                     {},
                     {}});
  }
  return rules;
}

// Logical rules, a PartitionAxis, and rules that name them.
void add_other_axes(RuleSet& rules) {
  rules.logical_rules = any_logical_rules();
  PartitionAxis axis = default_partition_axis();
  axis[*find_partition_field("head_axis")] =
      draw_of({AxisValue{}, AxisValue{{"fsdp", "dp"}, true}});
  Diagnostics diags;
  rules.partition_axis = resolve_partition_axis(axis, diags);
  for (Rule& rule : rules.rules) {
    for (AxisNames& names : rule.spec.dims) {
      if (!draw_bool()) continue;
      names = {draw_of<std::string>(
          {"HEAD", "__EMBED__", "embed", "logical:mlp", "mesh:tp"})};
    }
  }
}

RuleSet any_rules() {
  RuleSet rules;
  const auto count = draw_in<size_t>(1, 6);
  for (size_t i = 0; i < count; ++i) {
    Rule rule;
    rule.pattern = draw_of<std::string>(
        {"q_proj", "kernel$", "layers/[0-4]/", "norm|bias", "(up|q)_\\w+",
         "\\d\\d", "\"", "scale\\Z", "^layers/1", "ü\\.", ""});
    rule.spec = draw_any_spec();
    rules.rules.push_back(std::move(rule));
  }
  if (draw_bool()) add_other_axes(rules);
  rules.declared_axes =
      draw_of({AxisNames(), AxisNames{"sp"}, AxisNames{"ep", "unknown"}});
  return rules;
}

struct Exported {
  Manifest manifest;
  RuleSet rules;
  Plan plan;
};

// Labels for some parameters.
void add_labels(Manifest& manifest) {
  for (size_t i = 0; i < manifest.size(); ++i) {
    if (draw_bool()) continue;
    AxisLabels labels(manifest.type(i).shape.size());
    for (auto& label : labels) {
      label = draw_of<std::optional<std::string>>(
          {"embed", "mlp", "heads", "other", std::nullopt});
    }
    manifest.set_axes(i, std::move(labels));
  }
}

Exported any_model(RuleSet rules = any_rules()) {
  Manifest manifest = draw_manifest();
  add_labels(manifest);
  const Mesh mesh = draw_mesh();
  ResolveOptions how;
  how.min_size = draw_of<int64_t>({0, 0, 30});
  how.strict = draw_bool();
  how.on_indivisible = draw_of(
      {OnIndivisible::Drop, OnIndivisible::Prefix, OnIndivisible::Error});
  Diagnostics diags;
  auto plan = resolve(manifest, rules, mesh, how, diags);
  ENSURE(plan.has_value());
  return {std::move(manifest), std::move(rules), *std::move(plan)};
}

// As the command does it.
ExportInput input_of(const Exported& model, bool with_rules) {
  ExportInput input{model.manifest, model.plan};
  ResolveOptions plain;
  plain.on_indivisible = model.plan.on_indivisible;
  Diagnostics diags;
  const auto again =
      resolve(model.manifest, model.rules, model.plan.mesh, plain, diags);
  const bool same = fingerprint(model.manifest, *again) ==
                    fingerprint(model.manifest, model.plan);
  if (same && with_rules) {
    input.rules = &model.rules;
  } else {
    input.no_rules = "a saved plan has no rules";
  }
  return input;
}

std::string written(const char* target, const ExportInput& input) {
  Diagnostics diags;
  const auto text = export_text(*find_export_target(target), input, diags);
  ENSURE(text.has_value());
  ENSURE(diags.all().empty());
  return *text;
}

void require_same_plan(const Exported& model, const RuleSet& rules,
                       const Mesh& mesh) {
  Diagnostics diags;
  const auto plan = resolve(model.manifest, rules, mesh, {}, diags);
  ENSURE(plan.has_value());
  ENSURE(fingerprint(model.manifest, *plan) ==
         fingerprint(model.manifest, model.plan));
}

// What is written names no axis twice, in no rule, and nobody who reads it has
// to take one away.
void require_no_repeats(const Exported& model, const RuleSet& rules,
                        const Mesh& mesh) {
  for (const Rule& rule : rules.rules) {
    std::set<AxisName> seen;
    for (const AxisNames& axes : rule.spec.dims) {
      for (const AxisName& axis : axes) {
        ENSURE(!mesh.find(axis) || seen.insert(axis).second);
      }
    }
  }
  Diagnostics diags;
  const auto plan = resolve(model.manifest, rules, mesh, {}, diags);
  ENSURE(plan.has_value());
  for (const Placement& placement : plan->placements) {
    for (const Correction& c : placement.corrections) {
      ENSURE(c.code != Code::RepeatedAxis);
    }
  }
}

TEST_CASE("our own rules, read back, give the same plan") {
  for (const char* target : {"yaml", "json"}) {
    CHECK(holds(target, [&] {
      const Exported model = any_model();
      const std::string text = written(target, input_of(model, draw_bool()));
      RuleSet rules;
      Diagnostics diags;
      ENSURE(kYamlRules.read(std::make_shared<SourceFile>("r", text), {}, rules,
                             diags));
      ENSURE(rules.mesh.has_value());
      const auto mesh = make_mesh(*rules.mesh, std::nullopt, {}, diags);
      ENSURE(mesh == model.plan.mesh);
      require_same_plan(model, rules, *mesh);
      require_no_repeats(model, rules, *mesh);
    }));
  }
}

TEST_CASE("a Python table, read back, gives the same plan") {
  CHECK(holds("python", [] {
    const Exported model = any_model();
    const std::string text = written("python", input_of(model, draw_bool()));
    ASSUME(text.find("RULES = ()") == std::string::npos);
    RuleSet rules;
    Diagnostics diags;
    ENSURE(read_python_rules(std::make_shared<SourceFile>("r.py", text),
                             RuleReading(), rules, diags));
    require_same_plan(model, rules, model.plan.mesh);
    require_no_repeats(model, rules, model.plan.mesh);
  }));
}

PartitionSpec spec_of(const PythonValue& call) {
  PartitionSpec spec;
  for (const PythonValue& item : call.items) {
    AxisNames axes;
    if (item.kind == PythonKind::String) axes.push_back(item.text);
    for (const PythonValue& axis : item.items) axes.push_back(axis.text);
    spec.dims.push_back(std::move(axes));
  }
  return spec;
}

TEST_CASE("the dict of a JAX module holds the specs of the plan") {
  CHECK(holds("jax", [] {
    const Exported model = any_model();
    const SourceFile source("m.py",
                            written("jax", input_of(model, draw_bool())));
    const auto tokens = python_tokens(source);
    size_t at = 0;
    const auto next = [&](std::string_view word) {
      while (at < tokens.size() && !tokens[at].is(word)) ++at;
    };
    next("PARTITION_SPECS");
    next("{");
    ++at;
    size_t parameter = 0;
    for (; !tokens[at].is("}"); ++parameter) {
      while (model.plan.is_unmatched(model.plan.of(parameter))) ++parameter;
      ENSURE(tokens[at].text == model.manifest.name(parameter));
      ENSURE(tokens[++at].is(":"));
      ++at;
      Diagnostics diags;
      const auto value = parse_python_value(tokens, at, diags);
      ENSURE(value.has_value());
      ENSURE(value->text == "PartitionSpec");
      ENSURE(spec_of(*value) == model.plan.of(parameter).spec);
      ENSURE(tokens[at++].is(","));
    }
    for (; parameter < model.manifest.size(); ++parameter) {
      ENSURE(model.plan.is_unmatched(model.plan.of(parameter)));
    }
  }));
}

// Made from logical rules alone, where everything divides.
Exported logical_model() {
  RuleSet rules;
  rules.logical_rules = any_logical_rules();
  Exported model = any_model(std::move(rules));
  const bool uneven = std::any_of(
      model.plan.placements.begin(), model.plan.placements.end(),
      [](const Placement& p) {
        return std::any_of(p.corrections.begin(), p.corrections.end(),
                           [](const Correction& c) {
                             return c.code == Code::IndivisibleDimension;
                           });
      });
  ASSUME(!uneven);
  return model;
}

TEST_CASE("logical axis rules, read back, give the same plan") {
  CHECK(holds("flax", [] {
    const Exported model = logical_model();
    const ExportInput input = input_of(model, true);
    const bool given = input.rules != nullptr;
    ASSUME(given);
    RuleSet rules;
    Diagnostics diags;
    ENSURE(kPythonRules.read(
        std::make_shared<SourceFile>("r.py", written("flax", input)), {}, rules,
        diags));
    require_same_plan(model, rules, model.plan.mesh);
  }));
  CHECK(holds("maxtext", [] {
    const Exported model = logical_model();
    const ExportInput input = input_of(model, true);
    const bool given = input.rules != nullptr;
    ASSUME(given);
    RuleSet rules;
    Diagnostics diags;
    ENSURE(kMaxText.read(
        std::make_shared<SourceFile>("m.yml", written("maxtext", input)), {},
        rules, diags));
    const auto mesh = make_mesh(*rules.mesh, std::nullopt, {}, diags);
    ENSURE(mesh == model.plan.mesh);
    require_same_plan(model, rules, *mesh);
  }));
}

TEST_CASE("every target is found by its name") {
  std::set<std::string_view> names;
  for (const ExportTarget& target : export_targets()) {
    CHECK(find_export_target(target.name) == &target);
    CHECK(names.insert(target.name).second);
    CHECK_FALSE(target.summary.empty());
  }
  CHECK(find_export_target("jaxx") == nullptr);
}

using testing::exported;
using testing::Exporting;

Exporting model() {
  return {testing::manifest({{"layers.0.w", "f32[10, 8]"},
                             {"layers.1.w", "f32[10, 8]"},
                             {"lm_head.weight", "f32[10, 8]"}}),
          testing::rules({{"", "tp"}}), testing::mesh("tp=4")};
}

TEST_CASE("uneven shards are no spec, whatever the target") {
  for (const char* target : {"yaml", "json", "python", "jax"}) {
    for (const auto policy : {OnIndivisible::Pad, OnIndivisible::Chunk}) {
      Exporting what = model();
      what.how.on_indivisible = policy;
      CHECK(exported(target, what) ==
            "SP014 `" + std::string(target) +
                "` cannot express the `--on-indivisible " +
                std::string(policy_name(policy)) +
                "` split of `layers.0.w` and 2 more");
      what.mesh = testing::mesh("tp=2");  // divides
      CHECK(exported(target, what).find("SP014") == std::string::npos);
    }
  }
}

TEST_CASE("what is declared is not a spec") {
  Exporting what = model();
  what.model.facts.vocab = 10;
  what.how.declarations.pad_vocab = 4;
  CHECK(
      exported("jax", what) ==
      "SP014 `jax` cannot express the `--declare` change to `lm_head.weight`");
}

TEST_CASE("UNCONSTRAINED is not an axis, where a parameter asks for it") {
  Exporting what = model();
  what.rules.rules[0].spec.dims = {{std::string(kUnconstrained)}};
  CHECK(exported("python", what) ==
        "SP014 `python` cannot express UNCONSTRAINED, requested for "
        "`layers.0.w` and 2 more");
  // A rule that decides nothing is not in the table.
  what.rules = testing::rules({{"", ""}, {"never", ""}});
  what.rules.rules[1].spec.dims = {{std::string(kUnconstrained)}};
  CHECK(exported("python", what).find("# a rule uses UNCONSTRAINED\n") !=
        std::string::npos);
}

TEST_CASE("a pattern cannot tell a name from itself with a newline") {
  Exporting what = model();
  what.model = testing::manifest({{"w", "f32[8]"}, {"w\n", "f32[8]"}});
  what.saved = true;
  CHECK(exported("python", what) ==
        "SP014 `python` cannot distinguish `w\n` from the name without the "
        "newline");
  CHECK(exported("jax", what).find("\"w\\n\": PartitionSpec(\"tp\")") !=
        std::string::npos);
}

TEST_CASE("comments cannot be left") {
  const Exporting what = model();
  Diagnostics diags;
  const auto plan = resolve(what.model, what.rules, what.mesh, {}, diags);
  ExportInput input{what.model, *plan};
  input.origin = {"model: a\nimport os"};
  CHECK(comment_text(header_lines(input, "Rules", "yaml")) ==
        "# Rules; `shardplan export --to yaml`.\n"
        "# model: a\\nimport os\n# mesh: tp=4\n");
}

using testing::manifest;
using testing::mesh;
using testing::rules;

std::string table_text(const Manifest& model, const RuleSet& given,
                       bool replicate_unmatched = false) {
  Diagnostics diags;
  const auto plan = resolve(model, given, mesh("fsdp=2,tp=2"), {}, diags);
  REQUIRE(plan);
  ExportInput input{model, *plan};
  input.replicate_unmatched = replicate_unmatched;
  const ResolvedTable table = resolved_table(input);
  std::string text;
  for (const TableEntry& entry : table.entries) {
    text += entry.pattern + " " + spec_text(entry.spec) + "\n";
  }
  if (table.left_out > 0) text += std::to_string(table.left_out) + " left out";
  return text;
}

TEST_CASE("parameters fold where all with such names have one spec") {
  const Manifest model = manifest({{"layers/0/w", "f32[8, 8]"},
                                   {"layers/1/w", "f32[8, 8]"},
                                   {"layers/0/v", "f32[8, 8]"},
                                   {"layers/1/v", "f32[8, 7]"},
                                   {"h.0.w1", "f32[4]"},
                                   {"h.1.w1", "f32[4]"},
                                   {"head[0]", "f32[8]"}});
  CHECK(table_text(model, rules({{"/", "fsdp, tp"}, {".*", "tp"}})) ==
        "^layers/[0-9]+/w$ P(fsdp, tp)\n"
        "^layers/0/v$ P(fsdp, tp)\n"
        "^layers/1/v$ P(fsdp, None)\n"
        "^h\\.[0-9]+\\.w1$ P(tp)\n"
        "^head\\[0\\]$ P(tp)\n");
}

TEST_CASE("parameters without a rule are left out, unless they are meant to") {
  const Manifest model = manifest({{"layers/0/w", "f32[8, 8]"},
                                   {"layers/1/w", "f32[8, 8]"},
                                   {"b", "f32[8]"},
                                   {"step", "i32[]"}});
  const RuleSet given = rules({{"layers/0", ""}});
  CHECK(table_text(model, given) == "^layers/0/w$ P()\n^step$ P()\n2 left out");
  CHECK(table_text(model, given, true) ==
        "^layers/[0-9]+/w$ P()\n^b$ P()\n^step$ P()\n");
}

std::string any_path() {
  std::string path;
  for (const std::string& part : draw_list([] {
         return draw_of<std::string>({"a", "0", "1", "12", "w1", "[0-9]+", ""});
       })) {
    path += (part == "a" ? "." : "/") + part;
  }
  return path;
}

TEST_CASE("every parameter is found by one pattern, which has its spec") {
  CHECK(holds("resolved_table", [] {
    Manifest model;
    auto names = draw_list([] { return any_path(); });
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    for (const std::string& name : names) {
      ENSURE(model.add(name, {DType::F32, {4, 4}}, {}));
    }
    const RuleSet given = rules({{"^/0", "tp"}, {"1$", "None, fsdp"}});
    Diagnostics diags;
    const auto plan = resolve(model, given, mesh("fsdp=2,tp=2"), {}, diags);
    ENSURE(plan.has_value());
    const ExportInput input{model, *plan};
    const ResolvedTable table = resolved_table(input);
    for (size_t i = 0; i < model.size(); ++i) {
      int found = 0;
      for (const TableEntry& entry : table.entries) {
        if (!RE2::PartialMatch(std::string(model.name(i)), entry.pattern)) {
          continue;
        }
        ++found;
        ENSURE(entry.spec == plan->of(i).spec);
      }
      ENSURE(found == (is_left_out(input, i) ? 0 : 1));
    }
  }));
}

}  // namespace

}  // namespace shardplan
