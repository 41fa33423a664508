// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "io/formats.h"
#include "io/load.h"
#include "io/orbax/written_shapes.h"
#include "io/spec_node.h"
#include "tests/support/builders.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"
#include "tests/support/orbax.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

using testing::MemoryHost;
using testing::named_sharding;
using testing::orbax_leaf;

std::string metadata(const std::vector<std::string>& leaves,
                     bool ocdbt = true) {
  std::string text = "{\"tree_metadata\": {";
  for (const std::string& leaf : leaves) {
    if (text.back() == '}') text += ",\n";
    text += leaf;
  }
  return text + "}, \"use_ocdbt\": " + (ocdbt ? "true}" : "false}");
}

MemoryHost checkpoint() {
  MemoryHost host;
  host.files["c/items/_METADATA"] = metadata(
      {orbax_leaf({"opt_state", "0", "mu", "w"}, "jax.Array", "[2]"),
       orbax_leaf({"params", "b"}, "jax.Array", "[4]"),
       orbax_leaf({"params", "w"}, "jax.Array", "[16, 64]"),
       orbax_leaf({"empty"}, "Dict"), orbax_leaf({"step"}, "jax.Array", "[]"),
       orbax_leaf({"title"}, "string")});
  host.files["c/items/_sharding"] =
      "{" + named_sharding("params.w", "fsdp=4,tp=2", R"("fsdp", "tp")") + "," +
      named_sharding("params.b", "fsdp=4,tp=2", "\"tp\"") + "," +
      named_sharding("step", "fsdp=4,tp=2", "") + "}";
  return host;
}

struct Loaded {
  std::optional<Manifest> manifest;
  Diagnostics diags;
  std::string text;
};

std::unique_ptr<Loaded> load(MemoryHost& host, const std::string& path) {
  auto result = std::make_unique<Loaded>();
  result->manifest = load_manifest(path, host, result->diags);
  if (!result->manifest) {
    result->text = testing::messages(result->diags);
    return result;
  }
  const Manifest& manifest = *result->manifest;
  for (size_t i = 0; i < manifest.size(); ++i) {
    result->text += std::string(manifest.name(i)) + " " +
                    type_text(manifest.type(i)) + "\n";
  }
  for (const Manifest::Buffer& buffer : manifest.buffers()) {
    result->text += "(" + buffer.name + " " + type_text(buffer.type) + ")\n";
  }
  return result;
}

TEST_CASE("a checkpoint is found from its directory, item or metadata") {
  MemoryHost host = checkpoint();
  for (const char* path : {"c", "c/items", "c/items/_METADATA"}) {
    CAPTURE(path);
    const auto result = load(host, path);
    // Four rows of `b` on each of four replicas: 4 x 2 x 4.
    CHECK(result->text ==
          "params/b f32[32]\nparams/w f32[64, 128]\n(step f32[])\n");
    CHECK(result->manifest->format == "orbax");
    CHECK(axes_text(result->manifest->mesh) == "fsdp=4,tp=2");
    CHECK(result->manifest->remarks ==
          std::vector<std::string>{
              "1 array of optimizer state left out: `--optimizer` computes it",
              "1 string in the checkpoint ignored"});
  }
}

TEST_CASE("what is assumed is said") {
  MemoryHost host = checkpoint();
  const auto result = load(host, "c");
  CHECK(testing::messages(result->diags) ==
        "SP013 warning c/items/_METADATA:2:1 this Orbax checkpoint does not "
        "record dtypes: assuming f32 for 3 arrays\n"
        "SP013 warning c/items/_METADATA:2:1 the shapes of 1 array are "
        "inferred: `params/b`\n"
        "SP019 note 1 array of optimizer state left out: `--optimizer` "
        "computes it\n"
        "SP019 note 1 string in the checkpoint ignored\n"
        "SP019 note 1 buffer excluded (not parameters): 4 B in total");
  CHECK(result->diags.all()[1].facts ==
        std::vector<std::string>{
            "`params/b` was written as [4] by 4 replicas of a shard, so its "
            "shape is "
            "[32] or [8]",
            "using [32], as if replicas split the write"});
  CHECK_FALSE(result->diags.cannot_run());
}

