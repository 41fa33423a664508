// SPDX-License-Identifier: Apache-2.0
// Exports of plans with views: written and read back, or refused.
#include <memory>
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

TEST_CASE("our own rules of views, read back, give the same plan") {
  for (const char* target : {"yaml", "json"}) {
    CHECK(holds(target, [&] {
      const testing::ViewedAxes axes = testing::draw_viewed_axes(false);
      const Manifest manifest = testing::draw_experts_model(draw_in(1, 3));
      const RuleSet rules = testing::draw_view_rules(axes);
      Diagnostics diags;
      const auto plan = resolve(manifest, rules, axes.mesh(), {}, diags);
      ENSURE(plan.has_value());
      ExportInput input{manifest, *plan};
      if (draw_bool()) {
        input.rules = &rules;
      } else {
        input.no_rules = "a saved plan has no rules";
      }
      Diagnostics found;
      const auto text = find_export_target(target)->write(input, found);
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
      settle_views(again, *mesh);
      const auto read = resolve(manifest, again, *mesh, {}, found);
      ENSURE(read.has_value());
      ENSURE(fingerprint(manifest, *read) == fingerprint(manifest, *plan));
    }));
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

TEST_CASE("targets with one mesh refuse views, and experts dealt out") {
  for (const ExportTarget& target : export_targets()) {
    const std::string name(target.name);
    CAPTURE(name);
    const bool is_ours = name == "yaml" || name == "json";
    const bool has_views = is_ours || name == "jax";
    const auto text = [&](const testing::Exporting& what) {
      return testing::exported(name.c_str(), what);
    };
    const std::string cut = text(views_model("experts", ""));
    const bool says_view =
        cut.find(
            "has one mesh, and no view of it for `mlp.experts.0.up` and "
            "1 more") != cut.npos;
    CHECK(says_view == !has_views);
    const std::string dealt = text(views_model("experts", "ep"));
    const bool says_dealt =
        dealt.find(
            "cannot deal out experts such as `mlp.experts.0.up` and 1 "
            "more") != dealt.npos;
    CHECK(says_dealt == !is_ours);
    // A view that nothing is placed on is left out of every target but ours.
    testing::Exporting unused = views_model("", "");
    unused.rules = testing::rules({{"attn", "tp"}, {"experts", "None, tp"}});
    const std::string plain = text(unused);
    CHECK(plain.find("no view of it") == plain.npos);
    CHECK(plain.find("deal out") == plain.npos);
  }
}

}  // namespace
}  // namespace shardplan
