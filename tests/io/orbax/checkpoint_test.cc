// SPDX-License-Identifier: Apache-2.0
#include "io/orbax/checkpoint.h"

#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "io/load.h"
#include "tests/support/loaded_rules.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"
#include "tests/support/orbax.h"

namespace shardplan {
namespace {

using testing::named_sharding;
using testing::orbax_leaf;

std::string leaves(const std::string& text) {
  const auto file = std::make_shared<SourceFile>("_METADATA", text);
  Diagnostics diags;
  const auto tree = read_orbax_metadata(file, diags);
  CHECK(tree.has_value() != diags.has_errors());
  std::string result = testing::messages(diags);
  if (!tree) return result;
  if (tree->use_ocdbt) result += "ocdbt ";
  for (const OrbaxLeaf& leaf : tree->leaves) {
    result += leaf.name + (leaf.empty ? "(empty)" : "") +
              (leaf.write_shape ? shape_text(*leaf.write_shape) : "") + " ";
    CHECK(leaf.name.size() == leaf.dotted.size());
  }
  return result;
}

std::string shardings(const std::string& text) {
  const auto file = std::make_shared<SourceFile>("_sharding", text);
  Diagnostics diags;
  const auto read = read_orbax_sharding(file, diags);
  CHECK(read.has_value() != diags.has_errors());
  std::string result = testing::messages(diags);
  if (!read) return result;
  for (const RecordedSharding& sharding : *read) {
    result += sharding.name + " on " + axes_text(sharding.mesh) + " " +
              spec_text(sharding.spec) + "\n";
  }
  return result;
}

TEST_CASE("both files are known by what they say") {
  CHECK(is_orbax_metadata(" {\"tree_metadata\": {}}"));
  CHECK_FALSE(is_orbax_metadata("tree_metadata"));
  const std::string text =
      "{" + named_sharding("w", "fsdp=2", "\"fsdp\"") + "}";
  CHECK(is_orbax_sharding(text));
  CHECK_FALSE(is_orbax_sharding("{\"sharding_type\": 1}"));
}

TEST_CASE("leaves have their keys, whatever these are") {
  CHECK(leaves(R"({"tree_metadata": {)" +
               orbax_leaf({"params", "w"}, "jax.Array", "[2, 3]") + "," +
               orbax_leaf({"opt", "0"}, "Dict") + R"(}, "use_ocdbt": true})") ==
        "ocdbt params/w[2, 3] opt/0(empty) ");
  // Newer versions write the numbers of lists as numbers.
  CHECK(leaves(R"({"tree_metadata": {"x": {"key_metadata":
      [{"key": "a", "key_type": 2}, {"key": 3, "key_type": 1}],
      "value_metadata": {"value_type": "jax.Array"}}}})") == "a/3 ");
}

TEST_CASE("several malformed leaves are reported in one run") {
  CHECK(leaves(R"({"a": {}})") ==
        "SP002 _METADATA:1:1 `_METADATA` has no `tree_metadata`");
  CHECK(leaves(R"({"tree_metadata": {
"a": 1,
"b": {},
"c": {"key_metadata": [{}]},
"d": {"key_metadata": [{"key": "d"}]},
"e": {"key_metadata": [{"key": "e"}], "value_metadata": {"value_type": "x",
"write_shape": [-1]}}}})") ==
        "SP002 _METADATA:2:6 a leaf of `tree_metadata` must be a map\n"
        "SP002 _METADATA:3:1 a leaf must list its keys in `key_metadata`\n"
        "SP002 _METADATA:4:24 an item of `key_metadata` must have a `key`\n"
        "SP002 _METADATA:5:1 a leaf must have `value_metadata` with a "
        "`value_type`\n"
        "SP002 _METADATA:7:16 `write_shape` must be a list of sizes");
}

TEST_CASE("shardings are read out of their texts") {
  CHECK(shardings(
            "{" +
            named_sharding("params.w", "data=2,fsdp=4",
                           R"(["data", "fsdp"], null)") +
            "," + named_sharding("params.b", "data=2,fsdp=4", "") +
            R"x(,"c3RlcA==": "{\"sharding_type\": )x"
            R"x(\"SingleDeviceSharding\", \"device_str\": \"cpu:0\"}"})x") ==
        "params.w on data=2,fsdp=4 P((data, fsdp), None)\n"
        "params.b on data=2,fsdp=4 P()\n"
        "step on  P()\n");
}

