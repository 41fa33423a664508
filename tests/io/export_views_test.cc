// SPDX-License-Identifier: Apache-2.0
// Exports of plans with views: written and read back, or refused.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "core/views.h"
#include "io/dialects.h"
#include "io/export.h"
#include "resolve/resolve.h"
#include "tests/support/builders.h"
#include "tests/support/exported.h"
#include "tests/support/one_by_one.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

// As the command has it.
ExportInput viewed_input(const Manifest& manifest, const Plan& plan,
                         const RuleSet* rules) {
  ExportInput input{manifest, plan, rules};
  if (rules == nullptr) input.no_rules = "a saved plan has no rules";
  input.suffice = [&manifest](const RuleSet& given, const Plan& wanted) {
    ResolveOptions how;
    how.on_indivisible = wanted.on_indivisible;
    Diagnostics diags;
    const auto again = resolve(manifest, given, wanted.mesh, how, diags);
    return again &&
           fingerprint(manifest, *again) == fingerprint(manifest, wanted);
  };
  return input;
}

TEST_CASE("our own rules of views, read back, give the same plan") {
  for (const char* target : {"yaml", "json"}) {
    CHECK(holds(target, [&] {
      const testing::ViewedAxes axes = testing::draw_viewed_axes(false);
      const Manifest manifest = testing::draw_experts_model(draw_in(1, 3));
      const RuleSet rules = testing::draw_view_rules(axes);
      Diagnostics diags;
      const auto plan = resolve(manifest, rules, axes.mesh(), {}, diags);
      ENSURE(plan.has_value());
      const ExportInput input =
          viewed_input(manifest, *plan, draw_bool() ? &rules : nullptr);
      Diagnostics found;
      const auto text = export_text(*find_export_target(target), input, found);
      ENSURE(text.has_value());
      testing::case_log() << *text;
      RuleSet again;
      ENSURE(kYamlRules.read(std::make_shared<SourceFile>("r", *text), {},
                             again, found));
      ENSURE(again.mesh.has_value());
      auto mesh = make_mesh(*again.mesh, std::nullopt, {}, found);
      ENSURE(mesh.has_value());
      for (const ViewRequest& view : again.views) {
        auto with_view = add_view(*mesh, view, found);
        ENSURE(with_view.has_value());
        mesh = *std::move(with_view);
      }
      ENSURE(*mesh == plan->mesh);
      mark_inactive_views(again, *mesh);
      const auto read = resolve(manifest, again, *mesh, {}, found);
      ENSURE(read.has_value());
      ENSURE(fingerprint(manifest, *read) == fingerprint(manifest, *plan));
    }));
  }
}

// The mesh of a text: its own, or that of the comment at the top.
Mesh written_mesh(const RuleSet& rules, const std::string& text) {
  Diagnostics diags;
  if (rules.mesh) return *make_mesh(*rules.mesh, std::nullopt, {}, diags);
  constexpr std::string_view kMesh = "\n# mesh: ";
  const size_t begin = text.find(kMesh) + kMesh.size();
  return testing::mesh(text.substr(begin, text.find('\n', begin) - begin));
}

// Every device has the same rows, by its number alone.
void require_same_rows(const Manifest& manifest, const Plan& plan,
                       const testing::ViewedAxes& axes, const Plan& read) {
  ENSURE(read.mesh.devices() == axes.devices());
  for (size_t i = 0; i < manifest.size(); ++i) {
    const Placement& before = plan.of(i);
    const Placement& after = read.of(i);
    ENSURE(after.bytes_per_device == before.bytes_per_device);
    ENSURE(after.replicas == before.replicas);
    for (int64_t device = 0; device < axes.devices(); ++device) {
      const Shape& shape = before.type.shape;
      ENSURE(testing::rows_on(read.mesh.axes(), after.spec, shape,
                              read.on_indivisible, device) ==
             testing::rows_on(axes.of(before.view), before.spec, shape,
                              plan.on_indivisible, device));
    }
  }
}

