// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "io/dialects.h"
#include "io/formats.h"
#include "io/load.h"
#include "io/maxtext/dump.h"
#include "io/spec_node.h"
#include "tests/support/exported.h"
#include "tests/support/loaded_rules.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

struct ReadRules {
  bool good = false;
  RuleSet rules;
  Diagnostics diags;
};

ReadRules read_rules(const std::string& text) {
  ReadRules result;
  CHECK(kMaxText.recognize(text));
  result.good = kMaxText.read(std::make_shared<SourceFile>("base.yml", text),
                              {}, result.rules, result.diags);
  CHECK(result.good != result.diags.has_errors());
  return result;
}

std::string sizes(const std::vector<AxisRequest>& axes) {
  std::string all;
  for (const AxisRequest& axis : axes) {
    all += axis.name + "=" + std::to_string(axis.size) + " ";
  }
  return all;
}

std::string names(const RuleSet& rules) {
  std::string all;
  for (const LogicalRule& rule : rules.logical_rules) {
    all += rule.name.value_or("") + "=" + axes_text(rule.axes) + " ";
  }
  return all;
}

TEST_CASE("a config gives mesh, slices and rules; other keys are passed over") {
  const ReadRules result = read_rules(
      "run_name: test\n"
      "mesh_axes: ['data', 'fsdp', 'tensor']\n"
      "logical_axis_rules: [['embed', ['fsdp']], ['mlp', 'tensor'],\n"
      "                     ['kv', []]]\n"
      "data_sharding: [['data', 'fsdp']]\n"
      "ici_fsdp_parallelism: -1\n"
      "ici_tensor_parallelism: 4\n"
      "dcn_data_parallelism: 2\n"
      "ici_context_parallelism: 1\n"
      "learning_rate: 3.e-5\n");
  REQUIRE(result.good);
  CHECK(sizes(*result.rules.mesh) == "data=1 fsdp=-1 tensor=4 ");
  CHECK(sizes(result.rules.dcn_mesh) == "data=2 fsdp=1 tensor=1 ");
  CHECK(names(result.rules) == "embed=fsdp mlp=tensor kv=None ");
  CHECK(result.rules.declared_axes == AxisNames{"data", "fsdp", "tensor"});
}

TEST_CASE("pipeline parallelism is the size of the axis of stages") {
  const ReadRules result = read_rules(
      "mesh_axes: [stage, fsdp]\nici_pipeline_parallelism: 4\n"
      "dcn_pipeline_parallelism: 2\n");
  REQUIRE(result.good);
  CHECK(sizes(*result.rules.mesh) == "stage=4 fsdp=1 ");
  CHECK(sizes(result.rules.dcn_mesh) == "stage=2 fsdp=1 ");
}

TEST_CASE("a parallelism that the mesh has no axis for is refused") {
  const ReadRules result = read_rules(
      "mesh_axes: [data]\nlogical_axis_rules: []\n"
      "ici_tensor_parallelism: 4\n");
  CHECK(result.diags.all().front().message ==
        "`mesh_axes` has no axis `tensor`");
  CHECK_FALSE(
      read_rules("mesh_axes: [data]\nici_data_parallelism: two\n").good);
  CHECK_FALSE(read_rules("mesh_axes: data\n").good);
}

std::string merged(const std::string& second) {
  testing::MemoryHost host;
  host.files["base.yml"] =
      "mesh_axes: [data, fsdp]\n"
      "logical_axis_rules: [[embed, fsdp], [mlp, data], [embed, data]]\n";
  host.files["model.yml"] = second;
  Diagnostics diags;
  const std::vector<std::string> paths = {"base.yml", "model.yml"};
  const auto rules = load_rules(paths, "maxtext", {}, host, diags);
  REQUIRE(rules.has_value());
  return names(*rules);
}

TEST_CASE("a later config replaces the rules of the same names") {
  CHECK(merged("logical_axis_rules: [[embed, []], [vocab, data]]\n") ==
        "mlp=data embed=None vocab=data ");
  CHECK(merged("override_logical_axis_rules: true\n"
               "logical_axis_rules: [[vocab, data]]\n") == "vocab=data ");
  CHECK(merged("mesh_axes: [data]\nlogical_axis_rules: [[vocab, data]]\n") ==
        "vocab=data ");
}

