// SPDX-License-Identifier: Apache-2.0
#include "io/load.h"

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "base/shipped.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"
#include "tests/support/safetensors.h"

namespace shardplan {
namespace {

using testing::MemoryHost;
using testing::messages;
using testing::safetensors;

constexpr const char* kNativeText =
    R"({"wq/kernel": {"shape": [8, 8], "dtype": "bf16"}})";
constexpr const char* kConfigText =
    R"({"model_type":"llama","hidden_size":8,"intermediate_size":16,)"
    R"("num_hidden_layers":1,"num_attention_heads":2,"vocab_size":6,)"
    R"("num_key_value_heads":1})";

struct Loaded {
  std::optional<Manifest> manifest;
  Diagnostics diags;
  // What was reported, else title, format and names.
  std::string text;
};

Loaded load(MemoryHost& host, const std::string& path) {
  Loaded result;
  result.manifest = load_manifest(path, host, result.diags);
  CHECK(result.manifest.has_value() == !result.diags.has_errors());
  result.text = messages(result.diags);
  if (!result.manifest || !result.text.empty()) return result;
  result.text = result.manifest->title + " " + result.manifest->format;
  for (size_t i = 0; i < std::min<size_t>(result.manifest->size(), 3); ++i) {
    result.text += " " + std::string(result.manifest->name(i));
  }
  return result;
}

TEST_CASE("a model's format is recognised by its content, not its name") {
  MemoryHost host;
  host.files["a.bin"] = safetensors({{"wte", "F32", {2}}});
  host.files["b.txt"] = kNativeText;
  host.files["c.yaml"] = kConfigText;
  host.files["d.safetensors"] = kNativeText;
  host.files["e"] = R"({"weight_map":{"wte":"a.bin"}})";
  host.files["f.json"] = "parameters:\n  wq: {shape: [8], dtype: f32}\n";
  CHECK(load(host, "a.bin").text == "a.bin safetensors wte");
  CHECK(load(host, "b.txt").text == "b.txt native wq/kernel");
  CHECK(load(host, "c.yaml").manifest->format == "hf-config");
  CHECK(load(host, "d.safetensors").text == "d.safetensors native wq/kernel");
  CHECK(load(host, "e").text == "e safetensors-index wte");
  CHECK(load(host, "f.json").text == "f.json native wq");
}

TEST_CASE("standard input may have any format of one file") {
  MemoryHost host;
  for (const auto& [input, expected] :
       std::vector<std::pair<std::string, std::string>>{
           {safetensors({{"a", "F32", {2}}}), "<stdin> safetensors a"},
           {kNativeText, "<stdin> native wq/kernel"},
           {"wq: {shape: [8], dtype: f32}", "<stdin> native wq"}}) {
    host.input = input;
    CHECK(load(host, "-").text == expected);
  }
  host.files["config.json"] = kConfigText;
  host.input = R"({"weight_map":{"wte":"a"}})";
  CHECK(load(host, "-").text.starts_with("SP008 <stdin>:1:2 an index alone"));
}

TEST_CASE("a directory gives its index, else its weights, else its config") {
  MemoryHost host;
  host.files["d/config.json"] = kConfigText;
  CHECK(load(host, "d").manifest->format == "hf-config");
  host.files["d/x.safetensors"] = safetensors({{"a", "F32", {2}}});
  host.files["d/y.safetensors"] = safetensors({{"b", "F32", {2}}});
  CHECK(load(host, "d").text == "d safetensors a b");
  host.files["d/model.safetensors.index.json"] =
      R"({"weight_map":{"b":"y.safetensors"}})";
  CHECK(load(host, "d/").text == "d/ safetensors-index b");
}

TEST_CASE("a directory without a model says what was looked for") {
  MemoryHost host;
  host.files["d/readme.md"] = "";
  const Loaded result = load(host, "d");
  CHECK(result.text == "SP006 directory `d` has no readable model");
  CHECK(result.diags.all()[0].facts ==
        std::vector<std::string>{
            "looked for model.safetensors.index.json, *.safetensors, *.gguf, "
            "an Orbax `_METADATA`, MaxText's dumps and "
            "config.json",
            "it has 1 other entry"});
}

TEST_CASE("files of other programs are refused for what they are") {
  MemoryHost host;
  host.files["d/config.json"] =
      R"({"_class_name":"UNet2DConditionModel","_diffusers_version":"0.30.0"})";
  CHECK(load(host, "d/config.json").text ==
        "SP009 d/config.json:1:39 diffusers configs are not supported");
  host.files["p/model_index.json"] = R"({"_diffusers_version":"0.30.0"})";
  CHECK(load(host, "p").text ==
        "SP009 p/model_index.json:1:2 a diffusers pipeline consists of "
        "several models");
  struct Case {
    std::string text;
    std::string is;
  };
  const Case kCases[] = {
      {R"({"dim":4096,"n_layers":32,"n_heads":32,"norm_eps":1e-05})",
       "the `params.json` of an original release (Meta, Mistral or "
       "DeepSeek)"},
      {"trainer:\n  devices: 8\nmodel:\n  mcore_gpt: true\n", "a NeMo config"},
      {"language_model:\n  num_layers: 2\nmodel_parallel:\n  pp: 1\n",
       "a Megatron-LM YAML config"},
      {"num_layers: 2\nhidden_size: 64\n", "a file of Megatron-LM arguments"},
      {"[job]\ndump = 1\n[model]\nname = 'llama3'\n[training]\nsteps = 1\n",
       "a torchtitan config, which names a model but not its sizes"},
      {"compute_environment: LOCAL\ndistributed_type: FSDP\nmixed_precision: "
       "bf16\n",
       "an accelerate config"},
      {"[model]\nname = 'llama3'\n[parallelism]\ntensor_parallel_degree = 2\n",
       "a torchtitan config, which names a model but not its sizes"},
      {"name: gpt\ntrainer:\n  devices: 8\nmodel:\n"
       "  tensor_model_parallel_size: 2\n  num_layers: 12\n",
       "a NeMo config"},
      {R"({"peft_type":"LORA","r":8,"target_modules":["q_proj"]})",
       "a PEFT config, which describes adapters but not the model"},
  };
  for (const Case& each : kCases) {
    CAPTURE(each.is);
    host.files["run"] = each.text;
    CHECK(load(host, "run").text ==
          "SP009 `run` is " + each.is + ": it cannot be read as a model");
  }
  host.files["w.bin"] = std::string("PK\x03\x04\0\0", 6);
  CHECK(load(host, "w.bin").text ==
        "SP006 `w.bin` is a zip archive, as written by `torch.save`: this "
        "format is not supported");
  host.files["w.pt"] = "\x80\x02}q";
  CHECK(load(host, "w.pt").text ==
        "SP006 `w.pt` is a pickle, as written by `torch.save`: this format is "
        "not supported");
  // Tensors of these names are a manifest.
  host.files["run"] = R"({"dim":{"shape":[2],"dtype":"f32"},
      "n_layers":{"shape":[2],"dtype":"f32"},
      "n_heads":{"shape":[2],"dtype":"f32"}})";
  CHECK(load(host, "run").manifest->size() == 3);
  host.files["m.py"] = "x = 1\n";
  CHECK(load(host, "m.py").text ==
        "SP006 `m.py` is Python source, not a model");
}

