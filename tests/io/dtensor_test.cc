// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "io/dialects.h"
#include "io/dtensor/placements.h"
#include "io/export.h"
#include "resolve/match.h"
#include "tests/io/document_text.h"
#include "tests/support/builders.h"
#include "tests/support/messages.h"
#include "tests/support/planned_model.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

std::vector<AxisRequest> axes_of(const Mesh& mesh) {
  std::vector<AxisRequest> axes;
  for (const Axis& axis : mesh.axes()) {
    axes.push_back({axis.name, axis.size, {}, {}, {}});
  }
  return axes;
}

// The spec of placements on `dp=2,tp=4,pp=2`, or what is wrong with them.
std::string spec_from(const std::string& text) {
  const SourceFile source("p", text);
  const auto tokens = python_tokens(source);
  Diagnostics diags;
  size_t at = 0;
  const auto placements = parse_placements(tokens, at, diags);
  if (!placements) return testing::messages(diags);
  const auto spec =
      spec_of_placements(*placements, axes_of(testing::mesh("dp=2,tp=4,pp=2")),
                         {&source, 0, text.size()}, diags);
  if (!spec) return testing::messages(diags);
  CHECK(spec->dim_where.size() == spec->spec.dims.size());
  return spec_text(spec->spec) + (spec->from_last ? " from the last" : "");
}

TEST_CASE("placements per mesh dimension become axes per dimension") {
  struct Case {
    std::string text;
    std::string expected;
  };
  const Case kCases[] = {
      {"[Replicate(), Shard(0), R]", "P(tp)"},
      {"(Shard(1), Shard(dim=0), Shard(1),)", "P(tp, (dp, pp))"},
      {"[Shard(-2), Replicate(), Replicate()]", "P(dp, None) from the last"},
      {"[torch.distributed.tensor.Shard(1), R, S(1)]", "P(None, (dp, pp))"},
      {"[_StridedShard(0, split_factor=4), Shard(0), R]", "P((tp, dp))"},
      {"[_StridedShard(dim=0, sf=8), Shard(0), Shard(0)]", "P((tp, pp, dp))"},
      {"[_StridedShard(0, split_factor=4), Shard(0), Shard(0)]",
       "P((tp, dp, pp))"},
      {"[R, R, R]", "P()"},
      {"[Shard(0), R]",
       "SP002 p:1:1 there are 2 placements for 3 mesh "
       "dimensions"},
      {"[Shard(0), Shard(-1), R]",
       "SP014 p:1:1 dimensions are counted both from the start and from the "
       "end"},
      {"[_StridedShard(0, split_factor=2), Shard(0), R]",
       "SP014 p:1:2 no axis order matches this _StridedShard"},
      {"[Partial(), R, R]", "SP014 p:1:2 a parameter cannot be Partial()"},
      {"[Shard(64), R, R]", "SP002 p:1:2 no tensor has dimension 64"},
      {"[Shard(), R, R]", "SP002 p:1:2 `Shard()` has the wrong arguments"},
      {"[Shard(0, 1), R, R]", "SP002 p:1:11 this argument needs a name"},
      {"[Shard(x=1), R, R]",
       "SP002 p:1:8 this is not an argument of a placement"},
      {"[Shard(0) R]", "SP002 p:1:11 a comma or `]` is missing before this"},
      {"[Shard(99999999999999999999), R, R]",
       "SP002 p:1:8 a whole number is expected here"},
      {"[Shard(0), ", "SP002 p:1:12 a placement is missing here"},
      {"[Chart(0), R, R]", "SP002 p:1:2 `Chart` is not a placement"},
      {"[_StridedShard(0, split_factor=0), R, R]",
       "SP002 p:1:2 a split factor is less than 1"},
  };
  for (const Case& c : kCases) {
    CAPTURE(c.text);
    CHECK(spec_from(c.text) == c.expected);
  }
}

// The rows that a device holds, cut as PyTorch cuts: a mesh dimension after the
// other, `_StridedShard` into split_factor times as many chunks, of which each
// device has every n-th.
std::vector<int64_t> rows_of(const std::vector<MeshPlacement>& placements,
                             const Mesh& mesh, int64_t rows, int64_t device) {
  std::vector<int64_t> held(static_cast<size_t>(rows));
  std::iota(held.begin(), held.end(), int64_t{0});
  const auto coordinates = mesh.coordinates(device);
  for (size_t i = 0; i < placements.size(); ++i) {
    if (placements[i].kind == MeshPlacementKind::Replicate) continue;
    const auto n = static_cast<size_t>(mesh.axes()[i].size);
    const auto factor = static_cast<size_t>(placements[i].split_factor);
    const size_t chunk = held.size() / (n * factor);
    std::vector<int64_t> kept;
    for (size_t part = static_cast<size_t>(coordinates[i]); part < n * factor;
         part += n) {
      for (size_t k = 0; k < chunk; ++k) kept.push_back(held[part * chunk + k]);
    }
    held = kept;
  }
  return held;
}