TEST_CASE("plans with views, read back on sub-axes, place the same rows") {
  struct Row {
    const char* target;
    const RuleDialect& dialect;
    OnIndivisible policy;
  };
  const Row rows[] = {
      {"python", kPythonRules, OnIndivisible::Drop},
      {"dtensor", kDtensor, OnIndivisible::Drop},
      {"dtensor", kDtensor, OnIndivisible::Chunk},
      {"shardy", kShardy, OnIndivisible::Drop},
      {"shardy", kShardy, OnIndivisible::Pad},
  };
  for (const Row& row : rows) {
    int on_views = 0;
    CHECK(holds(row.target, [&] {
      testing::ViewedAxes axes = testing::draw_viewed_axes(false);
      const Manifest manifest = testing::draw_experts_model(draw_in(1, 3));
      RuleSet rules = testing::draw_view_rules(axes);
      for (Rule& rule : rules.rules) rule.deal = {};
      ResolveOptions how;
      how.on_indivisible = row.policy;
      Diagnostics diags;
      const auto plan = resolve(manifest, rules, axes.mesh(), how, diags);
      ENSURE(plan.has_value());
      const ExportInput input =
          viewed_input(manifest, *plan, draw_bool() ? &rules : nullptr);
      Diagnostics found;
      const auto text =
          export_text(*find_export_target(row.target), input, found);
      std::erase_if(axes.views, [&](const MeshView& view) {
        return std::ranges::none_of(plan->placements, [&](const Placement& p) {
          return p.view == view.name;
        });
      });
      if (!axes.have_parts()) {
        ENSURE(!text.has_value());
        ENSURE(found.all().front().message.find(
                   "has a single mesh and cannot express the view") !=
               std::string::npos);
        return;
      }
      // What is refused otherwise is of one mesh: an order of axes, chunks.
      const bool written = text.has_value();
      ASSUME(written);
      ASSUME(text->find("RULES = ()") == std::string::npos);
      testing::case_log() << *text;
      on_views += axes.views.empty() ? 0 : 1;
      RuleSet again;
      ENSURE(row.dialect.read(std::make_shared<SourceFile>("r", *text), {},
                              again, found));
      const auto read =
          resolve(manifest, again, written_mesh(again, *text), how, found);
      ENSURE(read.has_value());
      require_same_rows(manifest, *plan, axes, *read);
    }));
    CHECK(on_views > 5);
  }
}

Manifest labelled_model() {
  Manifest manifest;
  const auto add = [&](const std::string& name, const Shape& shape,
                       AxisLabels labels) {
    ENSURE(manifest.add(name, {DType::F32, shape}, {}));
    manifest.set_axes(manifest.size() - 1, std::move(labels));
  };
  // Most meshes divide these.
  const auto size = [] { return draw_of<int64_t>({24, 48, 144, 1}); };
  add("attn", {size(), size()}, {"heads", "embed"});
  add("experts", {size(), size(), size()}, {"experts", "mlp", "embed"});
  add("norm", {size()}, {"embed"});
  return manifest;
}

RuleSet draw_logical_view_rules(const testing::ViewedAxes& axes) {
  RuleSet rules;
  for (const char* name :
       {"experts", "mlp", "heads", "embed", "mlp", "embed"}) {
    LogicalRule rule;
    rule.name = name;
    std::vector<std::string> views = {""};
    for (const MeshView& view : axes.views) views.push_back(view.name);
    rule.view = draw_of(views);
    for (const Axis& axis : axes.of(rule.view)) {
      if (draw_in(0, 3) == 0) rule.axes.push_back(axis.name);
    }
    rules.logical_rules.push_back(std::move(rule));
  }
  // Rules of views may name axes that these lack.
  rules.logical_rules.back().axes = {"absent"};
  rules.declared_axes = {"absent"};
  return rules;
}

TEST_CASE(
    "logical rules of views, read back on sub-axes, place the same rows") {
  const std::pair<const char*, const RuleDialect*> rows[] = {
      {"flax", &kPythonRules}, {"maxtext", &kMaxText}};
  for (const auto& row : rows) {
    const char* const target = row.first;
    const RuleDialect* const dialect = row.second;
    int on_views = 0;
    CHECK(holds(target, [&] {
      testing::ViewedAxes axes = testing::draw_viewed_axes(false);
      const Manifest manifest = labelled_model();
      const RuleSet rules = draw_logical_view_rules(axes);
      Diagnostics diags;
      const auto plan = resolve(manifest, rules, axes.mesh(), {}, diags);
      ENSURE(plan.has_value());
      const ExportInput input = viewed_input(manifest, *plan, &rules);
      Diagnostics found;
      const auto text = export_text(*find_export_target(target), input, found);
      if (!text) {
        ENSURE(found.all().front().code == Code::Inexpressible);
        return;
      }
      testing::case_log() << *text;
      on_views += text->find("# views: ") != text->npos ? 1 : 0;
      RuleSet again;
      ENSURE(dialect->read(std::make_shared<SourceFile>("r", *text), {}, again,
                           found));
      // MaxText keeps the longest prefix of axes that divides.
      ResolveOptions how;
      if (target == std::string_view("maxtext")) {
        how.on_indivisible = OnIndivisible::Prefix;
      }
      auto read =
          resolve(manifest, again, written_mesh(again, *text), how, found);
      ENSURE(read.has_value());
      require_same_rows(manifest, *plan, axes, *read);
    }));
    CHECK(on_views > 10);
  }
}

