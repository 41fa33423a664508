// SPDX-License-Identifier: Apache-2.0
#include "resolve/framework_semantics.h"

#include <set>
#include <string>

#include <doctest/doctest.h>

#include "resolve/correct.h"
#include "resolve/resolve.h"
#include "tests/support/builders.h"
#include "tests/support/generators.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

using testing::bad_text;
using testing::manifest;
using testing::rules;

std::string outcome_text(const ReadOutcome& read) {
  std::string text = read.kind == ReadKind::Placed    ? spec_text(read.spec)
                     : read.kind == ReadKind::Refused ? "refused"
                                                      : "not read";
  for (const std::string& why : read.why) text += "; " + why;
  return text;
}

Plan verbatim_plan(const Manifest& manifest, const RuleSet& rules,
                   const Mesh& mesh) {
  ResolveOptions how;
  how.strict = false;
  Diagnostics diags;
  auto plan = resolve(manifest, rules, mesh, how, diags);
  if (!plan) bad_text("no plan", mesh_text(mesh));
  return *std::move(plan);
}

// How a single parameter `w` is read; without a spec it has no rule.
std::string read_text(const char* semantics, const char* type, const char* spec,
                      const char* axes = "fsdp=4,tp=2,one=1") {
  const Manifest model = manifest({{"w", type}});
  const RuleSet given =
      rules({{spec == nullptr ? "none" : "w", spec == nullptr ? "" : spec}},
            {"declared"});
  const Plan plan = verbatim_plan(model, given, testing::mesh(axes));
  const ReadOutcomes read =
      read_as(*find_framework_semantics(semantics), model, given, plan);
  return outcome_text(read.of(0));
}

TEST_CASE("each reading treats what does not divide in its own way") {
  const struct {
    const char* semantics;
    const char* expected;
  } rows[] = {
      {"eformer",
       "P(); dimension 0 is not sharded: 12 is not divisible by fsdp=4,tp=2"},
      {"flax", "refused; dimension 0: 12 is not divisible by fsdp=4,tp=2"},
      {"easylm", "refused; dimension 0: 12 is not divisible by fsdp=4,tp=2"},
      {"maxtext",
       "P(fsdp); dimension 0 keeps only fsdp: 12 is not divisible by "
       "fsdp=4,tp=2"},
      {"dtensor", "P((fsdp, tp)); dimension 0 of 12 is split into 2 ×4, 1 ×4"},
      {"hf", "P((fsdp, tp)); dimension 0 of 12 is split into 2 ×6, 0 ×2"},
      {"gspmd",
       "P((fsdp, tp)); dimension 0 is padded: 12 is not divisible by "
       "fsdp=4,tp=2"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.semantics);
    CHECK(read_text(row.semantics, "f32[12]", "(fsdp, tp)") == row.expected);
    CHECK(read_text(row.semantics, "f32[16]", "(fsdp, tp)") == "P((fsdp, tp))");
    CHECK(read_text(row.semantics, "f32[0]", "fsdp") == "P(fsdp)");
  }
}

TEST_CASE("scalars, ranks, unknown and repeated axes are told apart") {
  const struct {
    const char* semantics;
    const char* type;
    const char* spec;
    const char* expected;
  } rows[] = {
      {"eformer", "f32[]", "tp", "P(); rules do not apply to scalars"},
      {"easylm", "f32[]", nullptr, "P()"},
      {"flax", "f32[]", "tp",
       "refused; the spec has 1 dimension, but the array has 0"},
      {"flax", "f32[]", "", "P()"},
      {"eformer", "f32[1]", "one", "P(one)"},
      {"easylm", "f32[1]", "tp",
       "P(); rules do not apply to one-element arrays"},
      {"eformer", "f32[8]", nullptr, "refused; no rule matches"},
      {"easylm", "f32[8]", nullptr, "refused; no rule matches"},
      {"hf", "f32[8]", nullptr, "P()"},
      {"eformer", "f32[8]", "tp, fsdp", "P(tp); truncated to 1 dimension"},
      {"easylm", "f32[8]", "tp, fsdp",
       "refused; the spec has 2 dimensions, but the array has 1"},
      {"eformer", "f32[8, 8]", "(tp, pp), fsdp",
       "P(None, fsdp); dimension 0 is not sharded: the mesh has no axis `pp`"},
      {"gspmd", "f32[8, 8]", "(tp, pp), fsdp",
       "refused; the mesh has no axis `pp`"},
      // Nobody else knows that an axis is declared.
      {"dtensor", "f32[8]", "declared",
       "refused; the mesh has no axis `declared`"},
      {"eformer", "f32[8, 8]", "(declared, tp), fsdp",
       "P(None, fsdp); dimension 0 is not sharded: the mesh has no axis "
       "`declared`"},
      {"flax", "f32[8]", "declared",
       "refused; the mesh has no axis `declared`"},
      {"maxtext", "f32[8]", "one", "P(); `one` of size 1 is removed"},
      {"flax", "f32[8, 8]", "tp, tp", "refused; axis `tp` is named twice"},
      {"eformer", "f32[8, 8]", "tp, tp", "refused; axis `tp` is named twice"},
      {"eformer", "f32[7, 8]", "tp, tp",
       "P(None, tp); dimension 0 is not sharded: 7 is not divisible by tp=2"},
      {"flax", "f32[8]", "HEAD",
       "not read; `HEAD` is a semantic axis, which is not supported here"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.semantics);
    CAPTURE(row.type);
    CHECK(read_text(row.semantics, row.type, row.spec) == row.expected);
  }
}