// Each file of a folder alone, with files that it names.
struct LoadedConfig {
  std::optional<RuleSet> rules;
  Diagnostics diags;
};

LoadedConfig load_config(const std::map<std::string, std::string>& files,
                         const std::vector<std::string>& paths) {
  testing::MemoryHost host;
  for (const auto& [path, text] : files) host.files[path] = text;
  LoadedConfig result;
  result.rules = load_rules(paths, std::nullopt, {}, host, result.diags);
  CHECK(result.rules.has_value() != result.diags.has_errors());
  return result;
}

const std::map<std::string, std::string>& config_folder() {
  static const std::map<std::string, std::string> kFiles = {
      {"configs/base.yml",
       "base_config: ''\nmodel_name: default\n"
       "mesh_axes: [data, fsdp, tensor]\n"
       "logical_axis_rules: [[embed, fsdp], [mlp, tensor], [norm, tensor]]\n"
       "ici_fsdp_parallelism: -1\ndcn_data_parallelism: -1\n"},
      {"configs/models/small.yml",
       "base_emb_dim: 64\nlogical_axis_rules: [[norm, fsdp]]\n"},
      {"configs/gpu/small.yml",
       "base_config: base.yml\nmodel_name: small\n"
       "ici_tensor_parallelism: 2\n"},
      {"configs/inference/server.yml",
       "base_config: \"gpu/small.yml\"\nmodel_name: large\n"
       "logical_axis_rules: [[embed, []]]\nici_tensor_parallelism: 4\n"},
      {"configs/custom_mesh_and_rule/pure-fsdp.yml",
       "mesh_axes: ['fsdp']\nlogical_axis_rules: [[embed, fsdp]]\n"},
      {"configs/own.yml",
       "base_config: base.yml\ncustom_mesh_and_rule: pure-fsdp\n"},
      {"configs/serving.yml",
       "mesh_axes: [data, model]\nlogical_axis_rules: [[mlp, model]]\n"},
      {"other/run.yml", "base_config: top.yml\nsteps: 3\n"},
      {"other/loop.yml", "base_config: loop.yml\nsteps: 3\n"},
  };
  return kFiles;
}

TEST_CASE("a config inherits from `base_config`, and has its model's rules") {
  const LoadedConfig gpu =
      load_config(config_folder(), {"configs/gpu/small.yml"});
  REQUIRE(gpu.rules.has_value());
  CHECK(sizes(*gpu.rules->mesh) == "data=1 fsdp=-1 tensor=2 ");
  CHECK(sizes(gpu.rules->dcn_mesh) == "data=-1 fsdp=1 tensor=1 ");
  CHECK(names(*gpu.rules) == "embed=fsdp mlp=tensor norm=fsdp ");
  CHECK(gpu.diags.all().empty());
}

TEST_CASE("lists of a base are replaced, not merged") {
  const LoadedConfig server =
      load_config(config_folder(), {"configs/inference/server.yml"});
  REQUIRE(server.rules.has_value());
  CHECK(names(*server.rules) == "embed=None ");
  CHECK(sizes(*server.rules->mesh) == "data=1 fsdp=-1 tensor=4 ");
  // Its model is nowhere; it may have rules.
  CHECK(
      testing::messages(server.diags) ==
      "SP012 note configs/inference/server.yml:2:13 `models/large.yml` was not "
      "found; MaxText also reads this file, which may have logical axis rules");
}

TEST_CASE("a custom mesh takes the place of the base's, and its sizes") {
  for (const std::vector<std::string>& paths :
       std::vector<std::vector<std::string>>{
           {"configs/own.yml"},
           {"configs/base.yml", "configs/custom_mesh_and_rule/pure-fsdp.yml"},
           {"configs/custom_mesh_and_rule/pure-fsdp.yml"}}) {
    const LoadedConfig own = load_config(config_folder(), paths);
    REQUIRE(own.rules.has_value());
    CHECK(sizes(*own.rules->mesh) == "fsdp=-1 ");
    CHECK(names(*own.rules) == "embed=fsdp ");
  }
  const LoadedConfig both =
      load_config(config_folder(), {"configs/base.yml", "configs/serving.yml"});
  REQUIRE(both.rules.has_value());
  CHECK(sizes(*both.rules->mesh) == "data=1 model=1 ");
}

