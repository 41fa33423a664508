// SPDX-License-Identifier: Apache-2.0
#include "io/graph_file.h"

#include <memory>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "io/load.h"
#include "io/shipped.h"
#include "tests/support/built_graph.h"
#include "tests/support/memory_host.h"

namespace shardplan {
namespace {

TEST_CASE("graph files are told by their content") {
  CHECK(looks_like_graph("# mine\ngraph: mlp\ninputs: {}\nops: []\n"));
  CHECK(looks_like_graph("graph: mlp\nops:\n"));
  CHECK(looks_like_graph(R"({"graph": "mlp", "ops": []})"));
  CHECK(looks_like_graph("\n{\n \"graph\" : \"mlp\",\n \"ops\" :[]}"));
  CHECK_FALSE(looks_like_graph("graph: mlp\n"));
  CHECK_FALSE(looks_like_graph("ops: []\n"));
  CHECK_FALSE(looks_like_graph("graph: {shape: [2]}\nops: {shape: [3]}\n"));
  CHECK_FALSE(looks_like_graph("graph:\n  w: {shape: [2]}\nops: {}\n"));
  CHECK_FALSE(looks_like_graph("  graph: mlp\n  ops: []\n"));
  CHECK_FALSE(looks_like_graph(R"({"graph": {"shape": [2]}, "ops": []})"));
  CHECK_FALSE(looks_like_graph(R"({"graph": "x", "ops": {"shape": [2]}})"));
  CHECK_FALSE(looks_like_graph("{\"graph\""));
  CHECK_FALSE(looks_like_graph(""));
}

TEST_CASE("a file and a shipped graph are loaded alike") {
  testing::MemoryHost host;
  for (const ShippedFile& file : shipped_files(kGraphFolder)) {
    const std::string name = shipped_name(file);
    CAPTURE(name);
    host.files[name + ".yaml"] = std::string(file.text);
    CHECK(looks_like_graph(file.text));
    Diagnostics diags;
    const auto shipped = load_graph("@" + name, {}, host, diags);
    const auto own = load_graph(name + ".yaml", {}, host, diags);
    CHECK(testing::messages(diags).empty());
    REQUIRE(shipped);
    REQUIRE(own);
    CHECK(shipped->name == name);
    CHECK(own->ops.size() == shipped->ops.size());
    CHECK(own->parameters.size() == shipped->parameters.size());
  }
  Diagnostics diags;
  CHECK_FALSE(load_graph("@mpl", {}, host, diags));
  CHECK_FALSE(load_graph("none.yaml", {}, host, diags));
  CHECK(testing::messages(diags) ==
        "SP001 no graph named `@mpl` is shipped\n"
        "SP001 cannot read `none.yaml`: no such file or directory");
}

TEST_CASE("the graphs that were promised are shipped, and fit") {
  std::set<std::string> names;
  for (const std::string& name : shipped_names(kGraphFolder)) {
    CAPTURE(name);
    names.insert(name);
    const auto built = testing::shipped_graph(name);
    REQUIRE_MESSAGE(built->graph, built->messages);
    CHECK(built->messages.empty());
    CHECK(built->graph->outputs.size() == 1);
  }
  for (const char* name :
       {"mlp", "attention", "tp_dense_gather", "tp_dense_scatter",
        "tp_dense_local", "tp_async_dense_gather", "tp_async_dense_scatter",
        "parallel_linear", "moe"}) {
    CHECK_MESSAGE(names.count(name) == 1, name);
  }
}

TEST_CASE("parameters of a graph are a model") {
  Diagnostics diags;
  const auto graph = read_graph(std::make_shared<SourceFile>("g", R"(graph: g
parameters:
  w: {name: a/w, shape: [2, 3], axes: [embed, null], dtype: bf16}
  b: [3]
ops: []
)"),
                                {}, diags);
  REQUIRE(graph);
  const auto manifest = graph_manifest(*graph, diags);
  REQUIRE(manifest);
  REQUIRE(manifest->size() == 2);
  CHECK(manifest->name(0) == "a/w");
  CHECK(type_text(manifest->type(0)) == "bf16[2, 3]");
  REQUIRE(manifest->axes(0) != nullptr);
  CHECK(*manifest->axes(0) == AxisLabels{"embed", std::nullopt});
  CHECK(manifest->axes(1) == nullptr);
  CHECK(manifest->model_name == "g");
}

TEST_CASE("a model's parameters need shapes") {
  Diagnostics diags;
  const auto graph =
      read_graph(std::make_shared<SourceFile>(
                     "g", "graph: g\nparameters: {a: , b: [2]}\nops: []\n"),
                 {}, diags);
  REQUIRE(graph);
  CHECK_FALSE(graph_manifest(*graph, diags));
  CHECK(testing::messages(diags) == "SP015 g:2:14 parameter `a` has no shape");
}

}  // namespace
}  // namespace shardplan