TEST_CASE("the spec of placements gives every device the same rows") {
  CHECK(holds("as PyTorch cuts", [] {
    std::vector<Axis> axes;
    int64_t devices = 1;
    const auto count = draw_in<size_t>(1, 5);
    for (size_t i = 0; i < count; ++i) {
      axes.push_back({"a" + std::to_string(i), draw_in<int64_t>(1, 4)});
      devices *= axes.back().size;
    }
    const Mesh mesh(axes);
    std::vector<MeshPlacement> placements(count);
    for (MeshPlacement& placement : placements) {
      placement.kind =
          draw_of({MeshPlacementKind::Replicate, MeshPlacementKind::Shard,
                   MeshPlacementKind::Strided});
      if (placement.kind == MeshPlacementKind::Strided) {
        placement.split_factor = draw_of<int64_t>({1, 2, 3, 4, 6, 9});
      }
    }
    Diagnostics diags;
    const auto placed =
        spec_of_placements(placements, axes_of(mesh), {}, diags);
    ENSURE(placed.has_value() != diags.has_errors());
    if (!placed) return;
    const int64_t rows = 2 * devices * devices;
    const AxisNames cut =
        placed->spec.dims.empty() ? AxisNames() : placed->spec.dims[0];
    for (int64_t device = 0; device < devices; ++device) {
      const Slice slice = dimension_slice(mesh, cut, Cut::Chunked, rows,
                                          mesh.coordinates(device));
      const auto held = rows_of(placements, mesh, rows, device);
      ENSURE(static_cast<int64_t>(held.size()) == slice.end - slice.begin);
      ENSURE(held.front() == slice.begin);
      ENSURE(held.back() == slice.end - 1);
    }
  }));
}

// "pattern -> P(..)" per rule, then axes, mesh and diagnostics.
std::string rules_text(const std::string& text, RuleReading reading = {}) {
  Diagnostics diags;
  RuleSet rules;
  const bool good = kDtensor.read(std::make_shared<SourceFile>("r", text),
                                  reading, rules, diags);
  std::string all;
  for (const Rule& rule : rules.rules) {
    all += rule.pattern + " -> " + spec_text(rule.spec) +
           (rule.from_last ? " from the last\n" : "\n");
  }
  for (const AxisName& axis : rules.declared_axes) all += axis + " ";
  if (rules.mesh) {
    for (const AxisRequest& axis : *rules.mesh) {
      all += axis.name + "=" + std::to_string(axis.size) + " ";
    }
  }
  return (good ? "" : "refused\n") + all + testing::text_of(diags);
}

TEST_CASE("placements are read from YAML, JSON and Python") {
  const std::string expected =
      "^a\\.w$ -> P(None, (dp, tp))\n^b$ -> P()\ndp tp ";
  CHECK(rules_text("mesh_dim_names: [dp, tp]\nplacements:\n"
                   "  a.w: [Shard(1), Shard(1)]\n"
                   "  b: '[Replicate(), Replicate()]'\n") == expected);
  CHECK(rules_text("{\"mesh_dim_names\": [\"dp\", \"tp\"], \"placements\": {"
                   "\"a.w\": [\"Shard(1)\", \"Shard(1)\"], "
                   "\"b\": [\"R\", \"R\"]}}") == expected);
  const RuleReading named = {std::nullopt, {"dp", "tp"}};
  CHECK(rules_text("from torch.distributed.tensor import Shard\n"
                   "plan = {\n  'a.w': (Shard(1), Shard(1)),\n"
                   "  'b': [Replicate(), Replicate()],\n}\n",
                   named) == expected);
  CHECK(rules_text("{'a.w': [Shard(1), Shard(1)], 'b': [Replicate(), "
                   "Replicate()]}",
                   named) == expected);
}