TEST_CASE("what no format recognises is said to be so") {
  MemoryHost host;
  host.files["m.ggml"] = std::string("lmgg\3\0\0\0\1\0\0\0\0\0\0\0", 16);
  const Loaded result = load(host, "m.ggml");
  CHECK(result.text == "SP006 no known format matches `m.ggml`");
  CHECK(
      result.diags.all()[0].facts ==
      std::vector<std::string>{
          "formats tried: gguf, safetensors, safetensors-index, orbax, "
          "maxtext-dump, hf-config, maxtext-model, stablehlo, graph, native"});
  host.files["m.safetensors"] = "version https://git-lfs.github.com/spec/v1\n";
  CHECK(load(host, "m.safetensors").text ==
        "SP001 m.safetensors:1:1 this is a Git LFS pointer, not the file "
        "itself");
  host.files["m.gguf"] = host.files["m.safetensors"];
  CHECK(load(host, "m.gguf").text ==
        "SP001 m.gguf:1:1 this is a Git LFS pointer, not the file itself");
  host.files["config.json"] = host.files["m.safetensors"];
  CHECK(load(host, "config.json").text ==
        "SP001 config.json:1:1 this is a Git LFS pointer, not the file itself");
  host.files["m.gguf"] = "lmgg";
  CHECK(load(host, "m.gguf").text ==
        "SP002 m.gguf:1:1 a GGUF file must start with `GGUF`");
  host.files["p.json"] = R"({"schema":"shardplan.plan/1"})";
  CHECK(load(host, "p.json").text ==
        "SP006 `p.json` is a saved plan, not a manifest");
}

