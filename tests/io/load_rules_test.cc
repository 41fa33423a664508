// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "io/load.h"
#include "io/shipped.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"
#include "tests/support/safetensors.h"

namespace shardplan {
namespace {

using testing::MemoryHost;
using testing::messages;

struct Loaded {
  std::optional<RuleSet> rules;
  Diagnostics diags;
  std::string text;  // what was reported, else the patterns
};

Loaded load(MemoryHost& host, const std::vector<std::string>& paths,
            const std::optional<std::string>& dialect = std::nullopt) {
  Loaded result;
  result.rules = load_rules(paths, dialect, {}, host, result.diags);
  CHECK(result.rules.has_value() == !result.diags.has_errors());
  result.text = messages(result.diags);
  if (!result.rules || !result.text.empty()) return result;
  for (const Rule& rule : result.rules->rules) {
    result.text += rule.pattern + " ";
  }
  return result;
}

MemoryHost two_files() {
  MemoryHost host;
  host.files["a.yaml"] = "axes: [tp, sp]\nrules:\n  - [wq, [tp]]\n";
  host.files["b.yaml"] =
      "axes: [sp, ep]\nmesh: {tp: 4}\nrules:\n  - [wk, [ep]]\n";
  return host;
}

TEST_CASE("rule files follow one another") {
  auto host = two_files();
  const Loaded result = load(host, {"b.yaml", "a.yaml"});
  CHECK(result.text == "wk wq ");
  CHECK(result.rules->declared_axes == AxisNames{"sp", "ep", "tp"});
  REQUIRE(result.rules->mesh.has_value());
  CHECK(result.rules->mesh->at(0).size == 4);
  CHECK(result.rules->mesh_where.file->name() == "b.yaml");
  CHECK(result.rules->rules[1].where.file->name() == "a.yaml");
  CHECK_FALSE(result.rules->rules[0].shipped);
}

TEST_CASE("a mesh that a later file gives is not dropped in silence") {
  auto host = two_files();
  host.files["a.yaml"] += "mesh: {tp: 2}\n";
  Diagnostics diags;
  const std::string paths[] = {"a.yaml", "b.yaml"};
  CHECK(load_rules(paths, std::nullopt, {}, host, diags).has_value());
  CHECK(testing::messages(diags) ==
        "SP007 warning b.yaml:2:7 this mesh is not used");
}

TEST_CASE("no rule files are no rules") {
  MemoryHost host;
  CHECK(load(host, {}).rules->rules.empty());
}

TEST_CASE("shipped sets go by name and are marked") {
  auto host = two_files();
  const Loaded result = load(host, {"a.yaml", "@llama"});
  REQUIRE(result.rules.has_value());
  CHECK_FALSE(result.rules->rules.front().shipped);
  CHECK(result.rules->rules.back().shipped);
  CHECK(result.rules->rules.back().where.file->name() ==
        "rules/models/llama.yaml");
}

TEST_CASE("every shipped set can be loaded") {
  MemoryHost host;
  size_t sets = 0;
  for (const std::string& name : shipped_names("models")) {
    CAPTURE(name);
    CHECK_FALSE(load(host, {"@" + name}).rules->rules.empty());
    ++sets;
  }
  CHECK(sets > 0);
}

TEST_CASE("an unknown set names the nearest one") {
  MemoryHost host;
  const Loaded result = load(host, {"@lama"});
  CHECK(result.text == "SP001 no shipped rules named `lama`");
  CHECK(result.diags.all()[0].help ==
        std::vector<std::string>{"a set with a similar name is `@llama`",
                                 "`shardplan list rules` shows all"});
  CHECK(load(host, {"@../models/llama"}).text ==
        "SP001 no shipped rules named `../models/llama`");
  CHECK(load(host, {"@"}).text == "SP001 no shipped rules named ``");
}

TEST_CASE("every file that cannot be read is reported") {
  auto host = two_files();
  CHECK(load(host, {"x.yaml", "a.yaml", "@zzzzzz"}).text ==
        "SP001 cannot read `x.yaml`: no such file or directory\n"
        "SP001 no shipped rules named `zzzzzz`");
}

TEST_CASE("a dialect may be forced by its name") {
  auto host = two_files();
  const std::string name = "yaml";
  CHECK(load(host, {"a.yaml"}, name).text == "wq ");
  const Loaded result = load(host, {"a.yaml"}, name + "l");
  CHECK(result.text == "SP010 unknown rule dialect `" + name + "l`");
  CHECK(result.diags.all()[0].help.at(0) ==
        "a dialect with a similar name is `" + name + "`");
  // A list of lists may be rules or logical rules.
  host.files["list"] = "[[\"embed\", [\"fsdp\"]]]";
  CHECK(load(host, {"list"}).rules->rules.size() == 1);
  CHECK(load(host, {"list"}, "flax").rules->logical_rules.size() == 1);
}

TEST_CASE("logical rules and semantic axes of several files are joined") {
  auto host = two_files();
  host.files["l1.yaml"] =
      "logical_axis_rules: [[embed, fsdp]]\n"
      "partition_axis: {head_axis: a}\nactivations: [[x, [tp]]]\n";
  host.files["l2.yaml"] =
      "logical_axis_rules: [[mlp, tp]]\n"
      "partition_axis: {head_axis: b}\nactivations: [[y, [tp]]]\n";
  const Loaded both = load(host, {"l1.yaml", "l2.yaml"});
  CHECK(both.rules->logical_rules.size() == 2);
  CHECK(both.rules->activations.size() == 2);
  CHECK(both.text == "SP003 warning l2.yaml:2:17 this partition_axis is not used");
  CHECK(both.rules->partition_axis->at(*find_partition_field("head_axis"))
            ->axes == AxisNames{"a"});
  host.files["t.yaml"] = "fsdp_axis: embed\n";
  CHECK(load(host, {"l1.yaml", "t.yaml"}).text.find("SP010") !=
        std::string::npos);
}

TEST_CASE("standard input may be given once") {
  auto host = two_files();
  host.input = host.files["a.yaml"];
  CHECK(load(host, {"b.yaml", "-"}).text == "wk wq ");
  CHECK(load(host, {"-", "b.yaml", "-"}).text == "SP010 `-` is given twice");
}

TEST_CASE("what is not rules is called what it is") {
  MemoryHost host;
  host.files["m"] = testing::safetensors({{"a", "F32", {2}}});
  host.files["i"] = R"({"weight_map": {}})";
  host.files["c"] = R"({"model_type": "llama"})";
  host.files["p"] = R"({"schema": "shardplan.plan/1"})";
  CHECK(load(host, {"m"}).text == "SP006 `m` is a safetensors file, not rules");
  CHECK(load(host, {"i"}).text == "SP006 `i` is an index of shards, not rules");
  CHECK(load(host, {"c"}).text == "SP006 `c` is a model's config, not rules");
  CHECK(load(host, {"p"}).text == "SP006 `p` is a saved plan, not rules");
  host.files["g"] = "GGUF\3";
  CHECK(load(host, {"g"}).text == "SP006 `g` is a GGUF file, not rules");
  host.files["b"] = std::string("\0\1", 2);
  CHECK(load(host, {"b"}).text == "SP006 `b` has no rules");
}

}  // namespace
}  // namespace shardplan