TEST_CASE("a mesh whose sizes nothing says is not a mesh") {
  const LoadedConfig alone =
      load_config(config_folder(), {"configs/serving.yml"});
  REQUIRE(alone.rules.has_value());
  CHECK_FALSE(alone.rules->mesh.has_value());
  CHECK(alone.rules->declared_axes == AxisNames{"data", "model"});
}

TEST_CASE("sizes of a later file are those of the mesh of an earlier one") {
  std::map<std::string, std::string> files = config_folder();
  files["more.yml"] = "ici_tensor_parallelism: 8\n";
  files["bad.yml"] = "ici_expert_parallelism: 8\n";
  const LoadedConfig more =
      load_config(files, {"configs/base.yml", "more.yml"});
  REQUIRE(more.rules.has_value());
  CHECK(sizes(*more.rules->mesh) == "data=1 fsdp=-1 tensor=8 ");
  CHECK(testing::messages(
            load_config(files, {"configs/base.yml", "bad.yml"}).diags) ==
        "SP007 bad.yml:1:1 `mesh_axes` has no axis `expert`");
}

TEST_CASE("a mesh alone may be for rules of another kind, and sizes may not") {
  const std::map<std::string, std::string> files = {
      {"mesh.yml", "mesh_axes: [fsdp, tensor]\nici_tensor_parallelism: 2\n"},
      {"sizes.yml", "ici_tensor_parallelism: 2\n"},
      {"whole.yml",
       "override_logical_axis_rules: true\nlogical_axis_rules: [[a, b]]\n"},
      {"rules.yaml", "mesh: {tp: 4}\nrules: [[w, [tp]]]\n"}};
  const LoadedConfig mesh = load_config(files, {"mesh.yml"});
  REQUIRE(mesh.rules.has_value());
  CHECK(sizes(*mesh.rules->mesh) == "fsdp=1 tensor=2 ");
  CHECK(load_config(files, {"whole.yml"}).rules.has_value());
  CHECK(testing::messages(
            load_config(files, {"rules.yaml", "sizes.yml"}).diags) ==
        "SP007 warning sizes.yml:1:1 the sizes in this config are ignored: no "
        "file has `mesh_axes`");
}

TEST_CASE("a config that only overrides is refused without the other one") {
  const LoadedConfig model =
      load_config(config_folder(), {"configs/models/small.yml"});
  CHECK(testing::messages(model.diags) ==
        "SP006 configs/models/small.yml:1:1 this MaxText config has no "
        "`mesh_axes` with `logical_axis_rules`: it overrides another config");
  CHECK(model.diags.all().front().help.front() ==
        "give that config first: `--rules base.yml --rules "
        "configs/models/small.yml`");
  const LoadedConfig run = load_config(config_folder(), {"other/run.yml"});
  CHECK(testing::messages(run.diags) ==
        "SP006 other/run.yml:1:14 `base_config: top.yml` was not found next to "
        "this file or in a parent folder");
  CHECK(load_config(config_folder(), {"configs/base.yml", "other/run.yml"})
            .rules.has_value());
  CHECK(testing::messages(
            load_config(config_folder(), {"other/loop.yml"}).diags) ==
        "SP002 other/loop.yml:1:14 this `base_config` inherits from more than "
        "16 files, or from itself");
}

TEST_CASE("our own rules files are not MaxText's") {
  CHECK_FALSE(kMaxText.recognize("axes: [tp]\nrules: []\n"));
  CHECK_FALSE(kMaxText.recognize("logical_axis_rules: [[a, b]]\n"));
}

using testing::exported;
using testing::Exporting;