TEST_CASE("sizes that are certain tell between shapes") {
  MemoryHost host = checkpoint();
  host.files["c/items/_METADATA"] =
      metadata({orbax_leaf({"params", "b"}, "jax.Array", "[6]"),
                orbax_leaf({"params", "w"}, "jax.Array", "[3, 64]")});
  // 6 x 2 is a size of `w`; 6 x 2 x 4 is none.
  CHECK(load(host, "c")->text == "params/b f32[12]\nparams/w f32[12, 128]\n");
}

// `(6,)` on eight devices was taken for 48, whatever it was.
TEST_CASE("a shape that nothing tells is refused, not guessed") {
  const auto model = [](const std::string& kernel,
                        const std::string& spec = "\"x\", null") {
    MemoryHost host;
    std::vector<std::string> leaves = {
        orbax_leaf({"params", "dense", "b"}, "jax.Array", "[6]")};
    std::string shardings = named_sharding("params.dense.b", "x=8", "");
    if (!kernel.empty()) {
      leaves.push_back(
          orbax_leaf({"params", "dense", "w"}, "jax.Array", kernel));
      shardings += "," + named_sharding("params.dense.w", "x=8", spec);
    }
    host.files["c/_METADATA"] = metadata(leaves);
    host.files["c/_sharding"] = "{" + shardings + "}";
    return host;
  };
  const auto loaded = [](MemoryHost host) { return load(host, "c")->text; };
  const std::string refused =
      "SP013 c/_METADATA:1:20 the shapes of 1 array are ambiguous: "
      "`params/dense/b`";
  CHECK(loaded(model("")) == refused);
  CHECK(loaded(model("[4, 7]")) == refused);
  MemoryHost host = model("");
  CHECK(load(host, "c")->diags.all()[0].facts.at(0) ==
        "`params/dense/b` was written as [6] by 8 replicas of a shard: its "
        "shape is "
        "[48] or [6]");
  // What is cut along an axis is not shared, and certain.
  host.files["c/_sharding"] =
      "{" + named_sharding("params.dense.b", "x=8", "\"x\"") + "}";
  CHECK(load(host, "c")->text == "params/dense/b f32[48]\n");
  // Another array tells.
  CHECK(loaded(model("[4, 6]")) ==
        "params/dense/b f32[6]\nparams/dense/w f32[32, 6]\n");
  CHECK(loaded(model("[4, 48]")) ==
        "params/dense/b f32[48]\nparams/dense/w f32[32, 48]\n");
  // Both sizes are there: neither is known to be right.
  CHECK(loaded(model("[6, 6]")) == refused);
}

TEST_CASE("sizes that are alike in all replicated arrays tell their shapes") {
  MemoryHost host;
  std::vector<std::string> leaves;
  std::string shardings;
  // GPT-2 on eight replicas, and a decoder on 256.
  const auto add = [&](const char* name, const char* written,
                       const char* mesh) {
    leaves.push_back(orbax_leaf({"params", name}, "jax.Array", written));
    shardings += (shardings.empty() ? "" : ",") +
                 named_sharding("params." + std::string(name), mesh, "");
  };
  add("wte", "[50257, 96]", "x=8");
  add("wpe", "[128, 768]", "x=8");
  host.files["c/_METADATA"] = metadata(leaves);
  host.files["c/_sharding"] = "{" + shardings + "}";
  CHECK(load(host, "c")->text ==
        "params/wte f32[50257, 768]\nparams/wpe f32[1024, 768]\n");
  leaves.clear();
  shardings.clear();
  add("down", "[43, 4096]", "x=256");
  add("norm", "[16]", "x=256");
  add("q", "[16, 4096]", "x=256");
  add("up", "[16, 11008]", "x=256");
  host.files["c/_METADATA"] = metadata(leaves);
  host.files["c/_sharding"] = "{" + shardings + "}";
  CHECK(load(host, "c")->text ==
        "params/down f32[11008, 4096]\nparams/norm f32[4096]\n"
        "params/q f32[4096, 4096]\nparams/up f32[4096, 11008]\n");
}

