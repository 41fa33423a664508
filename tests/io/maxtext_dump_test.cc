// SPDX-License-Identifier: Apache-2.0
#include "io/maxtext_dump.h"

#include <memory>

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "tests/support/messages.h"

namespace shardplan {
namespace {

std::string read(const std::string& text) {
  const auto file = std::make_shared<SourceFile>("d.json", text);
  Diagnostics diags;
  const auto dump = read_maxtext_dump(file, diags);
  CHECK(dump.has_value() != diags.has_errors());
  std::string result = testing::messages(diags);
  if (!dump) return result;
  result += dump->named ? "named" : "logical";
  for (const DumpEntry& entry : dump->entries) {
    result += "\n" + entry.sharding.name + " " +
              (entry.shape ? shape_text(*entry.shape) : "-") + " " +
              spec_text(entry.sharding.spec) + " " +
              axes_text(entry.sharding.mesh);
  }
  return result;
}

TEST_CASE("key paths become names with slashes") {
  struct Row {
    const char* path;
    const char* name;
  };
  for (const Row& row :
       {Row{".params/['params']/['decoder']/['mlp']/['wi_0']/['kernel']",
            "params/params/decoder/mlp/wi_0/kernel"},
        Row{".opt_state/[0]/.mu/['w']", "opt_state/0/mu/w"},
        Row{"['model']/['decoder_norm']/['scale']/.value",
            "model/decoder_norm/scale"},
        Row{"['model']/['value']", "model/value"}, Row{".value", "value"},
        Row{".step", "step"}, Row{"[\"it's\"]", "it's"},
        Row{"['a/b']/['c\\'d']", "a/b/c'd"}, Row{"plain", "plain"},
        Row{"['open", "['open"}, Row{"['a']['b']", "['a']['b']"}, Row{"", ""},
        Row{".", "."}, Row{"['a'x]", "['a'x]"}, Row{"['a']/", "['a']/"}}) {
    CAPTURE(row.path);
    CHECK(key_path_name(row.path) == row.name);
  }
}

TEST_CASE("any text has some name") {
  rc::check([](const std::string& text) { key_path_name("['" + text); });
}

TEST_CASE("a dump is known by its specs") {
  CHECK(is_maxtext_dump(R"( {"a": {"partition_spec": [], "shape": []}})"));
  CHECK_FALSE(is_maxtext_dump(R"({"a": {"shape": [], "dtype": "f32"}})"));
  CHECK_FALSE(is_maxtext_dump("partition_spec"));
}

TEST_CASE("named dumps have meshes, logical ones none") {
  CHECK(read(R"({".params/['w']": {
    "mesh": {"axis_names": ["fsdp", "tp"], "shape": {"tp": 2, "fsdp": 16}},
    "partition_spec": [["fsdp", "tp"], null], "shape": [64, 8]}})") ==
        "named\nparams/w [64, 8] P((fsdp, tp), None) fsdp=16,tp=2");
  CHECK(read(R"({".params/['w']": {"partition_spec": ["embed", null],
                                   "shape": [64, 8]},
                 ".step": {"partition_spec": [], "shape": null}})") ==
        "logical\nparams/w [64, 8] P(embed, None) \nstep - P() ");
}

TEST_CASE("what a dump cannot be is said, several times in a run") {
  CHECK(read("[]") == "SP002 d.json:1:1 `dump` must be a map, not a list");
  CHECK(read(R"({
"a": 1,
"b": {"shape": []},
"c": {"partition_spec": ["x", "y"], "shape": [1]},
"d": {"partition_spec": [3], "shape": [1]},
"e": {"partition_spec": [], "shape": 7},
"f": {"partition_spec": [], "shape": [-1]},
"g": {"partition_spec": [], "mesh": {"axis_names": ["x"], "shape": {}}},
"h": {"partition_spec": [], "mesh": []}})") ==
        "SP002 d.json:2:6 an array of the dump must be a map\n"
        "SP002 d.json:3:6 an array must have a list as `partition_spec`\n"
        "SP002 d.json:4:25 the spec has 2 dimensions, but the shape has 1\n"
        "SP002 d.json:5:26 this is not an axis name\n"
        "SP002 d.json:6:38 `shape` must be a list of sizes\n"
        "SP002 d.json:7:39 an entry of `shape` must be a size\n"
        "SP002 d.json:8:53 this axis has no size in `shape`\n"
        "SP002 d.json:9:37 a mesh must have a list of `axis_names` and a map "
        "of sizes, `shape`");
}

}  // namespace
}  // namespace shardplan
