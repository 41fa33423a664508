// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include "io/formats/formats.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"

namespace shardplan {
namespace {

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
        "SP004 g.yaml:2:1 key `paramters` means nothing here\n"
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

}  // namespace
}  // namespace shardplan