TEST_CASE("arrays that keep their own zarr metadata need no assumption") {
  MemoryHost host = checkpoint();
  host.files["c/items/_METADATA"] = metadata(
      {orbax_leaf({"params", "b"}, "jax.Array", "[4]"),
       orbax_leaf({"params", "n"}, "np.ndarray"), orbax_leaf({"s"}, "scalar")},
      false);
  host.files["c/items/params.b/.zarray"] =
      R"({"shape": [8], "dtype": "bfloat16"})";
  host.files["c/items/params.n/zarr.json"] =
      R"({"shape": [3, 4], "data_type": "float32"})";
  host.files["c/items/s/.zarray"] = R"({"shape": [], "dtype": "<i8"})";
  const auto result = load(host, "c");
  CHECK(result->text == "params/b bf16[8]\nparams/n f32[3, 4]\n(s i64[])\n");
  CHECK(testing::problems(result->diags) == "");
}

TEST_CASE("names do not lead out of the checkpoint") {
  MemoryHost host;
  host.files["c/_METADATA"] = metadata(
      {orbax_leaf({"..", "..", "w"}, "np.ndarray"),
       orbax_leaf({"/w"}, "np.ndarray"), orbax_leaf({".."}, "np.ndarray")},
      false);
  host.files[".zarray"] = R"({"shape": [8], "dtype": "<f4"})";
  host.files["/w/.zarray"] = host.files[".zarray"];
  CHECK(load(host, "c")->text ==
        "SP013 c/_METADATA:1:20 the shapes of 3 arrays are not recorded: "
        "`../../w`, `/w` and `..`");
}

TEST_CASE("an array without a shape cannot be counted") {
  MemoryHost host;
  host.files["_METADATA"] = metadata({orbax_leaf({"w"}, "np.ndarray")});
  CHECK(load(host, "_METADATA")->text ==
        "SP013 _METADATA:1:20 the shapes of 1 array are not recorded: `w`");
}

TEST_CASE("without its sharding what was written is taken for whole") {
  MemoryHost host;
  host.files["_METADATA"] =
      metadata({orbax_leaf({"w"}, "jax.Array", "[4, 8]")});
  const auto result = load(host, "_METADATA");
  CHECK(result->text == "w f32[4, 8]\n");
  CHECK(result->manifest->mesh.empty());
  CHECK(testing::messages(result->diags).find("no `_sharding` entry for") !=
        std::string::npos);
}

TEST_CASE("a state that is all optimizer is what is asked about") {
  MemoryHost host;
  host.files["_METADATA"] =
      metadata({orbax_leaf({"opt_state", "mu"}, "jax.Array", "[4]")});
  CHECK(load(host, "_METADATA")->text == "opt_state/mu f32[4]\n");
}

TEST_CASE("shardings alone are not a model") {
  MemoryHost host = checkpoint();
  const auto result = load(host, "c/items/_sharding");
  CHECK(
      result->text ==
      "SP006 `c/items/_sharding` has a checkpoint's shardings, not its shapes");
  host.files["c/items/_sharding"] = "{\"dw==\": 3}";
  CHECK_FALSE(load(host, "c")->manifest.has_value());
}

RecordedSharding recorded(const std::string& mesh, const std::string& spec) {
  RecordedSharding sharding;
  const Mesh parsed = testing::mesh(mesh);
  for (const Axis& axis : parsed.axes()) {
    sharding.mesh.push_back({axis.name, axis.size, {}, {}, {}});
  }
  sharding.spec = testing::spec(spec);
  return sharding;
}

std::string shapes(const Shape& written, const std::string& mesh,
                   const std::string& spec) {
  const auto counts = shard_counts(recorded(mesh, spec), written.size());
  if (!counts) return "none";
  std::string text;
  for (const Shape& shape : possible_shapes(written, *counts)) {
    text += shape_text(shape);
  }
  return text;
}

// Recorded from Orbax 0.12 on eight devices.
TEST_CASE("the shape that Orbax has cut is among the possible ones") {
  CHECK(shapes({8, 32}, "data=2,fsdp=4", "(data, fsdp), None") == "[64, 32]");
  CHECK(shapes({8, 32}, "data=2,fsdp=4", "fsdp, None") == "[64, 32][32, 32]");
  CHECK(shapes({8, 32}, "data=2,fsdp=4", "") == "[64, 32][8, 32]");
  CHECK(shapes({512, 1024}, "data=2,fsdp=4", "None, fsdp") ==
        "[1024, 4096][512, 4096]");
  // Six rows are not shared by eight replicas: one wrote them all.
  CHECK(shapes({6}, "data=2,fsdp=4", "") == "[48][6]");
  CHECK(shapes({}, "data=2,fsdp=4", "") == "[]");
  CHECK(shapes({0, 8}, "data=2,fsdp=4", "") == "[0, 8]");
}

