// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/real_host.h"
#include "io/dialects.h"
#include "io/export.h"
#include "io/formats.h"
#include "io/stablehlo/hlo_sharding.h"
#include "io/stablehlo/module.h"
#include "io/stablehlo/shardy.h"
#include "tests/support/generators.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"
#include "tests/support/planned_model.h"
#include "tests/support/property.h"
#include "tests/support/resolved.h"

namespace shardplan {
namespace {

// "name type" per argument, or what is wrong.
std::string arguments_text(const std::string& text) {
  const SourceFile source("m", text);
  Diagnostics diags;
  const auto module = read_stablehlo(source, diags);
  if (!module) return testing::messages(diags);
  std::string all;
  for (const StableHloArgument& argument : module->arguments) {
    all += argument.name + " " + type_text(argument.type) + "\n";
  }
  const ShardyMesh* mesh = nullptr;
  if (!find_mesh(*module, mesh, diags)) all += testing::messages(diags);
  return all;
}

TEST_CASE("arguments are those of main, or of the only public function") {
  CHECK(arguments_text("func.func private @f(%arg0: tensor<f32>)\n"
                       "func.func @g(%arg0: tensor<2xf32>) {}\n"
                       "func.func public @main(%a: tensor<3xf32>, %b: "
                       "tensor<4xi1, #enc>) -> tensor<f32> {\n"
                       "  %0 = x.y \"func.func public @main(\" }") ==
        "a f32[3]\nb bool[4]\n");
  CHECK(arguments_text("func.func @g(%arg0: tensor<2xbf16>)") ==
        "arg0 bf16[2]\n");
  CHECK(arguments_text("func.func @f()\nfunc.func @g()") ==
        "SP002 m:1:1 the module has 2 public functions, none of which is "
        "`@main`");
  CHECK(arguments_text("// func.func @f()") ==
        "SP002 m:1:1 the module has no public function");
  CHECK(arguments_text("\"func.func\"() <{sym_name = \"main\"}>") ==
        "SP002 m:1:1 the module is printed in generic form");
}

TEST_CASE("names come from attributes, then from locations") {
  CHECK(arguments_text(
            "#loc2 = loc(\"x['b']\"(#loc9))\n#loc3 = loc(\"f.py\":1:2)\n"
            "func.func @main("
            "%0: tensor<f32> {jax.arg_info = \"a\", x} loc(\"no\"), "
            "%1: tensor<f32> loc(#loc2), %2: tensor<f32> loc(#loc3), "
            "%3: tensor<f32> {\"q\" = dense<[1, 2]> : tensor<2xi32>} "
            "loc(\"f.py\":3:4), %4: tensor<f32> loc(\"n\"(\"f.py\":1:1)))") ==
        "a f32[]\nx/b f32[]\n2 f32[]\n3 f32[]\nn f32[]\n");
}

TEST_CASE("paths of JAX become names, and other names stay") {
  struct Case {
    std::string text;
    std::string name;
  };
  const Case kCases[] = {
      {"params['layers'][0]['kernel']", "params/layers/0/kernel"},
      {"state.params['a.b']", "state/params/a.b"},
      {"opt[<flat index 3>].mu['x']", "opt/3/mu/x"},
      {"model.layers.0.weight", "model.layers.0.weight"},
      {"x", "x"},
      {"x[", "x["},
      {"x['a'", "x['a'"},
      {"x['']", "x['']"},
      {"x[0]y", "x[0]y"},
      {"['a']", "['a']"},
      {"x[']", "x[']"},
  };
  for (const Case& c : kCases) {
    CAPTURE(c.text);
    CHECK(name_of_location(c.text) == c.name);
    CHECK(name_of_location(c.name) == c.name);
  }
}

TEST_CASE("types that we do not have, and texts that break off, are refused") {
  struct Case {
    std::string arguments;
    std::string expected;
  };
  const Case kCases[] = {
      {"%a: tensor<?x2xf32>)", "SP002 m:1:25 the shape `?x2xf32` is dynamic"},
      {"%a: tensor<*xf32>)", "SP002 m:1:25 the shape `*xf32` is dynamic"},
      {"%a: tensor<2xf8E3M4>)",
       "SP005 m:1:25 `f8E3M4` is not a supported element type"},
      {"%a: tensor<99999999999999999999xf32>)",
       "SP002 m:1:25 `99999999999999999999xf32` is not a shape"},
      {"%a: !stablehlo.token, %b: tensor<f32>)",
       "SP002 m:1:18 an argument is not a tensor"},
      {"%a tensor<f32>)", "SP002 m:1:17 an argument has no type"},
      {"tensor<f32>)", "SP002 m:1:14 expected an argument here"},
      {"%a: tensor<f32", "SP002 m:1:25 a type is not closed"},
      {"%a: tensor<f32>", "SP002 m:1:29 expected `,` or `)` here"},
      {"%a: tensor<f32> {a = [1", "SP002 m:1:31 an attribute is not closed"},
      {"%a: tensor<f32> {)", "SP002 m:1:31 expected an attribute here"},
      {"%a: tensor<f32> loc(\"x\"", "SP002 m:1:33 a location is not closed"},
      {"%a: tensor<f32> {sdy.sharding = #sdy.sharding<@n, []>})",
       "a f32[]\nSP002 m:1:46 the module has no mesh `n`"},
      {"%a: tensor<2xf32> {sdy.sharding = #sdy.sharding<@m, []>})",
       "SP002 m:1:48 the sharding of `a` has 0 dimensions, but its type has 1"},
      {"%a: tensor<2xf32> {mhlo.sharding = \"{devices=[1,1]<=[1]}\"})",
       "SP002 m:1:49 the sharding of `a` has 2 dimensions, but its type has 1"},
      {"%a: tensor<2xf32> {mhlo.sharding = x})",
       "SP002 m:1:49 `mhlo.sharding` is not a string"},
      {"%a: tensor<f32> {sdy.sharding = #sdy.sharding<mesh<[\"a\"=2]>, [], "
       "replicated={\"a\":(1)2}>}, %b: tensor<f32>)",
       "SP014 m:1:91 only part of axis `a` is used"},
  };
  for (const Case& c : kCases) {
    CAPTURE(c.arguments);
    CHECK(arguments_text("func.func @f" + ("(" + c.arguments)) == c.expected);
  }
}

TEST_CASE("all shardings are on one mesh of several devices") {
  const std::string meshes =
      "sdy.mesh @a = <[\"x\"=2]>\nsdy.mesh @b = <[\"x\"=2]>\n"
      "sdy.mesh @c = <[\"y\"=2]>\nsdy.mesh @d = <[], device_ids=[0]>\n";
  const auto two = [&](const std::string& first, const std::string& second) {
    return arguments_text(
        meshes +
        "func.func @main(%p: tensor<4xf32> {sdy.sharding = "
        "#sdy.sharding<@" +
        first + ">}, %q: tensor<4xf32> {sdy.sharding = #sdy.sharding<@" +
        second + ">})");
  };
  const std::string names = "p f32[4]\nq f32[4]\n";
  CHECK(two("a, [{\"x\"}]", "b, [{}]") == names);
  CHECK(two("a, [{\"x\"}]", "c, [{}]") ==
        names + "SP014 m:5:114 arguments are on different meshes");
  CHECK(two("a, [{\"y\"}]", "d, [{}]") ==
        names +
            "SP002 m:5:70 the mesh has no axis `y`\n"
            "SP014 m:5:114 `q` is on one device only");
  CHECK(arguments_text("sdy.mesh @a = <[\"x\"=2]>\nsdy.mesh @a = "
                       "<[\"x\"=2]>\nfunc.func @f()") ==
        "SP003 m:2:10 mesh `a` is given twice");
}

TEST_CASE("arguments that JAX lowered have their names, shapes and dtypes") {
  const auto record =
      testing::read_json(testing::data_path("stablehlo/arguments.json"));
  const auto host = make_real_host();
  for (const char* file : {"shardy.mlir", "gspmd.mlir", "exported.mlir"}) {
    CAPTURE(file);
    Diagnostics diags;
    const auto manifest = load_manifest(
        testing::data_path(std::string("stablehlo/") + file).string(), *host,
        diags);
    REQUIRE_MESSAGE(manifest, testing::messages(diags));
    CHECK(manifest->format == "stablehlo");
    REQUIRE(manifest->size() == record.size());
    std::map<std::string, TensorType> types;
    for (size_t i = 0; i < manifest->size(); ++i) {
      types[std::string(manifest->name(i))] = manifest->type(i);
    }
    for (const auto& row : record) {
      CAPTURE(row.dump());
      const TensorType& type = types.at(row.at("name").get<std::string>());
      CHECK(type.shape == row.at("shape").get<Shape>());
      CHECK(type.dtype == find_dtype(row.at("dtype").get<std::string>()));
    }
    CHECK(manifest->mesh.size() == (std::string(file) == "gspmd.mlir" ? 0 : 3));
  }
}

TEST_CASE("names and sizes that no manifest can have are refused") {
  const auto read = [](const std::string& text) {
    testing::MemoryHost host;
    Diagnostics diags;
    const auto manifest = kStableHlo.read(
        {"m", std::make_shared<SourceFile>("m", text)}, host, diags);
    return manifest ? "read" : testing::messages(diags);
  };
  CHECK(read("func.func @main(%a: tensor<f32> loc(\"\"))") ==
        "SP002 m:1:17 an argument has an empty name");
  CHECK(read("func.func @main(%a: tensor<f32> loc(\"\\FF\"))") ==
        "SP002 m:1:17 an argument name is not UTF-8");
  CHECK(read("func.func @main(%a: tensor<9223372036854775807x2xf32>)") ==
        "SP002 m:1:17 `a` exceeds 2^63 bytes");
}

// The specs of shardings on the axes a, b, .. of the sizes found.
std::string specs_text(const std::vector<std::string>& texts) {
  Diagnostics diags;
  const SourceFile source("m", "sharding");
  std::vector<HloSharding> shardings;
  for (const std::string& text : texts) {
    const auto sharding = parse_hlo_sharding(text, {&source, 0, 8}, diags);
    if (!sharding) return testing::messages(diags);
    shardings.push_back(*sharding);
  }
  const auto sizes = axis_sizes_of(shardings, diags);
  if (!sizes) return testing::messages(diags);
  std::vector<Axis> mesh;
  std::string all;
  for (const int64_t size : *sizes) {
    mesh.push_back(
        {std::string(1, static_cast<char>('a' + mesh.size())), size});
    all += mesh.back().name + "=" + std::to_string(size) + " ";
  }
  for (const HloSharding& sharding : shardings) {
    all += spec_text(spec_of(sharding, mesh));
  }
  return all;
}

TEST_CASE("tiles become the axes that they are made of") {
  struct Case {
    std::vector<std::string> texts;
    std::string expected;
  };
  const Case kCases[] = {
      {{"{replicated}"}, "P()"},
      {{"{devices=[4,2]<=[8]}"}, "a=4 b=2 P(a, b)"},
      {{"{devices=[2,4]<=[4,2]T(1,0)}"}, "a=4 b=2 P(b, a)"},
      {{"{devices=[2,4]<=[4,2]T(1,0) last_tile_dim_replicate}"},
       "a=4 b=2 P(b)"},
      {{"{devices=[2,4]<=[8] last_tile_dims={replicated}}"}, "a=2 b=4 P(a)"},
      {{"{devices=[8,1]<=[8] metadata={op_name=\"x}\"}}"}, "a=8 P(a, None)"},
      {{"{devices=[8]<=[8]}", "{devices=[2,4]<=[8]}"},
       "a=2 b=4 P((a, b))P(a, b)"},
      {{"{devices=[2,2]0,1,2,3}"}, "a=2 b=2 P(a, b)"},
      {{"{devices=[2,2]0,2,1,3}"},
       "SP014 m:1:1 devices are listed in a custom order"},
      {{"{maximal device=0}"}, "SP014 m:1:1 a tensor is on one device only"},
      {{"{manual}"},
       "SP014 m:1:1 this sharding does not say where values are placed"},
      {{"{{replicated}}"}, "SP014 m:1:1 one tensor has a tuple of shardings"},
      {{"{devices=[2,4]<=[8] last_tile_dims={manual}}"},
       "SP014 m:1:1 `last_tile_dims` must be `{replicated}`"},
      {{"{devices=[4]<=[8]}"},
       "SP002 m:1:1 a sharding's tiles and devices disagree"},
      {{"{devices=[4,2]<=[4,2]T(1,1)}"},
       "SP002 m:1:1 a sharding's tiles and devices disagree"},
      {{"{devices=[0]<=[0]}"},
       "SP002 m:1:1 a sharding's tiles and devices disagree"},
      {{"{devices=[2,3]<=[3,2]T(1,0)}", "{devices=[2,3]<=[6]}"},
       "SP014 m:1:1 no mesh fits both this sharding and the earlier ones"},
      {{"{devices=[2,3]<=[3,2]}"},
       "SP014 m:1:1 tiles do not correspond to mesh axes"},
      {{"{devices=[4]<=[4]}", "{devices=[8]<=[8]}"},
       "SP014 m:1:1 shardings cover different numbers of devices"},
      {{"devices=[4]<=[4]"}, "SP002 m:1:1 this is not an XLA sharding"},
      {{"{devices=[4]<=[4]"}, "SP002 m:1:1 this is not an XLA sharding"},
      {{"{devices=[4,]<=[4]}"}, "a=4 P(a)"},
      {{"\b\3"}, "SP002 m:1:1 this is not an XLA sharding"},
  };
  for (const Case& c : kCases) {
    CAPTURE(c.texts.front());
    CHECK(specs_text(c.texts) == c.expected);
  }
}

std::string list(const std::vector<int64_t>& numbers) {
  std::string text;
  for (const int64_t number : numbers) {
    text += (text.empty() ? "" : ",") + std::to_string(number);
  }
  return text;
}

// The sharding of a spec, with every axis of the mesh a dimension of devices.
std::string hlo_of(const PartitionSpec& spec, size_t rank, const Mesh& mesh) {
  std::vector<int64_t> tiles(rank, 1);
  std::vector<int64_t> order;
  std::vector<int64_t> rest;
  for (size_t dim = 0; dim < spec.dims.size(); ++dim) {
    for (const AxisName& axis : spec.dims[dim]) {
      order.push_back(static_cast<int64_t>(*mesh.find(axis)));
      tiles[dim] *= mesh.size_of(axis);
    }
  }
  std::vector<int64_t> sizes;
  int64_t replicas = 1;
  for (size_t i = 0; i < mesh.axes().size(); ++i) {
    sizes.push_back(mesh.axes()[i].size);
    const auto number = static_cast<int64_t>(i);
    if (std::find(order.begin(), order.end(), number) == order.end()) {
      rest.push_back(number);
      replicas *= mesh.axes()[i].size;
    }
  }
  order.insert(order.end(), rest.begin(), rest.end());
  tiles.push_back(replicas);
  return "{devices=[" + list(tiles) + "]<=[" + list(sizes) + "]T(" +
         list(order) + ") last_tile_dim_replicate}";
}

TEST_CASE("the sharding of a spec has the spec's slices on every device") {
  CHECK(holds("specs survive", [] {
    const Mesh mesh = testing::draw_mesh();
    constexpr size_t kRank = 3;
    const PartitionSpec spec = testing::draw_legal_spec(mesh, kRank);
    Diagnostics diags;
    std::vector<HloSharding> shardings;
    shardings.push_back(
        *parse_hlo_sharding(hlo_of(spec, kRank, mesh), {}, diags));
    const auto sizes = axis_sizes_of(shardings, diags);
    ENSURE(sizes.has_value());
    std::vector<Axis> axes;
    for (const int64_t size : *sizes) {
      axes.push_back({"x" + std::to_string(axes.size()), size});
    }
    PartitionSpec found = spec_of(shardings.front(), axes);
    if (axes.empty()) axes.push_back({"x", 1});
    const Mesh again(axes);
    ENSURE(again.devices() == mesh.devices());
    found.dims.resize(kRank);
    for (size_t dim = 0; dim < kRank; ++dim) {
      const AxisNames wanted =
          dim < spec.dims.size() ? spec.dims[dim] : AxisNames();
      for (int64_t device = 0; device < mesh.devices(); ++device) {
        ENSURE(shard_index(mesh, wanted, mesh.coordinates(device)) ==
               shard_index(again, found.dims[dim], again.coordinates(device)));
      }
    }
  }));
}

std::string sharding_text(const std::string& text) {
  const SourceFile source("m", text);
  MlirCursor cursor(source);
  Diagnostics diags;
  const auto sharding = parse_shardy_sharding(cursor, diags);
  if (!sharding) return testing::messages(diags);
  CHECK(cursor.done());
  CHECK(sharding->dim_where.size() == sharding->spec.dims.size());
  std::string all = sharding->mesh_name + " " + spec_text(sharding->spec);
  for (const AxisName& axis : sharding->replicated) all += " R" + axis;
  if (sharding->open_after_axes) all += " open";
  if (sharding->priorities) all += " priorities";
  if (sharding->inlined) {
    for (const AxisRequest& axis : sharding->inlined->axes) {
      all += " " + axis.name + "=" + std::to_string(axis.size);
    }
  }
  return all;
}

TEST_CASE("shardings are read as Shardy prints them") {
  struct Case {
    std::string text;
    std::string expected;
  };
  const Case kCases[] = {
      {"#sdy.sharding<@mesh, [{\"a\"}, {\"b\", \"c\"}]>", "mesh P(a, (b, c))"},
      {"#sdy.sharding<@\"my mesh\", []>", "my mesh P()"},
      {"#sdy.sharding<@m, [{}, {\"b\", ?}], replicated={\"a\", \"c\"}>",
       "m P(None, b) Ra Rc open"},
      {"#sdy.sharding<@m, [{?}, {\"b\"}p1]>", "m P(?, b) priorities"},
      {"#sdy.sharding<mesh<[\"x\"=2, \"y\"=4]>, [{\"x\"}]>", " P(x) x=2 y=4"},
      {"#sdy.sharding<@m, [{\"a\":(1)2}]>",
       "SP014 m:1:21 only part of axis `a` is used"},
      {"#sdy.sharding<@m, [{}], unreduced={\"a\"}>",
       "SP014 m:1:25 an argument is unreduced"},
      {"#sdy.sharding<@m, [{}], other={\"a\"}>",
       "SP002 m:1:25 `other` is not part of a sharding"},
      {"#sdy.sharding_per_value<[<@m, [{}]>]>",
       "SP002 m:1:1 this is not a sharding of one tensor"},
      {"#sdy.sharding<[{}]>", "SP002 m:1:15 expected a mesh here"},
      {"#sdy.sharding<@m [{}]>", "SP002 m:1:18 expected `,` here"},
      {"#sdy.sharding<@m, [{a}]>", "SP002 m:1:21 expected an axis name here"},
      {"#sdy.sharding<@m, [{\"a\" \"b\"}]>", "SP002 m:1:25 expected `,` here"},
      {"#sdy.sharding<@m, [{\"a\"}", "SP002 m:1:25 expected `,` here"},
      {"#sdy.sharding<mesh<[\"x\"]>, []>",
       "SP002 m:1:24 expected an axis here"},
      {"#sdy.sharding<mesh<[\"x\"=a]>, []>",
       "SP002 m:1:25 expected an axis size here"},
  };
  for (const Case& c : kCases) {
    CAPTURE(c.text);
    CHECK(sharding_text(c.text) == c.expected);
  }
}

TEST_CASE("meshes have axes, and may list their devices") {
  const auto mesh = [](const std::string& text) {
    const SourceFile source("m", text);
    MlirCursor cursor(source);
    Diagnostics diags;
    const auto read = parse_shardy_mesh(cursor, diags);
    if (!read) return testing::messages(diags);
    std::string all = read->has_device_ids ? "ids" : "";
    for (const AxisRequest& axis : read->axes) {
      all += " " + axis.name + "=" + std::to_string(axis.size);
    }
    return all;
  };
  CHECK(mesh("<[\"a\"=2, \"b\"=1]>") == " a=2 b=1");
  CHECK(mesh("<[], device_ids=[0]>") == "ids");
  CHECK(mesh("<[\"a\"=2], device_ids=[1, 0]>") == "ids a=2");
  CHECK(mesh("[\"a\"=2]") == "SP002 m:1:1 this is not a mesh");
  CHECK(mesh("<[\"a\"=2 \"b\"=2]>") == "SP002 m:1:9 expected `,` here");
  CHECK(mesh("<[\"a\"=2], ids>") == "SP002 m:1:11 expected `>` here");
  CHECK(mesh("<[\"a\"=2]") == "SP002 m:1:9 expected `>` here");
}

std::string shardings_text(const std::string& text, AxisNames axes = {}) {
  Diagnostics diags;
  RuleSet rules;
  const bool good = kShardy.read(std::make_shared<SourceFile>("r", text),
                                 {std::nullopt, axes}, rules, diags);
  std::string all = good ? "" : "refused\n";
  for (const Rule& rule : rules.rules) {
    all += rule.pattern + " -> " + spec_text(rule.spec) + "\n";
  }
  if (rules.mesh) {
    for (const AxisRequest& axis : *rules.mesh) {
      all += axis.name + "=" + std::to_string(axis.size) + " ";
    }
  }
  return all + testing::messages(diags);
}

TEST_CASE("what JAX lowered has the specs that were passed to it") {
  const auto record =
      testing::read_json(testing::data_path("stablehlo/arguments.json"));
  const auto host = make_real_host();
  for (const char* file : {"shardy.mlir", "gspmd.mlir", "exported.mlir"}) {
    CAPTURE(file);
    Diagnostics diags;
    const std::vector<std::string> paths = {
        testing::data_path(std::string("stablehlo/") + file).string()};
    const RuleReading reading = {std::nullopt, {"dp", "fsdp", "tp"}};
    const auto rules = load_rules(paths, std::nullopt, reading, *host, diags);
    REQUIRE_MESSAGE(rules, testing::messages(diags));
    CHECK(make_mesh(*rules->mesh, std::nullopt, {}, diags) ==
          testing::mesh("dp=2,fsdp=2,tp=2"));
    for (const auto& row : record) {
      CAPTURE(row.dump());
      Manifest one;
      REQUIRE(one.add(row.at("name").get<std::string>(),
                      {DType::F32, row.at("shape").get<Shape>()}, {}));
      const auto spec = testing::spec_by_rules(*rules, one, 0);
      // JAX says nothing of scalars.
      if (row.at("shape").empty()) {
        CHECK_FALSE(spec);
      } else {
        CHECK(spec ==
              testing::without_trailing(testing::spec_of(row.at("spec"))));
      }
    }
  }
}

TEST_CASE("meshes and shardings in attributes of XLA are read as Shardy's") {
  const std::string meshes =
      "module @jit_f attributes {mhlo.frontend_attributes = {xla.sdy.meshes = "
      "\"{m = #sdy.mesh<[\\\\\\22a\\\\\\22=2]>, "
      "n = #sdy.mesh<[\\22b\\22=4]>}\"}} {\n";
  const auto argument = [&](const std::string& sharding) {
    return shardings_text(
        meshes +
        "func.func public @main(%arg0: tensor<4x2xf32> "
        "{mhlo.frontend_attributes = {xla.sdy.sharding = \"" +
        sharding + "\"}, mhlo.sharding = \"{replicated}\"} loc(\"w\")) {}");
  };
  CHECK(argument("#sdy.sharding<@m, [{\\\\\\22a\\\\\\22}, {}]>") ==
        "^w$ -> P(a, None)\na=2 ");
  CHECK(argument("#sdy.sharding<@n, [{}, {\\22b\\22}]>") ==
        "^w$ -> P(None, b)\nb=4 ");
  CHECK(argument("#sdy.sharding<@o, [{}, {}]>") ==
        "refused\nSP002 r:2:95 the module has no mesh `o`");
  CHECK(argument("#sdy.sharding<@m, [{\\22a\\22:(1)2}, {}]>") ==
        "refused\nSP014 r:2:95 only part of axis `a` is used");
}

TEST_CASE("a mesh may be written with the name of its attribute") {
  CHECK(shardings_text("sdy.mesh @m = #sdy.mesh<[\"a\"=2]>\n"
                       "func.func @f(%w: tensor<4xf32> {sdy.sharding = "
                       "#sdy.sharding<@m, [{\"a\"}]>})") ==
        "^w$ -> P(a)\na=2 ");
}

TEST_CASE("other forms of a module are called what they are") {
  for (const char* text : {"HloModule jit_f, entry_computation_layout={}\n",
                           "ML\xEFR\x0DStableHLO_v1.0\n"}) {
    CAPTURE(text);
    CHECK(looks_like_stablehlo(text));
    CHECK(shardings_text(text).find("which is not supported") !=
          std::string::npos);
  }
}

constexpr const char* kMesh = "sdy.mesh @m = <[\"a\"=2, \"b\"=2]>\n";

TEST_CASE("each argument with a sharding has a rule") {
  CHECK(shardings_text(std::string(kMesh) +
                       "func.func @main(%p: tensor<4x4xf32> {sdy.sharding = "
                       "#sdy.sharding<@m, [{\"b\"}, {?}]>} loc(\"x.0\"), %q: "
                       "tensor<4xf32>)") == "^x\\.0$ -> P(b, ?)\na=2 b=2 ");
}

TEST_CASE("what a spec does not keep is noted") {
  CHECK(shardings_text("sdy.mesh @m = <[\"a\"=2], device_ids=[1, 0]>\n"
                       "func.func @main(%p: tensor<4xf32> {sdy.sharding = "
                       "#sdy.sharding<@m, [{\"a\", ?}p1]>})") ==
        "^p$ -> P(a)\na=2 "
        "SP014 note r:1:15 the device order is dropped\n"
        "SP014 note r:2:51 open dimensions are read as closed\n"
        "SP014 note r:2:51 sharding priorities are dropped");
}

TEST_CASE("axes of mhlo.sharding are named on the command line") {
  const std::string module =
      "module @m attributes {mhlo.num_partitions = 4 : i32} {\n"
      "func.func @main(%p: tensor<4x4xf32> {mhlo.sharding = "
      "\"{devices=[2,2]<=[2,2]T(1,0)}\"}, %q: tensor<f32> {mhlo.sharding = "
      "\"{replicated}\"})}";
  CHECK(shardings_text(module, {"x", "y"}) ==
        "^p$ -> P(y, x)\n^q$ -> P()\nx=2 y=2 ");
  CHECK(shardings_text(module) ==
        "refused\nSP002 r:2:54 `mhlo.sharding` has no axis names");
  CHECK(shardings_text(module, {"x"}) ==
        "refused\nSP002 r:2:54 1 name is given for 2 axes");
  CHECK(shardings_text("module attributes {mhlo.num_partitions = 8 : i32} {" +
                           module.substr(module.find('\n')),
                       {"x", "y"}) ==
        "refused\nSP002 r:2:54 a sharding does not cover all devices");
}

TEST_CASE("axes of mhlo.sharding may be those of the mesh that is asked for") {
  const std::string module =
      "module @m attributes {mhlo.num_partitions = 8 : i32} {\n"
      "func.func @main(%p: tensor<8x4xf32> {mhlo.sharding = "
      "\"{devices=[4,2]<=[8]}\"})}";
  CHECK(shardings_text(module, {"x=4", "y=2"}) == "^p$ -> P(x, y)\nx=4 y=2 ");
  CHECK(shardings_text(module, {"a=2", "b=2", "z=1", "y=2"}) ==
        "^p$ -> P((a, b), y)\na=2 b=2 y=2 ");
  CHECK(shardings_text(module, {"x=-1", "y=2"}) == "^p$ -> P(x, y)\nx=4 y=2 ");
  for (const AxisNames& other :
       {AxisNames{"x=2", "y=4"}, AxisNames{"x=8"}, AxisNames{"x=4", "y=4"}}) {
    CHECK(shardings_text(module, other) ==
          "refused\nSP002 r:2:54 these shardings do not match the mesh axes");
  }
}

TEST_CASE("arguments on a mesh without axes are replicated") {
  const std::string meshes =
      "sdy.mesh @m = <[\"a\"=2]>\nsdy.mesh @empty_mesh = <[]>\n";
  CHECK(shardings_text(
            meshes +
            "func.func @main(%n: tensor<i32> {sdy.sharding = "
            "#sdy.sharding<@empty_mesh, []>}, %w: tensor<4xf32> {sdy.sharding "
            "= #sdy.sharding<@m, [{\"a\"}]>}, %k: tensor<2xui32> "
            "{sdy.sharding = #sdy.sharding<@empty_mesh, [{}]>})") ==
        "^n$ -> P()\n^w$ -> P(a)\n^k$ -> P(None)\na=2 ");
  CHECK(shardings_text(meshes +
                       "func.func @main(%n: tensor<i32> {sdy.sharding = "
                       "#sdy.sharding<@empty_mesh, []>})") ==
        "refused\nSP014 r:3:49 no argument is on a mesh with axes");
}

TEST_CASE("a module without shardings, or with both kinds, is refused") {
  CHECK(shardings_text("func.func @main(%p: tensor<4xf32>)") ==
        "refused\nSP006 r:1:1 no argument of the module has a sharding");
  CHECK(
      shardings_text(std::string(kMesh) +
                     "func.func @main(%p: tensor<f32> {sdy.sharding = "
                     "#sdy.sharding<@m, []>}, %q: tensor<f32> {mhlo.sharding = "
                     "\"{replicated}\"})") ==
      "refused\nSP014 r:1:1 some arguments have `sdy.sharding`, others "
      "`mhlo.sharding`");
}

using testing::PlannedModel;

std::optional<std::string> written_shardings(const PlannedModel& model,
                                             Diagnostics& diags) {
  return kShardyTarget.write({model.manifest, model.plan}, diags);
}

TEST_CASE("a module takes the parameters with their shardings and names") {
  PlannedModel model = testing::planned(
      {{"a\"b", "bf16[8, 4]"}, {"open", "f32[8]"}, {"step", "i32[]"}},
      {"(tp, dp)", "", ""}, "dp=2,tp=2");
  model.plan.placements[1].requested =
      PartitionSpec{{AxisNames{std::string(kUnconstrained)}}};
  Diagnostics diags;
  const auto text = written_shardings(model, diags);
  REQUIRE(text);
  CHECK(*text == R"(module @shardplan {
  sdy.mesh @mesh = <["dp"=2, "tp"=2]>
  func.func public @main(
      %arg0: tensor<8x4xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"tp", "dp"}, {}]>} loc("a\22b"),
      %arg1: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}]>} loc("open"),
      %arg2: tensor<i32> {sdy.sharding = #sdy.sharding<@mesh, []>} loc("step")) {
    return
  }
}
)");
}