testing::Exporting views_model(const char* view, const char* deal) {
  testing::Exporting what = {
      testing::manifest({{"attn.q", "bf16[8, 8]"},
                         {"mlp.experts.0.up", "bf16[4, 8]"},
                         {"mlp.experts.1.up", "bf16[4, 8]"}}),
      testing::rules({{"attn", "tp"}, {"experts", "None, etp"}}),
      Mesh({{"dp", 2}, {"tp", 2}}, {{"experts", {{"ep", 2}, {"etp", 2}}}})};
  what.rules.rules[1].view = view;
  what.rules.rules[1].deal = deal;
  what.saved = true;
  return what;
}

TEST_CASE("targets that have only specs refuse experts dealt out") {
  for (const ExportTarget& target : export_targets()) {
    const std::string name(target.name);
    CAPTURE(name);
    const std::string dealt =
        testing::exported(name.c_str(), views_model("experts", "ep"));
    const bool says_dealt =
        dealt.find(
            "cannot place whole experts such as `mlp.experts.0.up` and 1 "
            "more") != dealt.npos;
    CHECK(says_dealt == (target.views != ExportViews::Deals &&
                         target.views != ExportViews::DealsOnly));
    testing::Exporting apart = views_model("experts", "");
    apart.mesh =
        Mesh({{"dp", 3}, {"tp", 2}}, {{"experts", {{"ep", 2}, {"etp", 3}}}});
    apart.model = testing::manifest({{"mlp.experts.0.up", "bf16[4, 6]"}});
    const std::string text = testing::exported(name.c_str(), apart);
    CHECK((text.find("has a single mesh and cannot express the view of") !=
           text.npos) == (target.views <= ExportViews::DealsOnly));
  }
}

TEST_CASE("a sub-axis has no name that is taken") {
  testing::Exporting what = {
      testing::manifest({{"attn", "bf16[8]"}, {"experts", "bf16[8]"}}),
      testing::rules({{"attn", "tp"}, {"experts", "tp_1x2"}}),
      Mesh({{"tp", 8}},
           {{"v", {{"tp_1x2", 4}, {"e", 2}}}, {"w", {{"a", 2}, {"b", 4}}}})};
  what.model = testing::manifest(
      {{"attn", "bf16[8]"}, {"experts", "bf16[8]"}, {"more", "bf16[8]"}});
  what.rules =
      testing::rules({{"attn", "tp"}, {"experts", "tp_1x2"}, {"more", "b"}});
  what.saved = true;
  const std::string text = testing::exported("python", what);
  CAPTURE(text);
  CHECK(text.find("# sub-axes: tp is a,tp_2x2,e; tp_1x2 is a,tp_2x2; b is "
                  "tp_2x2,e\n# mesh: a=2,tp_2x2=2,e=2\n") != text.npos);
}

TEST_CASE("rules of views that the mesh lacks are left out") {
  testing::Exporting what = {
      testing::manifest({{"attn", "bf16[8]"}, {"experts", "bf16[8, 8]"}}),
      testing::rules({{"experts", "ep"}, {"", "tp"}}),
      testing::mesh("ep=2,tp=2")};
  what.rules.rules[0].view = "experts";
  mark_inactive_views(what.rules, what.mesh);
  const std::string python = testing::exported("python", what);
  CHECK(python.find("RULES = (\n    (\"\", PartitionSpec(\"tp\")),\n)") !=
        python.npos);
  what.rules = {};
  what.rules.logical_rules = {{"mlp", {"ep"}, {}, {}, "experts"},
                              {"mlp", {"tp"}, {}, {}}};
  mark_inactive_views(what.rules, what.mesh);
  what.model.set_axes(0, {"mlp"});
  what.model.set_axes(1, {"mlp", std::nullopt});
  const std::string maxtext = testing::exported("maxtext", what);
  CHECK(maxtext.find("logical_axis_rules:\n  - [mlp, tp]\nici_") !=
        maxtext.npos);
}

TEST_CASE("slices are cut along the first parts of an axis") {
  testing::Exporting what = {
      testing::manifest({{"attn", "bf16[8]"}, {"experts", "bf16[8]"}}),
      {},
      Mesh({{"tp", 8}}, {{"experts", {{"ep", 2}, {"e", 4}}}})};
  what.rules.logical_rules = {{"heads", {"tp"}, {}, {}},
                              {"experts", {"e"}, {}, {}}};
  what.model.set_axes(0, {"heads"});
  what.model.set_axes(1, {"experts"});
  what.rules.dcn_mesh = {{"tp", 4, {}, {}, {}}};
  const std::string text = testing::exported("maxtext", what);
  CAPTURE(text);
  CHECK(text.find("ici_ep_parallelism: 1\nici_e_parallelism: 2\n"
                  "dcn_ep_parallelism: 2\ndcn_e_parallelism: 2\n") !=
        text.npos);
}

}  // namespace
}  // namespace shardplan