TEST_CASE("what cannot be is none") {
  CHECK(shapes({8}, "tp=2", "tp, tp, tp") == "none");
  CHECK(shapes({INT64_MAX}, "tp=2", "tp").empty());
}

TEST_CASE("sizes of other arrays tell between possible shapes") {
  const std::vector<Shape> shapes = {{48}, {6}};
  CHECK(likeliest(shapes, {}) == Shape{48});
  CHECK(likeliest(shapes, {6, 7}) == Shape{6});
  CHECK(likeliest(shapes, {6, 48}) == Shape{48});
}

TEST_CASE("what replicas could have shared was not written by one alone") {
  const auto shared = [](const Shape& written) {
    std::string text;
    const ShardCounts counts{Shape(written.size(), 1), 8};
    for (const Shape& shape : shared_shapes(written, counts)) {
      text += shape_text(shape);
    }
    return text;
  };
  CHECK(shared({6}) == "[48][6]");
  CHECK(shared({3, 96}) == "[24, 96][3, 768]");
  CHECK(shared({3, 5}) == "[24, 5][3, 40][3, 5]");
  CHECK(is_open({6}, {{1}, 8}));
  CHECK_FALSE(is_open({16}, {{1}, 8}));
  CHECK_FALSE(is_open({6}, {{1}, 1}));
  CHECK_FALSE(is_open({}, {{}, 8}));
}

TEST_CASE("the shape with most support is taken, if it is one") {
  const std::vector<Shape> shapes = {{48, 5}, {6, 5}};
  const auto support = [](int64_t size) { return size == 6 ? 2 : 1; };
  CHECK(best_supported(shapes, support) == Shape{6, 5});
  CHECK_FALSE(best_supported(shapes, [](int64_t) { return 1; }).has_value());
  CHECK_FALSE(best_supported({}, support).has_value());
}

// replica_slices.py, calculate_replica_parallel_axis_and_local_shape.
TEST_CASE("whatever Orbax cuts, the whole shape is possible") {
  CHECK(holds([] {
    const auto factor = [] { return draw_in<int64_t>(1, 9); };
    const int64_t replicas = factor();
    ShardCounts counts{{}, replicas};
    Shape whole;
    Shape written;
    for (int i = draw_in(0, 4); i > 0; --i) {
      counts.per_dim.push_back(factor());
      written.push_back(factor() * factor());
      whole.push_back(written.back() * counts.per_dim.back());
    }
    const auto cut =
        std::find_if(written.begin(), written.end(),
                     [&](int64_t size) { return size % replicas == 0; });
    if (cut != written.end()) *cut /= replicas;
    const auto possible = possible_shapes(written, counts);
    ENSURE(std::count(possible.begin(), possible.end(), whole) == 1);
  }));
}

TEST_CASE("zarr's own metadata tells shape and dtype") {
  const auto type = [](const std::string& text) -> std::string {
    const auto found = zarr_type(std::make_shared<SourceFile>(".zarray", text));
    return found ? type_text(*found) : "none";
  };
  CHECK(type(R"({"shape": [4, 8], "dtype": "bfloat16", "zarr_format": 2})") ==
        "bf16[4, 8]");
  CHECK(type(R"({"shape": [], "dtype": "<f4"})") == "f32[]");
  CHECK(type(R"({"shape": [2], "dtype": "|b1"})") == "bool[2]");
  CHECK(type(R"({"shape": [2], "dtype": "<f8"})") == "f64[2]");
  CHECK(type(R"({"shape": [2], "data_type": "int8", "node_type": "array"})") ==
        "i8[2]");
  CHECK(type(R"({"shape": [2], "dtype": "<U3"})") == "none");
  CHECK(type(R"({"shape": [-2], "dtype": "<f4"})") == "none");
  CHECK(type(R"({"shape": [2]})") == "none");
  CHECK(type("{") == "none");
}

}  // namespace

}  // namespace shardplan