TEST_CASE("what a module cannot say is refused with the reason") {
  PlannedModel model = testing::planned(
      {{"q", "q4_0[8, 32]"}, {"p['a']", "f32[8]"}, {"odd", "f32[7]"}},
      {"", "", "tp"}, "tp=2");
  model.plan.on_indivisible = OnIndivisible::Chunk;
  Diagnostics diags;
  CHECK_FALSE(written_shardings(model, diags));
  REQUIRE(diags.all().size() == 3);
  CHECK(testing::message(diags.all()[0]) ==
        "SP014 `q` cannot be an argument in Shardy");
  CHECK(diags.all()[0].facts[0] == "MLIR has no element type for q4_0");
  CHECK(diags.all()[1].facts[0] ==
        "its name would be read as the JAX path `p/a`");
  CHECK(diags.all()[2].facts[0] ==
        "dimension 0 of size 7 is split into uneven chunks; Shardy would pad "
        "them");
}

TEST_CASE("a module is read back as model, mesh and rules") {
  CHECK(holds("names, types and specs survive", [] {
    PlannedModel model = testing::any_planned_model();
    Diagnostics diags;
    const auto text = written_shardings(model, diags);
    ENSURE(text.has_value() != diags.has_errors());
    if (!text || model.manifest.size() == 0) return;
    const RuleSet rules = testing::read_rules(kShardy, *text, diags);
    ENSURE(make_mesh(*rules.mesh, std::nullopt, {}, diags) == model.plan.mesh);
    testing::MemoryHost host;
    const auto again = kStableHlo.read(
        {"m", std::make_shared<SourceFile>("m", *text)}, host, diags);
    ENSURE(again.has_value());
    ENSURE(again->size() == model.manifest.size());
    ENSURE(again->mesh.size() == model.plan.mesh.axes().size());
    for (size_t i = 0; i < model.manifest.size(); ++i) {
      ENSURE(again->name(i) == model.manifest.name(i));
      ENSURE(again->type(i) == model.manifest.type(i));
      ENSURE(testing::spec_by_rules(rules, model.manifest, i) ==
             testing::without_trailing(model.plan.of(i).spec));
    }
  }));
}

}  // namespace

}  // namespace shardplan