TEST_CASE("styles of parallelize_module place weights and biases") {
  const std::string before =
      "^(?:(?:.*\\.)?\\d+\\.|(?:model|transformer|language_model|module)\\.)?";
  CHECK(rules_text(
            "plan = {\n"
            "  'attention': PrepareModuleInput(input_layouts=(Shard(1),)),\n"
            "  'a.wq': ColwiseParallel(use_local_output=False),\n"
            "  'a.wo': tp.RowwiseParallel(output_layouts=Shard(1)),\n"
            "  'norm': SequenceParallel(),\n}\n") ==
        before + "attention\\.[^.]*$ -> P()\n" + before +
            "a\\.wq\\.(?:weight|bias)$ -> P(tp)\n" + before +
            "a\\.wo\\.weight$ -> P(None, tp)\n" + before +
            "a\\.wo\\.bias$ -> P()\n" + before +
            "norm\\.[^.]*$ -> P()\n.* -> P()\ntp ");
  CHECK(rules_text("parallelize_module(model, mesh, {\n"
                   "  'tok_embeddings': RowwiseParallel(),\n})\n")
            .find("tok_embeddings\\.weight$ -> P(tp)\n") != std::string::npos);
  for (const char* text :
       {"plan = {'a': ColwiseParallel(), 'b': make()}\n",
        "plan = {'a': ColwiseParallel(), x: RowwiseParallel()}\n",
        "plan = {'a': ColwiseParallel()}\nplan['b'] = RowwiseParallel()\n",
        "plan = {'a': ColwiseParallel()}\nplan.update(more)\n",
        "plan = {'a': ColwiseParallel()}\nplan = f(plan)\n",
        "p = {'a': ColwiseParallel()}\nq = {'a': RowwiseParallel()}\n",
        "plan = {'a': ColwiseParallel() if x else RowwiseParallel()}\n"}) {
    CAPTURE(text);
    CHECK(rules_text(text).starts_with("refused\n"));
  }
}

TEST_CASE("mesh dimensions are in the order of their names") {
  CHECK(rules_text("mesh_dim_names: [dp, tp]\nmesh: {tp: 4, dp: 2}\n"
                   "placements: {a: [\"_StridedShard(0, split_factor=4)\", "
                   "\"Shard(0)\"]}\n") ==
        "^a$ -> P((tp, dp))\ndp tp dp=2 tp=4 ");
  CHECK(rules_text("mesh: {tp: 4}\nplacements: {a: [Shard(0)]}\n") ==
        "^a$ -> P(tp)\ntp tp=4 ");
}

TEST_CASE("keys are matched part by part as fnmatch does") {
  const RuleSet rules = [] {
    Diagnostics diags;
    return testing::read_rules(
        kDtensor,
        "{\"mesh_dim_names\": [\"x\"], \"placements\": {"
        "\"l.*.w[13].weight\": \"Shard(0)\", \"l.[!0-4].?\": \"Shard(0)\", "
        "\"a[[]0]\": \"Shard(0)\", \"b[x\": \"Shard(0)\", "
        "\"c[]^].d\": \"Shard(0)\"}}",
        diags);
  }();
  Diagnostics diags;
  const auto matcher = Matcher::compile(rules, false, diags);
  REQUIRE(matcher);
  const auto found = [&](std::string_view name) {
    std::vector<int> numbers;
    matcher->find(name, numbers);
    return !numbers.empty();
  };
  CHECK(found("l.0.w1.weight"));
  CHECK(found("l..w3.weight"));
  CHECK_FALSE(found("l.0.w2.weight"));
  CHECK_FALSE(found("l.0.1.w1.weight"));
  CHECK(found("l.5.q"));
  CHECK_FALSE(found("l.4.q"));
  CHECK_FALSE(found("l.5.qq"));
  CHECK(found("a[0]"));
  CHECK(found("b[x"));
  CHECK(found("c].d"));
  CHECK(found("c^.d"));
  CHECK_FALSE(found("c].d.e"));
}