TEST_CASE("a file that is not there names one that is") {
  MemoryHost host;
  host.files["models/llama.json"] = kNativeText;
  Loaded result = load(host, "models/lama.json");
  CHECK(result.text ==
        "SP001 cannot read `models/lama.json`: no such file or directory");
  CHECK(result.diags.all()[0].help ==
        std::vector<std::string>{"did you mean `models/llama.json`?"});
  host.unreadable.insert("models/llama.json");
  result = load(host, "models/llama.json");
  CHECK(result.text ==
        "SP001 cannot read `models/llama.json`: permission denied");
  CHECK(result.diags.all()[0].help.empty());
}

TEST_CASE("a config beside weights tells their heads") {
  MemoryHost host;
  host.files["d/m.safetensors"] = safetensors({{"a", "F32", {2}}});
  host.files["d/config.json"] = kConfigText;
  for (const char* path : {"d", "d/m.safetensors"}) {
    CAPTURE(path);
    const Loaded result = load(host, path);
    REQUIRE(result.manifest.has_value());
    CHECK(result.manifest->facts.from == FactsFrom::Config);
    CHECK(result.manifest->facts.kv_heads == 1);
  }
  host.files["d/n.json"] = kNativeText;
  CHECK(load(host, "d/n.json").manifest->facts.from == FactsFrom::None);
}

TEST_CASE("a broken config beside weights is only a warning") {
  MemoryHost host;
  host.files["d/m.safetensors"] = safetensors({{"a", "F32", {2}}});
  for (const char* config : {"{\"model_type\": ", "[]", "{}}"}) {
    CAPTURE(config);
    host.files["d/config.json"] = config;
    const Loaded result = load(host, "d");
    REQUIRE(result.manifest.has_value());
    CHECK(result.manifest->facts.from == FactsFrom::None);
    REQUIRE(result.diags.all().size() == 1);
    CHECK(result.text.starts_with("SP002 warning d/config.json:1:"));
    CHECK(result.text.find("the config next to the weights is ignored: ") !=
          std::string::npos);
  }
}

TEST_CASE("only the header of a large file is read") {
  MemoryHost host;
  host.files["m"] = safetensors({{"a", "U8", {10 << 20}}});
  CHECK(load(host, "m").text == "m safetensors a");
  CHECK(host.bytes_read < 200000);
  std::vector<testing::StoredTensor> many;
  for (int i = 0; i < 5000; ++i) {
    many.push_back({"layers." + std::to_string(i) + ".weight", "F32", {2, 2}});
  }
  host.files["m"] = safetensors(many);
  CHECK(load(host, "m").manifest->size() == 5000);
}

TEST_CASE("a large manifest is read to its end") {
  MemoryHost host;
  std::string text = "{";
  for (int i = 0; i < 5000; ++i) {
    text += (i > 0 ? ",\"w" : "\"w") + std::to_string(i) +
            R"(":{"shape":[2],"dtype":"f32"})";
  }
  host.files["m.json"] = text + "}";
  CHECK(load(host, "m.json").manifest->size() == 5000);
}

TEST_CASE("sources of what cannot be read outlive the reading") {
  MemoryHost host;
  host.files["m.json"] = R"({"a": {"shape": [1], "dtype": "f33"}})";
  Diagnostics diags;
  CHECK_FALSE(load_manifest("m.json", host, diags));
  REQUIRE(diags.all().size() == 1);
  CHECK(diags.all()[0].labels.at(0).where.text() == "\"f33\"");
}

TEST_CASE("every format is in the table once, the one for any text last") {
  CHECK(manifest_formats().size() == 10);
  CHECK(manifest_formats().back().name == "native");
  for (const ManifestFormat& format : manifest_formats()) {
    CHECK_FALSE(format.summary.empty());
  }
}

struct LoadedRules {
  std::optional<RuleSet> rules;
  Diagnostics diags;
  std::string text;  // what was reported, else the patterns
};

LoadedRules load_dialect(
    MemoryHost& host, const std::vector<std::string>& paths,
    const std::optional<std::string>& dialect = std::nullopt) {
  LoadedRules result;
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
  const LoadedRules result = load_dialect(host, {"b.yaml", "a.yaml"});
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
        "SP007 warning b.yaml:2:7 this mesh is ignored");
}

TEST_CASE("no rule files are no rules") {
  MemoryHost host;
  CHECK(load_dialect(host, {}).rules->rules.empty());
}

