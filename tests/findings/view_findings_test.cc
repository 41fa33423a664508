// SPDX-License-Identifier: Apache-2.0
// Views and experts: src/findings/view_findings.cc, and what other findings say
// of axes of views.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/linted.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"
#include "tests/support/shipped_rules.h"

namespace shardplan {
namespace {

using testing::lint_of;
using testing::mesh_with_views;
using testing::message;

// Rules as a file has them.
RuleSet read_rules_text(const std::string& text) {
  testing::MemoryHost host;
  host.files["rules.yaml"] = text;
  Diagnostics diags;
  auto rules = load_rules(std::vector<std::string>{"rules.yaml"}, std::nullopt,
                          {}, host, diags);
  for (const Diagnostic& each : diags.all()) FAIL(each.message);
  REQUIRE(rules);
  return *std::move(rules);
}

// `count` experts with one matrix each, 256 bytes.
Manifest experts(int64_t count) {
  Manifest manifest;
  for (int64_t e = 0; e < count; ++e) {
    REQUIRE(manifest.add("l.0.experts." + std::to_string(e) + ".up.weight",
                         testing::type("u8[16, 16]"), Span()));
  }
  return manifest;
}

const Mesh& eight() {
  static const Mesh kMesh =
      mesh_with_views("dp=2,tp=4", {"experts:ep=4,etp=2"});
  return kMesh;
}

TEST_CASE("a spec of two views is refused, dimension by dimension") {
  const auto result =
      lint_of(testing::manifest({{"experts.up", "u8[8, 8, 8]"}}),
              read_rules_text("rules: [['experts', [ep, tp, etp]]]"), eight());
  const auto found = result.find(Code::MixedViews);
  REQUIRE(found.size() == 1);
  CHECK(message(found[0]) ==
        "SP210 rules.yaml:1:26 the spec of `experts.up` names axes of two "
        "views: `tp` is an axis of the mesh, and `ep` is an axis of view "
        "`experts`");
  CHECK(found[0].facts.at(0) ==
        "dimension 1 of `experts.up` becomes unsharded: 64 B per device");
}

TEST_CASE("a rule of a view names axes of no other") {
  const auto result = lint_of(
      testing::manifest({{"w", "u8[8, 8]"}}),
      read_rules_text("rules: [{pattern: w, view: experts, spec: [ep, tp]}]"),
      eight());
  const auto found = result.find(Code::MixedViews);
  REQUIRE(found.size() == 1);
  CHECK(found[0].message ==
        "the spec of `w` names axes of two views: `tp` is an axis of the mesh, "
        "but the rule is for view `experts`");
}

TEST_CASE("an axis that the mesh and a view share is of both") {
  const Mesh mesh = mesh_with_views("pp=2,dp=2,tp=2", {"experts:pp=2,ep=4"});
  const auto result = lint_of(
      testing::manifest({{"experts.up", "u8[8, 8]"}, {"w", "u8[8, 8]"}}),
      read_rules_text("axes: [dp]\nrules:\n"
                      "- {pattern: experts, view: experts, spec: [ep, pp]}\n"
                      "- [w, [pp, tp]]"),
      mesh);
  CHECK(result.find(Code::MixedViews).empty());
  CHECK(result.find(Code::UnknownAxis).empty());
}

TEST_CASE("a declared axis that only a view has is missing from the mesh") {
  // As the shipped sets have it: `ep` of the view is not that of `[tp, ep]`.
  const auto result =
      lint_of(testing::manifest({{"a", "u8[8, 8]"}, {"b", "u8[8, 8]"}}),
              read_rules_text("axes: [ep, dp]\nrules:\n"
                              "- {pattern: a, view: experts, spec: [ep, etp]}\n"
                              "- [b, [tp, ep]]"),
              eight());
  CHECK(result.find(Code::MixedViews).empty());
  CHECK(result.find(Code::UnknownAxis).empty());
  for (const Diagnostic& each : result.diags.all()) {
    CHECK(each.severity == Severity::Note);
  }
}

TEST_CASE("a user's rule for a declared axis that only a view has is named") {
  const auto result = lint_of(
      testing::manifest({{"experts.up", "u8[8, 8]"}}),
      read_rules_text("axes: [ep, dp, tp]\nview_axes: {experts: [etp]}\n"
                      "rules:\n- [experts, [ep]]"),
      eight());
  const auto found = result.find(Code::AbsentAxis);
  REQUIRE(found.size() == 1);
  CHECK(message(found[0]) ==
        "SP209 note rules.yaml:4:14 `ep` is declared for the mesh, but only "
        "view `experts` has it: counted as size 1");
}

TEST_CASE("rules of a view that the mesh lacks are neither unused nor wrong") {
  const auto result = lint_of(
      testing::manifest({{"w", "u8[8, 8]"}}),
      read_rules_text("axes: [dp]\nrules:\n"
                      "- {pattern: w, view: moe, deal: ep, spec: [zz]}\n"
                      "- [w, [tp]]"),
      testing::mesh("dp=2,tp=4"));
  for (const Diagnostic& each : result.diags.all()) {
    CHECK(each.severity == Severity::Note);
  }
}

TEST_CASE("a parameter without an expert's number is not dealt out") {
  const auto result = lint_of(
      testing::manifest({{"experts.up", "u8[8, 8]"}}),
      read_rules_text(
          "rules: [{pattern: up, view: experts, deal: ep, spec: [etp]}]"),
      eight());
  const auto found = result.find(Code::NotDealt);
  REQUIRE(found.size() == 1);
  CHECK(
      message(found[0]) ==
      "SP211 rules.yaml:1:55 `experts.up` cannot be placed whole: its name has "
      "no expert number, so its rank is unknown");
  const auto unknown =
      lint_of(experts(4),
              read_rules_text(
                  "rules: [{pattern: up, view: experts, deal: q, spec: []}]"),
              eight());
  CHECK(unknown.find(Code::UnknownAxis).size() == 1);
  const auto of_mesh =
      lint_of(experts(4),
              read_rules_text(
                  "rules: [{pattern: up, view: experts, deal: tp, spec: []}]"),
              eight());
  CHECK(of_mesh.find(Code::MixedViews).size() == 1);
}

constexpr const char* kDealing =
    "axes: [dp, tp]\nview_axes: {experts: [etp]}\n"
    "rules: [{pattern: up, view: experts, deal: ep, spec: [etp]}]";

TEST_CASE("experts that do not divide by their axis are uneven") {
  const auto result = lint_of(experts(5), read_rules_text(kDealing), eight());
  const auto found = result.find(Code::UnevenShards);
  REQUIRE(found.size() == 1);
  CHECK(found[0].message ==
        "5 experts are distributed unevenly over axis `ep` of size 4");
  CHECK(found[0].facts.at(0) ==
        "ranks hold 2 or 1 experts of each layer, including "
        "`l.0.experts.0.up.weight` and 4 more");
  CHECK(found[0].findings == 5);
  CHECK(found[0].help.at(0) == "`ep` may be 1 or 5");
  CHECK(lint_of(experts(8), read_rules_text(kDealing), eight())
            .find(Code::UnevenShards)
            .empty());
}

TEST_CASE("amounts per device count what the fullest rank holds") {
  // 3 does not divide the rows, so each expert is whole where it is: 2 of 5.
  const auto result =
      lint_of(experts(5),
              read_rules_text("axes: [dp, tp]\n"
                              "rules: [{pattern: up, view: experts, deal: ep, "
                              "spec: [etp]}]"),
              mesh_with_views("tp=4,dp=3", {"experts:ep=4,etp=3"}));
  const auto found = result.find(Code::IndivisibleDimension);
  REQUIRE(found.size() == 1);
  CHECK(found[0].facts.at(1) ==
        "axis `etp` is dropped here: P(), 320 B more per device");
}

TEST_CASE("experts of unlike types are dealt out one by one") {
  Manifest manifest = experts(3);
  REQUIRE(manifest.add("l.0.experts.3.up.weight", testing::type("u8[16, 32]"),
                       Span()));
  RuleSet rules = read_rules_text(kDealing);
  mark_inactive_views(rules, eight());
  Diagnostics diags;
  const auto plan = resolve(manifest, rules, eight(), {}, diags);
  REQUIRE(plan);
  for (size_t i = 0; i < manifest.size(); ++i) {
    REQUIRE(plan->of(i).dealt);
    CHECK(plan->of(i).dealt->rank == static_cast<int64_t>(i));
    CHECK(plan->of(i).dealt->experts == 4);
  }
  const auto memory = device_memory(manifest, *plan, diags);
  REQUIRE(memory);
  CHECK(memory->max == 256);  // half of the large one
  CHECK(memory->min == 128);
}

TEST_CASE("experts below --min-size are on every rank") {
  ResolveOptions options;
  options.min_size = 1000;
  const auto result =
      lint_of(experts(8), read_rules_text(kDealing), eight(), options);
  const auto found = result.find(Code::SmallParameter);
  REQUIRE(found.size() == 1);
  CHECK(found[0].findings == 8);
  CHECK(result.find(Code::UnevenShards).empty());
}

TEST_CASE("a large expert that is dealt out is no replica") {
  Manifest manifest;
  for (int64_t e = 0; e < 4; ++e) {
    REQUIRE(manifest.add("l.experts." + std::to_string(e) + ".up.weight",
                         testing::type("u8[1024, 1024]"), Span()));
  }
  CHECK(lint_of(manifest, read_rules_text(kDealing),
                mesh_with_views("dp=2,tp=4", {"experts:ep=4,edp=2"}))
            .find(Code::LargeReplicatedParameter)
            .empty());
  CHECK(lint_of(manifest, read_rules_text("rules: [[up, []]]"),
                mesh_with_views("dp=2,tp=4", {"experts:ep=4,edp=2"}))
            .find(Code::LargeReplicatedParameter)
            .size() == 1);
}

TEST_CASE("a view whose axes the rules call otherwise is an error") {
  const auto result =
      lint_of(experts(8), testing::shipped_rules("@qwen3_moe"),
              mesh_with_views("fsdp=4,tp=8", {"experts:expert=8,x=4"}));
  const auto found = result.find(Code::UnmentionedAxis);
  REQUIRE_FALSE(found.empty());
  CHECK(found[0].message.find(
            "view `experts` has `expert`: did you mean `ep`?") !=
        std::string::npos);
  CHECK(found[0].help.at(0) == "write `--view experts:ep=8,x=4`");
}

TEST_CASE("a view under another name than the rules have places nothing") {
  const auto result = lint_of(experts(8), read_rules_text(kDealing),
                              mesh_with_views("dp=2,tp=4", {"moe:ep=4,etp=2"}));
  std::vector<Diagnostic> found = result.find(Code::UnmentionedAxis);
  for (Diagnostic& each : result.find(Code::UnusedAxis)) {
    found.push_back(std::move(each));
  }
  const auto about = [&](const Diagnostic& each) {
    return !each.help.empty() &&
           each.help.front() ==
               "the rules are for view `experts`: write `--view "
               "experts:ep=4,etp=2`";
  };
  CHECK(std::ranges::any_of(found, about));
}

TEST_CASE("an axis of a view that places nothing is reported with its view") {
  const auto result = lint_of(
      testing::manifest({{"experts.up", "u8[8, 8, 8]"}, {"w", "u8[8]"}}),
      read_rules_text("axes: [dp]\nview_axes: {experts: [etp, edp]}\nrules:\n"
                      "- {pattern: experts, view: experts, spec: [ep]}\n"
                      "- [w, [tp]]"),
      mesh_with_views("dp=2,tp=4", {"experts:ep=2,etp=2,edp=2"}));
  std::vector<std::string> messages;
  for (const Diagnostic& each : result.find(Code::UnusedAxis)) {
    messages.push_back(message(each));
  }
  CHECK(messages ==
        std::vector<std::string>{"SP204 note axis `dp` shards no parameter",
                                 "SP204 warning axis `etp` shards no parameter",
                                 "SP204 note axis `edp` shards no parameter"});
}

TEST_CASE(
    "expert parallelism within the mesh is a warning, but for the batch") {
  const auto manifest =
      testing::manifest({{"experts.up", "u8[8, 8, 8]"}, {"w", "u8[8, 8]"}});
  const std::string rules =
      "axes: [dp]\nrules: [[experts, [ep, null, tp]], [w, [null, tp]]]";
  const auto found = [&](const std::string& more, const std::string& mesh,
                         const LintOptions& options = {}) {
    return lint_of(manifest, read_rules_text(rules + more), mesh, {}, options)
        .find(Code::ExpertsBesideBatch);
  };
  const auto plain = found("", "dp=2,ep=4,tp=2");
  REQUIRE(plain.size() == 1);
  CHECK(plain[0].severity == Severity::Warning);
  CHECK(plain[0].message == "axis `ep` shards experts but not the batch");
  CHECK(plain[0].help.at(0).find(
            "`--mesh dp=8,tp=2 --view experts:ep=4,edp=4`") !=
        std::string::npos);
  // No axis of data parallelism: it becomes one.
  CHECK(found("", "ep=4,tp=2")
            .at(0)
            .help.at(0)
            .find("`--mesh dp=4,tp=2 --view experts:ep=4,edp=2`") !=
        std::string::npos);
  LintOptions staged;
  staged.pipeline_axis = "pp";
  CHECK(found("", "pp=2,dp=2,ep=4,tp=2", staged)
            .at(0)
            .help.at(0)
            .find("`--mesh pp=2,dp=8,tp=2 --view experts:pp=2,ep=4,edp=4`") !=
        std::string::npos);
  CHECK(found("", "dp=2,ep=1,tp=2").empty());
  CHECK(found("\npartition_axis: {batch_axis: [dp, ep]}", "dp=2,ep=4,tp=2")
            .empty());
  CHECK(found("\nlogical_axis_rules: [[activation_batch, [dp, ep]]]",
              "dp=2,ep=4,tp=2")
            .empty());
  LintOptions batch;
  batch.batch_axes = {"dp", "ep"};
  CHECK(found("", "dp=2,ep=4,tp=2", batch).empty());
  // Nothing is an expert.
  CHECK(lint_of(testing::manifest({{"w", "u8[8, 8]"}}),
                read_rules_text("rules: [[w, [ep]]]"), "ep=4")
            .find(Code::ExpertsBesideBatch)
            .empty());
}

}  // namespace
}  // namespace shardplan