TEST_CASE("mistakes are refused at their places") {
  struct Case {
    std::string text;
    std::string expected;
  };
  const Case kCases[] = {
      {"{'a': [Shard(0)]}",
       "refused\nSP002 1:1 the mesh dimensions have no names\n"},
      {"mesh_dim_names: [x]\nplacements: {a: [Shard(0), Shard(0)], b: "
       "[Partial()], c: 3, d: [Shard(0) x]}\n",
       "refused\nx SP002 2:17 there are 2 placements for 1 mesh dimension\n"
       "SP014 2:43 a parameter cannot be Partial()\n"
       "SP002 2:58 a placement must be a string, not an integer\n"
       "SP002 2:65 unexpected text after the placement\n"},
      {"mesh_dim_names: [x, x]\nplacements: {}\n",
       "refused\nSP002 1:21 mesh dimension `x` appears twice\n"},
      {"mesh_dim_names: [x]\nmesh: {x: 2, y: 2}\nplacements: {}\n",
       "refused\nSP002 1:17 `mesh` has 2 sizes for 1 name\n"},
      {"mesh_dim_names: [z]\nmesh: {x: 2}\nplacements: {}\n",
       "refused\nSP002 1:18 `mesh` has no size for `z`\n"},
      {"mesh: {x: 0}\nplacements: {}\n",
       "refused\nSP007 1:11 `x` is not a mesh dimension with a size\n"},
      {"mesh: [2]\nplacements: {}\n",
       "refused\nSP002 1:7 `mesh` must be a map, not a list\n"},
      {"mesh_dims: [x]\nplacements: {}\n",
       "refused\nSP004 1:1 unknown key `mesh_dims`\n"},
      {"- Shard(0)\n",
       "refused\nSP002 1:1 `placements` must be a map, not a "
       "list\n"},
  };
  for (const Case& c : kCases) {
    CAPTURE(c.text);
    CHECK(rules_text(c.text) == c.expected);
  }
  CHECK(rules_text("p = {'a': [Shard(0)] + x, **y, 'b': [Shard(n)]}",
                   {std::nullopt, {"x"}}) ==
        "refused\nx SP002 1:22 this expression is not evaluated\n"
        "SP002 1:44 this is not an argument of a placement\n"
        "SP002 1:27 this entry has no literal key\n");
  CHECK(rules_text("p = {'a': [Shard(0)]}\nq = {'a': [Shard(0)]}\n",
                   {std::nullopt, {"x"}}) ==
        "refused\nSP002 1:1 the file has 2 dictionaries of placements\n");
  CHECK(rules_text("p = {'a': [Shard(0)]}\nq = {'a': [Shard(1)]}\n",
                   {"q", {"x"}}) == "^a$ -> P(None, x)\nx ");
}

using testing::PlannedModel;

std::optional<std::string> written(const PlannedModel& model,
                                   Diagnostics& diags) {
  return kDtensorTarget.write({model.manifest, model.plan}, diags);
}

TEST_CASE("placements are written per mesh dimension, with names and sizes") {
  Diagnostics diags;
  const auto text =
      written(testing::planned({{"a.weight", "f32[8, 8]"}, {"b[0]", "f32[8]"}},
                               {"(dp, tp), None", ""}, "dp=2,tp=2"),
              diags);
  REQUIRE(text);
  CHECK(*text == R"json({
  "mesh_dim_names": ["dp", "tp"],
  "mesh": {"dp": 2, "tp": 2},
  "placements": {
    "a.weight": ["Shard(0)", "Shard(0)"],
    "b[[]0]": ["Replicate()", "Replicate()"]
  }
}
)json");
}

TEST_CASE("what placements cannot say is refused with the reason") {
  Diagnostics diags;
  PlannedModel model =
      testing::planned({{"a", "f32[8, 8]"}, {"b", "f32[7]"}, {"c", "f32[8]"}},
                       {"(tp, dp), None", "tp", ""}, "dp=2,tp=2");
  model.plan.on_indivisible = OnIndivisible::Pad;
  model.plan.placements[2].requested =
      PartitionSpec{{AxisNames{std::string(kUnconstrained)}}};
  CHECK_FALSE(written(model, diags));
  REQUIRE(diags.all().size() == 3);
  CHECK(testing::message(diags.all()[0]) ==
        "SP014 `a` cannot be expressed in placements");
  CHECK(diags.all()[0].facts[0] ==
        "dimension 0 is sharded over (tp, dp), not in the order of the mesh "
        "dp=2,tp=2");
  CHECK(diags.all()[1].facts[0] ==
        "dimension 0 of size 7 is padded to a multiple of 2; DTensor stores "
        "shorter shards instead");
  CHECK(diags.all()[2].facts[0] ==
        "a dimension is UNCONSTRAINED, which placements cannot express");
}

TEST_CASE("placements are read back as they were written") {
  CHECK(holds("specs survive", [] {
    PlannedModel model = testing::any_planned_model();
    model.plan.on_indivisible = OnIndivisible::Chunk;
    Diagnostics diags;
    const auto text = written(model, diags);
    ENSURE(text.has_value() != diags.has_errors());
    if (!text || model.manifest.size() == 0) return;
    const RuleSet rules = testing::read_rules(kDtensor, *text, diags);
    ENSURE(make_mesh(*rules.mesh, std::nullopt, {}, diags) == model.plan.mesh);
    for (size_t i = 0; i < model.manifest.size(); ++i) {
      ENSURE(testing::spec_by_rules(rules, model.manifest, i) ==
             testing::without_trailing(model.plan.of(i).spec));
    }
  }));
}

}  // namespace

}  // namespace shardplan