Exporting maxtext_model() {
  Exporting what{testing::manifest({{"wi", "f32[8, 8]"}}), testing::rules({}),
                 testing::mesh("data=4,fsdp=2,tensor=1")};
  what.rules.logical_rules = {{"embed", {"fsdp"}, {}, {}},
                              {"batch", {"data", "fsdp"}, {}, {}},
                              {"norm", {}, {}, {}}};
  what.rules.dcn_mesh = {{"data", 2, {}, {}, {}},
                         {"fsdp", 1, {}, {}, {}},
                         {"tensor", 1, {}, {}, {}}};
  return what;
}

TEST_CASE("axes, rules and sizes within and over slices are written") {
  CHECK(exported("maxtext", maxtext_model()) ==
        R"(# Logical axis rules, as given; `shardplan export --to maxtext`.
# model: m.json
# mesh: data=4,fsdp=2,tensor=1
mesh_axes: [data, fsdp, tensor]
logical_axis_rules:
  - [embed, fsdp]
  - [batch, [data, fsdp]]
  - [norm, []]
ici_data_parallelism: 2
ici_fsdp_parallelism: 2
ici_tensor_parallelism: 1
dcn_data_parallelism: 2
dcn_fsdp_parallelism: 1
dcn_tensor_parallelism: 1
)");
}

TEST_CASE("the axis of stages has the size of pipeline parallelism") {
  Exporting what = maxtext_model();
  what.mesh = testing::mesh("stage=4,data=4,fsdp=2");
  const std::string text = exported("maxtext", what);
  CHECK(text.find("mesh_axes: [stage, data, fsdp]\n") != std::string::npos);
  CHECK(text.find("ici_pipeline_parallelism: 4\n") != std::string::npos);
  CHECK(text.find("stage_parallelism") == std::string::npos);
}

TEST_CASE("a rule without a name, or by pattern, cannot be said") {
  Exporting what = maxtext_model();
  what.rules.logical_rules[0].name.reset();
  CHECK(exported("maxtext", what) ==
        "SP014 `maxtext` cannot express a rule for dimensions without a name");
  what.rules = testing::rules({{"wi", "tp"}});
  CHECK(exported("maxtext", what) ==
        "SP014 rules:1:1 `maxtext` cannot express pattern rules such as `wi`");
}

std::string read_recorded_rules(const std::string& text) {
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
  CHECK(holds([] { key_path_name("['" + draw_any<std::string>()); }));
}

TEST_CASE("a dump is known by its specs") {
  CHECK(is_maxtext_dump(R"( {"a": {"partition_spec": [], "shape": []}})"));
  CHECK_FALSE(is_maxtext_dump(R"({"a": {"shape": [], "dtype": "f32"}})"));
  CHECK_FALSE(is_maxtext_dump("partition_spec"));
}

TEST_CASE("named dumps have meshes, logical ones none") {
  CHECK(read_recorded_rules(R"({".params/['w']": {
    "mesh": {"axis_names": ["fsdp", "tp"], "shape": {"tp": 2, "fsdp": 16}},
    "partition_spec": [["fsdp", "tp"], null], "shape": [64, 8]}})") ==
        "named\nparams/w [64, 8] P((fsdp, tp), None) fsdp=16,tp=2");
  CHECK(read_recorded_rules(
            R"({".params/['w']": {"partition_spec": ["embed", null],
                                   "shape": [64, 8]},
                 ".step": {"partition_spec": [], "shape": null}})") ==
        "logical\nparams/w [64, 8] P(embed, None) \nstep - P() ");
}