TEST_CASE("a name that is a logical axis is read by those who know them") {
  const Manifest model = manifest({{"w", "f32[8]"}});
  RuleSet given = rules({{"w", "mlp"}});
  given.logical_rules = {{"mlp", {"tp"}, {}, {}}};
  const Plan plan = verbatim_plan(model, given, testing::mesh("tp=2"));
  const auto read = [&](const char* semantics) {
    return read_as(*find_framework_semantics(semantics), model, given, plan)
        .of(0)
        .kind;
  };
  for (const char* semantics : {"eformer", "easylm", "dtensor", "hf"}) {
    CAPTURE(semantics);
    CHECK(read(semantics) == ReadKind::NotRead);
  }
  for (const char* semantics : {"flax", "maxtext", "gspmd"}) {
    CAPTURE(semantics);
    CHECK(read(semantics) != ReadKind::NotRead);
  }
}

TEST_CASE("a tp_plan has one rule for names that differ in digits") {
  const Manifest model = manifest({{"experts.0.w1", "f32[8, 8]"},
                                   {"experts.0.w2", "f32[8, 8]"},
                                   {"experts.0.w3", "f32[8, 8]"},
                                   {"norm", "f32[8]"}});
  const RuleSet given = rules({{"w2", "tp"}, {"w[13]", "None, tp"}});
  const Plan plan = verbatim_plan(model, given, testing::mesh("tp=2"));
  const ReadOutcomes read =
      read_as(*find_framework_semantics("hf"), model, given, plan);
  CHECK(outcome_text(read.of(1)) == "P(tp, None)");
  for (const size_t merged : {size_t{0}, size_t{2}}) {
    CHECK(outcome_text(read.of(merged)) ==
          "P(tp, None); rule 1 applies to all of `experts.*.w*`");
  }
  CHECK(outcome_text(read.of(3)) == "P()");
  CHECK(read.of(0).bytes_per_device == 128);
}

TEST_CASE("uneven shards of equal size on the fullest device still disagree") {
  const Manifest model = manifest({{"w", "f32[10]"}});
  const RuleSet given = rules({{"w", "tp"}});
  const Plan plan = verbatim_plan(model, given, testing::mesh("tp=4"));
  const auto read = [&](const char* semantics) {
    return read_as(*find_framework_semantics(semantics), model, given, plan)
        .of(0);
  };
  CHECK(read("gspmd").bytes_per_device == read("dtensor").bytes_per_device);
  CHECK_FALSE(agree(read("gspmd"), read("dtensor")));
  CHECK(agree(read("hf"), read("dtensor")));
  CHECK(agree(read("flax"), read("easylm")));
}

// The policies of this program are four of the semantics.
TEST_CASE("a spec that is placed is placed as its policy places it") {
  CHECK(holds("read_as", [] {
    const Manifest model = testing::draw_manifest();
    RuleSet given;
    given.rules.resize(2);
    given.rules[0].pattern = "kernel|scale";
    given.rules[0].spec = testing::draw_any_spec();
    given.rules[1].pattern = "bias";
    given.rules[1].spec = testing::draw_any_spec();
    const Mesh mesh = testing::draw_mesh();
    const Plan plan = verbatim_plan(model, given, mesh);
    const struct {
      const char* semantics;
      OnIndivisible policy;
    } rows[] = {{"eformer", OnIndivisible::Drop},
                {"maxtext", OnIndivisible::Prefix},
                {"gspmd", OnIndivisible::Pad},
                {"dtensor", OnIndivisible::Chunk}};
    for (const auto& row : rows) {
      const ReadOutcomes read =
          read_as(*find_framework_semantics(row.semantics), model, given, plan);
      for (size_t i = 0; i < model.size(); ++i) {
        const ReadOutcome& outcome = read.of(i);
        const Placement& asked = plan.of(i);
        if (outcome.kind != ReadKind::Placed || asked.rule == 0 ||
            asked.type.shape.empty()) {
          continue;
        }
        PartitionSpec spec = *asked.requested;
        if (row.policy == OnIndivisible::Prefix) {
          for (AxisNames& axes : spec.dims) {
            erase_if(axes, [&](const AxisName& axis) {
              return mesh.find(axis) && mesh.size_of(axis) == 1;
            });
          }
        }
        ENSURE(outcome.spec ==
               correct(spec, asked.type.shape, mesh, {}, row.policy).spec);
      }
    }
  }));
}

TEST_CASE("every reading is found by its name") {
  std::set<std::string_view> names;
  for (const FrameworkSemantics& semantics : framework_semantics()) {
    CHECK(find_framework_semantics(semantics.name) == &semantics);
    CHECK(names.insert(semantics.name).second);
  }
  CHECK(names == std::set<std::string_view>{"eformer", "flax", "maxtext",
                                            "easylm", "dtensor", "hf",
                                            "gspmd"});
  CHECK(find_framework_semantics("jax") == nullptr);
}

}  // namespace

}  // namespace shardplan
