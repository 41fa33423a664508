// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "base/shipped.h"
#include "io/formats.h"
#include "io/graph/graph_file.h"
#include "io/graph/graph_reader.h"
#include "io/load.h"
#include "tests/support/built_graph.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

TEST_CASE("graph files are recognised by their content") {
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

TEST_CASE("a graph file is recognised by its head, however long it is") {
  std::string parameters;
  for (int i = 0; parameters.size() < 2 * kHeadBytes; ++i) {
    parameters += std::string(i > 0 ? "," : "") + "\n  \"w" +
                  std::to_string(i) + "\": {\"shape\": [2, 2]}";
  }
  const std::string graph = "{\"graph\": \"long\", \"parameters\": {" +
                            parameters + "},\n\"ops\": []}";
  CHECK(looks_like_graph(graph));
  CHECK(looks_like_graph(graph.substr(0, kHeadBytes)));
  CHECK_FALSE(looks_like_graph("{\"graph\": {\"shape\": [2]}, " + parameters));
  // What stands behind the head tells nothing.
  CHECK_FALSE(looks_like_graph(std::string(kHeadBytes, '\n') +
                               "graph: late\nops: []\n"));

  testing::MemoryHost host;
  host.files["g.json"] = graph;
  Diagnostics diags;
  const auto manifest = load_manifest("g.json", host, diags);
  REQUIRE_MESSAGE(manifest, testing::messages(diags));
  CHECK(manifest->format == "graph");
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
        "SP001 no shipped graph named `@mpl`\n"
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

TEST_CASE("a graph file is a model, under its own name or a shipped one") {
  testing::MemoryHost host;
  host.files["g.yaml"] =
      "graph: g\nparameters: {w: [4, 2]}\n"
      "ops: [{op: relu, in: w, out: y}]\n";
  Diagnostics diags;
  const auto own = load_manifest("g.yaml", host, diags);
  REQUIRE_MESSAGE(own, testing::messages(diags));
  CHECK(own->format == "graph");
  CHECK(own->total_elements() == 8);
  const auto shipped = load_manifest("@mlp", host, diags);
  REQUIRE(shipped);
  CHECK(shipped->format == "graph");
  CHECK(shipped->title == "@mlp");
  CHECK(shipped->name(1) == "mlp/gate_proj/kernel");
}

TEST_CASE("a broken graph file is refused as a graph file") {
  testing::MemoryHost host;
  host.files["g.yaml"] = "graph: g\nparamters: {w: [4, 2]}\nops: []\n";
  host.files["twice.yaml"] =
      "graph: g\nparameters: {w: [2], v: {name: w, shape: [2]}}\nops: []\n";
  Diagnostics diags;
  CHECK_FALSE(load_manifest("g.yaml", host, diags));
  CHECK_FALSE(load_manifest("twice.yaml", host, diags));
  CHECK(testing::messages(diags) ==
        "SP004 g.yaml:2:1 unknown key `paramters`\n"
        "SP003 twice.yaml:2:22 `w` is given twice");
}

TEST_CASE("a manifest with parameters of these names stays a manifest") {
  testing::MemoryHost host;
  host.files["m.yaml"] =
      "graph: {shape: [2], dtype: f32}\nops: {shape: [3], dtype: f32}\n";
  Diagnostics diags;
  const auto manifest = load_manifest("m.yaml", host, diags);
  REQUIRE_MESSAGE(manifest, testing::messages(diags));
  CHECK(manifest->format == "native");
}

struct ReadGraph {
  Diagnostics diags;
  std::optional<GraphDescription> graph;
  std::string messages;
};

std::unique_ptr<ReadGraph> read_graph_text(const std::string& text) {
  auto result = std::make_unique<ReadGraph>();
  result->graph =
      read_graph(std::make_shared<SourceFile>("g", text), {}, result->diags);
  result->messages = testing::messages(result->diags);
  return result;
}

TEST_CASE("everything that a graph file says is read") {
  const auto result = read_graph_text(R"(graph: block
title: a block
dims: {batch: 2, embed: 8, vocab: 50}
inputs:
  x: [batch, embed]
  ids: {shape: [batch], below: vocab, spec: [[fsdp, sp]]}
parameters:
  table: {shape: [vocab, embed], init: {name: normal, stddev: 0.02, scale: 2}}
  w: {name: layers/0/w, axes: [embed, null], dtype: bf16}
  bare:
ops:
  - {op: split, in: x, out: [a, b], dim: -1, sizes: [2, embed/2]}
  - {op: scale, in: a, out: c, by: {rsqrt: 4}, axes: [BATCH, null]}
  - {op: constraint, in: c, out: d, spec: [fsdp, null]}
  - {op: gelu, in: [d], out: e, approximate: embed, exact: true}
outputs: e
)");
  REQUIRE_MESSAGE(result->graph, result->messages);
  CHECK(result->messages.empty());
  const GraphDescription& graph = *result->graph;
  CHECK(graph.name == "block");
  REQUIRE(graph.inputs.size() == 2);
  CHECK(graph.inputs[0].shape == Shape{2, 8});
  CHECK(graph.inputs[1].integers_below == 50);
  CHECK(graph.inputs[1].dtype == DType::I32);
  CHECK(graph.inputs[1].spec == PartitionSpec{{{"fsdp", "sp"}}});
  REQUIRE(graph.parameters.size() == 3);
  CHECK(graph.parameters[0].parameter == "table");
  CHECK(graph.parameters[0].initialiser.name == "normal");
  CHECK(graph.parameters[0].initialiser.stddev == 0.02);
  CHECK(graph.parameters[0].initialiser.scale == 2);
  CHECK(graph.parameters[1].parameter == "layers/0/w");
  CHECK(graph.parameters[1].axes == std::vector<std::string>{"embed", ""});
  CHECK(graph.parameters[1].dtype == DType::BF16);
  CHECK_FALSE(graph.parameters[1].shape);
  CHECK(graph.parameters[2].parameter == "bare");
  REQUIRE(graph.ops.size() == 4);
  CHECK(graph.ops[0].results == std::vector<std::string>{"a", "b"});
  CHECK(std::get<double>(graph.ops[0].attributes[0].value) == -1);
  CHECK(std::get<std::vector<int64_t>>(graph.ops[0].attributes[1].value) ==
        std::vector<int64_t>{2, 4});
  CHECK(std::get<double>(graph.ops[1].attributes[0].value) == 0.5);
  CHECK(graph.ops[1].axes == std::vector<std::string>{"BATCH", ""});
  CHECK(std::get<PartitionSpec>(graph.ops[2].attributes[0].value) ==
        PartitionSpec{{{"fsdp"}, {}}});
  CHECK(std::get<std::string>(graph.ops[3].attributes[0].value) == "embed");
  CHECK(graph.ops[3].attributes[0].size == 8);
  CHECK(std::get<double>(graph.ops[3].attributes[1].value) == 1);
  CHECK(graph.outputs == std::vector<std::string>{"e"});
}

// What is wrong with a graph that has `line` before its one operation.
std::string wrong(const std::string& lines) {
  return read_graph_text("graph: g\n" + lines +
                         "\nops: [{op: relu, in: x, out: y}]\n")
      ->messages;
}

TEST_CASE("parameters may be drawn shard by shard") {
  const auto init = [](const std::string& how) {
    Diagnostics diags;
    const auto graph = read_graph(
        std::make_shared<SourceFile>(
            "g", "graph: g\nparameters: {w: {shape: [4, 2], init: " + how +
                     "}}\nops: []\n"),
        {}, diags);
    return graph ? std::optional(graph->parameters[0].initialiser)
                 : std::nullopt;
  };
  const auto all =
      init("{name: ones, per_shard: true, split_rngs: false, mask_except: 3}");
  REQUIRE(all.has_value());
  CHECK(all->per_shard);
  CHECK_FALSE(all->split_rngs);
  CHECK(all->mask_except == 3);
  const auto plain = init("ones");
  REQUIRE(plain.has_value());
  CHECK_FALSE(plain->per_shard);
  CHECK(plain->split_rngs);
  CHECK_FALSE(init("{name: ones, split_rngs: false}").has_value());
  CHECK_FALSE(init("{name: ones, per_shard: 2}").has_value());
}

TEST_CASE("what is not a graph file is refused with its place") {
  CHECK(read_graph_text("graph: g\n")->messages ==
        "SP002 g:1:1 `ops` is missing");
  CHECK(read_graph_text("ops: []\n")->messages ==
        "SP002 g:1:1 `graph` is missing");
  CHECK(wrong("input: {}") == "SP004 g:2:1 unknown key `input`");
  CHECK(wrong("inputs: [x]") ==
        "SP002 g:2:9 `inputs` must be a map, not a list");
  CHECK(wrong("inputs: {x: 3}") ==
        "SP002 g:2:13 `x` must be a map, not an integer");
  CHECK(wrong("inputs: {x: {axes: []}}") ==
        "SP002 g:2:13 input `x` has no `shape`");
  CHECK(wrong("inputs: {x: {shape: [2], init: ones}}") ==
        "SP004 g:2:26 unknown key `init`");
  CHECK(wrong("inputs: {'x y': [2]}") ==
        "SP002 g:2:10 `x y` is not a valid value name");
  CHECK(wrong("inputs: {x: [2, y]}") ==
        "SP015 g:2:17 `y` is not a size: `y` is neither a number nor a name in "
        "`dims`");
  CHECK(wrong("inputs: {x: [9007199254740992, 9007199254740992]}") ==
        "SP002 g:2:13 the shape has more than 2^63 elements");
  CHECK(wrong("inputs: {x: {shape: [2, 3], axes: [a]}}") ==
        "SP015 g:2:35 1 label for [2, 3]");
  CHECK(wrong("inputs: {x: {shape: [2], spec: [a, b]}}") ==
        "SP015 g:2:32 P(a, b) is longer than the rank of [2]");
}

TEST_CASE("dtypes and limits of integers go together") {
  CHECK(wrong("inputs: {x: {shape: [2], dtype: i32}}") ==
        "SP002 g:2:33 integer dtypes need `below`");
  CHECK(wrong("inputs: {x: {shape: [2], dtype: f32, below: 3}}") ==
        "SP002 g:2:33 `below` applies only to integer dtypes");
  CHECK(wrong("inputs: {x: {shape: [2], dtype: i64, below: 3}}").empty());
  CHECK(wrong("inputs: {x: {shape: [2], below: 0}}") ==
        "SP002 g:2:33 `below` must be at least 1");
  CHECK(wrong("inputs: {x: {shape: [2], dtype: f33}}") ==
        "SP002 g:2:33 `f33` is not a dtype");
}

// What is wrong with one operation.
std::string wrong_op(const std::string& op) {
  return read_graph_text("graph: g\nops: [" + op + "]\n")->messages;
}

TEST_CASE("operations are maps with `op`, `in` and `out`") {
  CHECK(wrong_op("relu") ==
        "SP002 g:2:7 `an operation` must be a map, not a string");
  CHECK(wrong_op("{op: relu, in: x}") ==
        "SP002 g:2:7 an operation has no `out`");
  CHECK(wrong_op("{op: relu, in: 3, out: y}") ==
        "SP002 g:2:22 `in` must be a string, not an integer");
  CHECK(wrong_op("{op: relu, in: x, out: y, by: {sqrt: 3}}") ==
        "SP004 g:2:38 unknown key `sqrt`");
  CHECK(wrong_op("{op: relu, in: x, out: y, by: {rsqrt: 0}}") ==
        "SP002 g:2:45 1/sqrt(0) is not a number");
  CHECK(wrong_op("{op: relu, in: x, out: y, by: 18014398509481984}") ==
        "SP002 g:2:37 the number exceeds 2^53");
  CHECK(wrong_op("{op: relu, in: x, out: y, by: .inf}") !=
        wrong_op("{op: relu, in: x, out: y, by: 1}"));
  CHECK(wrong_op("{op: relu, in: x, out: y, spec: [[a, null]]}") ==
        "SP002 g:2:44 `null` is inside a list of axes");
}

TEST_CASE("a graph of mistakes is read no further than twenty of them") {
  std::string text = "graph: g\nops:\n";
  for (int i = 0; i < 1000; ++i) text += "  - relu\n";
  const auto result = read_graph_text(text);
  CHECK(result->diags.count(Severity::Error) == 20);
  CHECK(result->diags.count(Severity::Note) == 1);
}

TEST_CASE("a shard_map says how devices do an operation") {
  const auto result = read_graph_text(R"(graph: g
inputs: {x: [4, 8]}
ops:
  - {op: relu, in: x, out: y, shard_map: {in_specs: [[[dp, sp], null]], out_specs: []}}
  - {op: sum, in: y, out: z, dims: [1], shard_map: {in_specs: [[dp, tp]], out_specs: [dp], psum: [tp, sp]}}
probes: [y]
)");
  REQUIRE_MESSAGE(result->graph, result->messages);
  const std::vector<DescribedOp>& ops = result->graph->ops;
  CHECK(ops[0].shard_map == ShardMapUse{{{{{"dp", "sp"}, {}}}}, {}, {}});
  CHECK(ops[1].shard_map ==
        ShardMapUse{{{{{"dp"}, {"tp"}}}}, {{{"dp"}}}, {"tp", "sp"}});
  CHECK(ops[1].attributes.size() == 1);
  CHECK(testing::place_text(ops[1].shard_map_where) == "g:5:52");
  CHECK(result->graph->probes == std::vector<std::string>{"y"});
}

TEST_CASE("a shard_map that is none is refused") {
  const auto error = [](const std::string& map) {
    const auto result = read_graph_text(
        "graph: g\ninputs: {x: [4]}\nops:\n  - {op: relu, in: x, out: y, "
        "shard_map: " +
        map + "}\n");
    CHECK_FALSE(result->graph);
    return result->messages;
  };
  CHECK(error("[dp]") == "SP002 g:4:42 `shard_map` must be a map, not a list");
  CHECK(error("{in_specs: [[]]}") ==
        "SP002 g:4:42 `shard_map` has no `out_specs`");
  CHECK(error("{out_specs: []}") ==
        "SP002 g:4:42 `shard_map` has no `in_specs`");
  CHECK(error("{in_specs: dp, out_specs: []}").find("SP002 g:4:53 ") == 0);
  CHECK(error("{in_specs: [[]], out_specs: [], mean: dp}").find("SP004") == 0);
}

const DimSizes kDims = {{"heads", 8}, {"head_dim", 64}, {"none", 0}};

std::string size(const std::string& text) {
  std::string why;
  const auto value = evaluate_size(text, kDims, why);
  return value ? std::to_string(*value) : why;
}

TEST_CASE("sizes are numbers, names and what these make") {
  CHECK(size("12") == "12");
  CHECK(size("heads") == "8");
  CHECK(size("heads*head_dim") == "512");
  CHECK(size(" heads * 3 / 4 ") == "6");
  CHECK(size("head_dim/heads/4*none") == "0");
  CHECK(size("head_dim - 2*(heads + 1)") == "46");
}

TEST_CASE("what is not a size says why") {
  CHECK(
      size("head") ==
      "`head` is neither a number nor a name in `dims`; did you mean `heads`?");
  CHECK(size("") == "`` is neither a number nor a name in `dims`");
  CHECK(size("heads*") == "`` is neither a number nor a name in `dims`");
  CHECK(size("-1") == "`-1` is neither a number nor a name in `dims`");
  CHECK(size("heads/3") == "8 is not divisible by 3");
  CHECK(size("heads/none") == "8 is not divisible by 0");
  CHECK(size("9007199254740992*2") == "the product exceeds 2^53");
  CHECK(size("99999999999999999999") ==
        "`99999999999999999999` is neither a number nor a name in `dims`");
}

TEST_CASE("a product of sizes is their product") {
  CHECK(holds("a product of sizes is their product", [] {
    const auto a = draw_in<int64_t>(0, 1 << 20);
    const auto b = draw_in<int64_t>(1, 1 << 20);
    const DimSizes dims = {{"a", a}, {"b", b}};
    std::string why;
    ENSURE(evaluate_size("a*b", dims, why) == a * b);
    ENSURE(evaluate_size("a*b/b", dims, why) == a);
    ENSURE(evaluate_size("a/b", dims, why).has_value() == (a % b == 0));
  }));
}

std::string dims_of(const std::string& dims, const DimSizes& chosen) {
  Diagnostics diags;
  const auto graph = read_graph(
      std::make_shared<SourceFile>(
          "g", "graph: g\ndims: " + dims + "\ninputs: {x: [a, b]}\nops: []\n"),
      chosen, diags);
  return graph ? shape_text(*graph->inputs.front().shape)
               : testing::messages(diags);
}

TEST_CASE("sizes follow from those before them, and may be chosen") {
  CHECK(dims_of("{a: 2, b: a*3}", {}) == "[2, 6]");
  CHECK(dims_of("{a: 2, b: a*3}", {{"a", 5}}) == "[5, 15]");
  CHECK(dims_of("{a: 2, b: a*3}", {{"b", 7}}) == "[2, 7]");
  CHECK(
      dims_of("{b: a*3, a: 2}", {}) ==
      "SP015 g:2:11 `a*3` is not a size: `a` is neither a number nor a name in "
      "`dims`");
  CHECK(dims_of("{batch: 2, a: 1, b: 1}", {{"bach", 7}}) ==
        "SP015 the graph has no size named `bach`");
  CHECK(dims_of("{a: 2, b: 3}", {{"a", -1}}) ==
        "SP015 `a` must be from 0 to 2^53");
  CHECK(dims_of("{a: 2, b: -3}", {}) ==
        "SP002 g:2:17 a size must be from 0 to 2^53");
  CHECK(dims_of("{a-b: 2}", {}) ==
        "SP002 g:2:8 `a-b` is not a valid size name");
  CHECK(dims_of("[2]", {}) == "SP002 g:2:7 `dims` must be a map, not a list");
}

}  // namespace

}  // namespace shardplan