TEST_CASE("what a dump cannot be is said, several times in a run") {
  CHECK(read_recorded_rules("[]") ==
        "SP002 d.json:1:1 `dump` must be a map, not a list");
  CHECK(read_recorded_rules(R"({
"a": 1,
"b": {"shape": []},
"c": {"partition_spec": ["x", "y"], "shape": [1]},
"d": {"partition_spec": [3], "shape": [1]},
"e": {"partition_spec": [], "shape": 7},
"f": {"partition_spec": [], "shape": [-1]},
"g": {"partition_spec": [], "mesh": {"axis_names": ["x"], "shape": {}}},
"h": {"partition_spec": [], "mesh": []}})") ==
        "SP002 d.json:2:6 an array of the dump must be a map\n"
        "SP002 d.json:3:6 an array must have a list `partition_spec`\n"
        "SP002 d.json:4:25 the spec has 2 dimensions, but the shape has 1\n"
        "SP002 d.json:5:26 this is not an axis name\n"
        "SP002 d.json:6:38 `shape` must be a list of sizes\n"
        "SP002 d.json:7:39 an entry of `shape` must be a size\n"
        "SP002 d.json:8:53 this axis has no size in `shape`\n"
        "SP002 d.json:9:37 a mesh must have a list `axis_names` and a map "
        "of sizes `shape`");
}

using testing::MemoryHost;

constexpr const char* kNamed = R"({
  ".step": {"mesh": {"axis_names": ["fsdp"], "shape": {"fsdp": 16}},
    "partition_spec": [], "shape": []},
  ".params/['params']/['w']":
   {"mesh": {"axis_names": ["fsdp"], "shape": {"fsdp": 16}},
    "partition_spec": [["fsdp"], null], "shape": [64, 8]},
  ".opt_state/[0]/.mu/['params']/['w']":
   {"mesh": {"axis_names": ["fsdp"], "shape": {"fsdp": 16}},
    "partition_spec": [["fsdp"], null], "shape": [64, 8]}})";
constexpr const char* kLogical = R"({
  ".step": {"partition_spec": [], "shape": []},
  ".params/['params']/['w']":
   {"partition_spec": ["embed", null], "shape": [64, 8]},
  ".opt_state/[0]/.mu/['params']/['w']":
   {"partition_spec": ["embed", null], "shape": [64, 8]}})";
constexpr const char* kAssumed =
    "a sharding dump has no dtypes: f32 is assumed for all arrays";

struct LoadedDump {
  std::optional<Manifest> manifest;
  Diagnostics diags;
  std::string text;
};

std::unique_ptr<LoadedDump> load_dump(MemoryHost& host,
                                      const std::string& path) {
  auto result = std::make_unique<LoadedDump>();
  result->manifest = load_manifest(path, host, result->diags);
  if (!result->manifest) {
    result->text = testing::messages(result->diags);
    return result;
  }
  const Manifest& manifest = *result->manifest;
  for (size_t i = 0; i < manifest.size(); ++i) {
    result->text +=
        std::string(manifest.name(i)) + " " + type_text(manifest.type(i));
    if (const AxisLabels* axes = manifest.axes(i)) {
      for (const auto& label : *axes) {
        result->text += " " + label.value_or("-");
      }
    }
    result->text += "\n";
  }
  result->text += axes_text(manifest.mesh);
  return result;
}

TEST_CASE("the two dumps beside each other complete each other") {
  MemoryHost host;
  host.files["d/named_shardings.json"] = kNamed;
  host.files["d/logical_shardings.json"] = kLogical;
  for (const char* path :
       {"d", "d/named_shardings.json", "d/logical_shardings.json"}) {
    CAPTURE(path);
    const auto result = load_dump(host, path);
    CHECK(result->text == "params/params/w f32[64, 8] embed -\nfsdp=16");
    CHECK(result->manifest->format == "maxtext-dump");
    CHECK(result->manifest->buffers().size() == 1);
    const auto& reported = result->diags.all();
    REQUIRE(reported.size() == 3);
    CHECK(reported[0].message == kAssumed);
    CHECK(reported[0].severity == Severity::Warning);
    // The optimizer's state and the step are no parameters.
    CHECK(reported[1].code == Code::Remark);
    CHECK(reported[2].code == Code::Remark);
    CHECK(result->manifest->remarks.size() == 1);
  }
}

TEST_CASE("either dump alone gives what it has") {
  MemoryHost host;
  host.files["d/named_shardings.json"] = kNamed;
  CHECK(load_dump(host, "d")->text == "params/params/w f32[64, 8]\nfsdp=16");
  host.files["e/logical_shardings.json"] = kLogical;
  CHECK(load_dump(host, "e")->text == "params/params/w f32[64, 8] embed -\n");
  host.input = kLogical;
  CHECK(load_dump(host, "-")->text == "params/params/w f32[64, 8] embed -\n");
}