TEST_CASE("what a sharding cannot be is said with its name") {
  CHECK(
      shardings(R"({"?": "{}"})") ==
      "SP002 _sharding:1:2 a key of `_sharding` is not a base64-encoded name");
  CHECK(
      shardings(R"({"dw==": "{"})").find("the sharding of `w` is malformed") !=
      std::string::npos);
  CHECK(shardings("{" + named_sharding("w", "fsdp=2", "\"tp\"") + "}") ==
        "SP002 _sharding:1:10 the sharding of `w` is malformed: its mesh has "
        "no axis `tp`");
  CHECK(shardings("{" + named_sharding("w", "a b=2", "") + "}")
            .find("`a b` is not an axis name") != std::string::npos);
  CHECK(shardings(R"x({"dw==": "{\"sharding_type\": \"GSPMDSharding\"}"})x") ==
        "SP012 warning _sharding:1:10 1 sharding of an unsupported kind: "
        "`GSPMDSharding`");
}

TEST_CASE("an item is looked for in a checkpoint's directory") {
  testing::MemoryHost host;
  host.files["a/_METADATA"] = "{}";
  host.files["b/default/_METADATA"] = "{}";
  host.files["b/items/_METADATA"] = "{}";
  host.files["c/other/_METADATA"] = "{}";
  CHECK(find_orbax_item("a", host)->path == "a");
  CHECK(find_orbax_item("a", host)->remark.empty());
  CHECK(find_orbax_item("b", host)->path == "b/items");
  CHECK(find_orbax_item("b", host)->remark ==
        "read 1 of 2 items: `b/items`; the others: `default`");
  CHECK(find_orbax_item("c", host)->path == "c/other");
  CHECK_FALSE(find_orbax_item("d", host));
}

TEST_CASE("of the steps of a checkpoint manager the newest is read") {
  testing::MemoryHost host;
  host.files["run/90/default/_METADATA"] = "{}";
  host.files["run/100/default/_METADATA"] = "{}";
  host.files["run/200/metrics/metrics"] = "{}";
  host.files["run/300.orbax-checkpoint-tmp-1/default/_METADATA"] = "{}";
  const auto item = find_orbax_item("run", host);
  REQUIRE(item.has_value());
  CHECK(item->path == "run/100/default");
  CHECK(item->remark ==
        "read the newest of 3 steps that has arrays: `run/100`; the others: "
        "`200` and `90`");
  host.files["one/step_000300/state/_METADATA"] = "{}";
  CHECK(find_orbax_item("one", host)->path == "one/step_000300/state");
  CHECK(find_orbax_item("one", host)->remark.empty());
}

TEST_CASE("the shardings of a checkpoint are rules for its names") {
  testing::MemoryHost host;
  host.files["c/items/_METADATA"] = R"({"tree_metadata": {}})";
  host.files["c/items/_sharding"] =
      "{" + named_sharding("params.w", "fsdp=4,tp=2", R"("fsdp", ["tp"])") +
      "}";
  for (const char* path : {"c", "c/items", "c/items/_sharding"}) {
    CAPTURE(path);
    const auto result = testing::loaded_rules(host, path);
    REQUIRE(result->rules.has_value());
    REQUIRE(result->rules->rules.size() == 1);
    const Rule& rule = result->rules->rules[0];
    CHECK(rule.pattern == "^params[./]w$");
    CHECK(spec_text(rule.spec) == "P(fsdp, tp)");
    CHECK(testing::place_text(rule.where) == "c/items/_sharding:1:2");
    REQUIRE(result->rules->mesh.has_value());
    CHECK(result->rules->mesh->at(1).name == "tp");
    CHECK(result->diags.all().empty());
  }
  const auto metadata = testing::loaded_rules(host, "c/items/_METADATA");
  CHECK(testing::messages(metadata->diags) ==
        "SP006 `c/items/_METADATA` is an Orbax `_METADATA` (the `_sharding` "
        "next to it has rules), not rules");
}

TEST_CASE("broken shardings give no rules") {
  testing::MemoryHost host;
  host.files["_sharding"] =
      R"x({"dw==": "{\"sharding_type\": \"NamedSharding\"}"})x";
  const auto result = testing::loaded_rules(host, "_sharding");
  CHECK_FALSE(result->rules.has_value());
  CHECK(testing::messages(result->diags) ==
        "SP002 _sharding:1:10 the sharding of `w` is malformed: it has 0 axis "
        "names and 0 sizes");
}

}  // namespace

}  // namespace shardplan
