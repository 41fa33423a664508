// SPDX-License-Identifier: Apache-2.0
#include "io/stablehlo_text.h"

#include <string>

#include <doctest/doctest.h>

#include "tests/support/messages.h"

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
      {"%a: tensor<?x2xf32>)", "SP002 m:1:25 the shape `?x2xf32` is not known"},
      {"%a: tensor<*xf32>)", "SP002 m:1:25 the shape `*xf32` is not known"},
      {"%a: tensor<2xf8E3M4>)",
       "SP005 m:1:25 `f8E3M4` is not a type of elements that is read"},
      {"%a: tensor<99999999999999999999xf32>)",
       "SP002 m:1:25 `99999999999999999999xf32` is no shape"},
      {"%a: !stablehlo.token, %b: tensor<f32>)",
       "SP002 m:1:18 an argument is no tensor"},
      {"%a tensor<f32>)", "SP002 m:1:17 an argument has no type"},
      {"tensor<f32>)", "SP002 m:1:14 an argument is missing here"},
      {"%a: tensor<f32", "SP002 m:1:25 a type does not end"},
      {"%a: tensor<f32>", "SP002 m:1:29 `,` or `)` is missing here"},
      {"%a: tensor<f32> {a = [1", "SP002 m:1:31 an attribute does not end"},
      {"%a: tensor<f32> {)", "SP002 m:1:31 an attribute is missing here"},
      {"%a: tensor<f32> loc(\"x\"", "SP002 m:1:33 a location does not end"},
      {"%a: tensor<f32> {sdy.sharding = #sdy.sharding<@n, []>})",
       "a f32[]\nSP002 m:1:46 the module has no mesh `n`"},
      {"%a: tensor<2xf32> {sdy.sharding = #sdy.sharding<@m, []>})",
       "SP002 m:1:48 the sharding of `a` has 0 dimensions, its type 1"},
      {"%a: tensor<2xf32> {mhlo.sharding = \"{devices=[1,1]<=[1]}\"})",
       "SP002 m:1:49 the sharding of `a` has 2 dimensions, its type 1"},
      {"%a: tensor<2xf32> {mhlo.sharding = x})",
       "SP002 m:1:49 `mhlo.sharding` is no string"},
      {"%a: tensor<f32> {sdy.sharding = #sdy.sharding<mesh<[\"a\"=2]>, [], "
       "replicated={\"a\":(1)2}>}, %b: tensor<f32>)",
       "SP014 m:1:91 a part of axis `a` is used"},
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
            "SP014 m:5:114 `q` lies on one device only");
  CHECK(arguments_text("sdy.mesh @a = <[\"x\"=2]>\nsdy.mesh @a = "
                       "<[\"x\"=2]>\nfunc.func @f()") ==
        "SP003 m:2:10 mesh `a` is given twice");
}

}  // namespace
}  // namespace shardplan