TEST_CASE("a dump of mesh axes gives no logical ones") {
  MemoryHost host;
  host.files["d/named_shardings.json"] = kNamed;
  host.files["d/logical_shardings.json"] = kNamed;
  const auto same = load_dump(host, "d");
  CHECK(same->text == "params/params/w f32[64, 8]\nfsdp=16");
  CHECK(testing::messages(same->diags)
            .find("SP008 warning `d/logical_shardings.json` is ignored: it is "
                  "the same kind of dump") != std::string::npos);
  host.files["d/logical_shardings.json"] =
      R"({".params/['params']/['w']":
          {"partition_spec": ["fsdp", null], "shape": [64, 8]}})";
  const auto axes = load_dump(host, "d");
  CHECK(axes->text == "params/params/w f32[64, 8]\nfsdp=16");
  REQUIRE(axes->manifest->remarks.size() == 2);
  CHECK(axes->manifest->remarks[0] ==
        "`logical_shardings.json` has mesh axes instead of logical axes: these "
        "are ignored");
}

TEST_CASE("a twin that is broken or differs takes nothing away") {
  MemoryHost host;
  host.files["d/named_shardings.json"] = kNamed;
  host.files["d/logical_shardings.json"] = "{";
  const auto broken = load_dump(host, "d");
  CHECK(broken->text == "params/params/w f32[64, 8]\nfsdp=16");
  CHECK(testing::messages(broken->diags)
            .find("SP002 warning `d/logical_shardings.json` is ignored: ") !=
        std::string::npos);
  host.files["d/logical_shardings.json"] =
      R"({".params/['params']/['w']":
          {"partition_spec": ["embed"], "shape": [64]}})";
  const auto differs = load_dump(host, "d");
  CHECK(differs->text == "params/params/w f32[64, 8]\nfsdp=16");
  CHECK(testing::messages(differs->diags)
            .find("SP008 warning the two dumps differ in the shape of "
                  "`params/params/w`") != std::string::npos);
}

TEST_CASE("an array without a shape is an error") {
  MemoryHost host;
  host.files["d.json"] = R"({".params/['w']": {"partition_spec": []}})";
  CHECK(load_dump(host, "d.json")->text ==
        "SP013 d.json:1:2 the dump does not give the shape of `params/w`");
}

TEST_CASE("a named dump is rules for its names, and a mesh") {
  testing::MemoryHost host;
  host.files["d/named_shardings.json"] = R"({".params/['w']": {
    "mesh": {"axis_names": ["fsdp", "tp"], "shape": {"fsdp": 16, "tp": 1}},
    "partition_spec": [null, ["fsdp", "tp"]], "shape": [4, 16]}})";
  for (const char* path : {"d", "d/named_shardings.json"}) {
    CAPTURE(path);
    const auto result = testing::loaded_rules(host, path);
    REQUIRE(result->rules.has_value());
    REQUIRE(result->rules->rules.size() == 1);
    CHECK(result->rules->rules[0].pattern == "^params[./]w$");
    CHECK(spec_text(result->rules->rules[0].spec) == "P(None, (fsdp, tp))");
    CHECK(result->rules->mesh->at(0).size == 16);
    CHECK(result->diags.all().empty());
  }
}

TEST_CASE("a logical dump is no rules") {
  testing::MemoryHost host;
  host.files["l.json"] =
      R"({".params/['w']": {"partition_spec": ["embed"], "shape": [4]}})";
  const auto result = testing::loaded_rules(host, "l.json");
  CHECK(testing::messages(result->diags) ==
        "SP006 `l.json` has logical axes, not resolved specs");
  host.files["l.json"] = R"({"a": {"partition_spec": 1, "shape": [4]}})";
  CHECK_FALSE(testing::loaded_rules(host, "l.json")->rules.has_value());
}

}  // namespace

}  // namespace shardplan