TEST_CASE("shipped sets go by name and are marked") {
  auto host = two_files();
  const LoadedRules result = load_dialect(host, {"a.yaml", "@llama"});
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
    CHECK_FALSE(load_dialect(host, {"@" + name}).rules->rules.empty());
    ++sets;
  }
  CHECK(sets > 0);
}

TEST_CASE("an unknown set names the nearest one") {
  MemoryHost host;
  const LoadedRules result = load_dialect(host, {"@lama"});
  CHECK(result.text == "SP001 no shipped rules named `lama`");
  CHECK(result.diags.all()[0].help ==
        std::vector<std::string>{"did you mean `@llama`?",
                                 "`shardplan list rules` shows all"});
  CHECK(load_dialect(host, {"@../models/llama"}).text ==
        "SP001 no shipped rules named `../models/llama`");
  CHECK(load_dialect(host, {"@"}).text == "SP001 no shipped rules named ``");
}

TEST_CASE("every file that cannot be read is reported") {
  auto host = two_files();
  CHECK(load_dialect(host, {"x.yaml", "a.yaml", "@zzzzzz"}).text ==
        "SP001 cannot read `x.yaml`: no such file or directory\n"
        "SP001 no shipped rules named `zzzzzz`");
}

TEST_CASE("a dialect may be forced by its name") {
  auto host = two_files();
  const std::string name = "yaml";
  CHECK(load_dialect(host, {"a.yaml"}, name).text == "wq ");
  const LoadedRules result = load_dialect(host, {"a.yaml"}, name + "l");
  CHECK(result.text == "SP010 unknown rule dialect `" + name + "l`");
  CHECK(result.diags.all()[0].help.at(0) == "did you mean `" + name + "`?");
  // A list of lists may be rules or logical rules.
  host.files["list"] = "[[\"embed\", [\"fsdp\"]]]";
  CHECK(load_dialect(host, {"list"}).rules->rules.size() == 1);
  CHECK(load_dialect(host, {"list"}, "flax").rules->logical_rules.size() == 1);
}

TEST_CASE("logical rules and semantic axes of several files are joined") {
  auto host = two_files();
  host.files["l1.yaml"] =
      "logical_axis_rules: [[embed, fsdp]]\n"
      "partition_axis: {head_axis: a}\nactivations: [[x, [tp]]]\n";
  host.files["l2.yaml"] =
      "logical_axis_rules: [[mlp, tp]]\n"
      "partition_axis: {head_axis: b}\nactivations: [[y, [tp]]]\n";
  const LoadedRules both = load_dialect(host, {"l1.yaml", "l2.yaml"});
  CHECK(both.rules->logical_rules.size() == 2);
  CHECK(both.rules->activations.size() == 2);
  CHECK(both.text ==
        "SP003 warning l2.yaml:2:17 this partition_axis is ignored");
  CHECK(both.rules->partition_axis->at(*find_partition_field("head_axis"))
            ->axes == AxisNames{"a"});
  host.files["t.yaml"] = "fsdp_axis: embed\n";
  CHECK(load_dialect(host, {"l1.yaml", "t.yaml"}).text.find("SP010") !=
        std::string::npos);
}

TEST_CASE("standard input may be given once") {
  auto host = two_files();
  host.input = host.files["a.yaml"];
  CHECK(load_dialect(host, {"b.yaml", "-"}).text == "wk wq ");
  CHECK(load_dialect(host, {"-", "b.yaml", "-"}).text ==
        "SP010 `-` is given twice");
}

TEST_CASE("what is not rules is called what it is") {
  MemoryHost host;
  host.files["m"] = testing::safetensors({{"a", "F32", {2}}});
  host.files["i"] = R"({"weight_map": {}})";
  host.files["c"] = R"({"model_type": "llama"})";
  host.files["p"] = R"({"schema": "shardplan.plan/1"})";
  CHECK(load_dialect(host, {"m"}).text ==
        "SP006 `m` is a safetensors file, not rules");
  CHECK(load_dialect(host, {"i"}).text ==
        "SP006 `i` is a shard index, not rules");
  CHECK(load_dialect(host, {"c"}).text ==
        "SP006 `c` is a model's config, not rules");
  CHECK(load_dialect(host, {"p"}).text ==
        "SP006 `p` is a saved plan, not rules");
  host.files["g"] = "GGUF\3";
  CHECK(load_dialect(host, {"g"}).text ==
        "SP006 `g` is a GGUF file, not rules");
  host.files["b"] = std::string("\0\1", 2);
  CHECK(load_dialect(host, {"b"}).text == "SP006 `b` has no rules");
}

}  // namespace

}  // namespace shardplan
