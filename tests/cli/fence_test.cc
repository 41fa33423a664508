// SPDX-License-Identifier: Apache-2.0
// Every place where an input names a file, or a file is looked for beside one:
// what a configuration that was found leads to is within its repository, and
// what the user named leads wherever it does.
#include "io/fence.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "cli/commands.h"
#include "tests/support/gguf.h"
#include "tests/support/hf_config.h"
#include "tests/support/memory_host.h"
#include "tests/support/orbax.h"
#include "tests/support/safetensors.h"
#include "tests/support/source_dir.h"
#include "tests/support/words.h"

namespace shardplan::cli {
namespace {

using testing::has_text;
using testing::MemoryHost;

constexpr const char* kSecret = "/home/ann/secret";
constexpr const char* kAnyRules = "rules:\n  - [\".*\", []]\n";

using Files = std::map<std::string, std::string>;

// One place. `leads` is the path that the reader asks for: a link to the
// secret, or the secret's own path.
struct Place {
  const char* source;  // the file of src that makes the path
  const char* what;
  Files files;  // besides r.yaml, which is rules for anything
  std::string leads;
  std::string rules = "r.yaml";
  std::string model = "";  // of a target; "" where a setting is tried
  std::string settings = "";
  std::vector<const char*> command = {"check"};
};

std::string config() { return testing::sample_config("tinyllama-1.1b").dump(); }

std::string weights() {
  return testing::safetensors({{"model.norm.weight", "BF16", {8}}});
}

std::string orbax_metadata(bool ocdbt) {
  return "{\"tree_metadata\": {" +
         testing::orbax_leaf({"params", "b"}, "jax.Array", "[4]") +
         "}, \"use_ocdbt\": " + (ocdbt ? "true" : "false") + "}";
}

std::string gguf_part(uint32_t number) {
  return testing::GgufFile()
      .text("general.architecture", "llama")
      .u32("split.count", 2)
      .u32("split.no", number)
      .tensor("blk." + std::to_string(number) + ".attn_norm.weight", 0, {8})
      .bytes();
}

std::string maxtext(const std::string& more) {
  return more +
         "\nmesh_axes: [tp]\nlogical_axis_rules: [[embed, tp]]\n"
         "ici_tensor_parallelism: 2\n";
}

const char* const kIndex =
    R"({"metadata": {}, "weight_map": {"model.norm.weight": "l.safetensors"}})";
const char* const kDump = R"({
  ".params/['params']/['w']":
   {"mesh": {"axis_names": ["tp"], "shape": {"tp": 2}},
    "partition_spec": [["tp"], null], "shape": [64, 8]}})";

std::vector<Place> places() {
  std::vector<Place> rows;
  const auto target = [&](const char* source, const char* what, Files files,
                          std::string leads, std::string model) -> Place& {
    rows.push_back({source, what, std::move(files), std::move(leads)});
    rows.back().model = std::move(model);
    return rows.back();
  };
  const auto rules = [&](const char* source, const char* what, Files files,
                         std::string leads, std::string named) {
    Place& row = target(source, what, std::move(files), std::move(leads),
                        "w.safetensors");
    row.files["w.safetensors"] = weights();
    row.rules = std::move(named);
  };

  for (const char* name :
       {"hf_quant_config.json", "quantize_config.json", "quant_config.json"}) {
    target("io/hf_config/manifest.cc", "quantisation beside a config",
           {{"config.json", config()}}, name, "config.json");
    target("io/hf_config/manifest.cc", "the same of a folder",
           {{"d/config.json", config()}}, std::string("d/") + name, "d");
    target("io/hf_config/manifest.cc", "the same beside an index",
           {{"ck/i.json", kIndex}, {"ck/config.json", config()}},
           std::string("ck/") + name, "ck/i.json");
  }
  target("io/load.cc", "a config beside weights",
         {{"w.safetensors", weights()}}, "config.json", "w.safetensors");
  target("io/load.cc", "a config beside weights of a folder",
         {{"d/w.safetensors", weights()}}, "d/config.json", "d");
  target("io/load.cc", "an index in a folder", {},
         "d/model.safetensors.index.json", "d");
  target("io/load.cc", "a config in a folder", {}, "d/config.json", "d");
  target("io/load.cc", "an index of PyTorch beside a config of a folder",
         {{"d/config.json", config()}}, "d/pytorch_model.bin.index.json", "d");
  target("io/load.cc", "a pipeline in a folder", {}, "d/model_index.json", "d");
  target("io/load.cc", "a dump in a folder", {}, "d/named_shardings.json", "d");
  target("io/load.cc", "an orbax item in a folder", {}, "d/items/_METADATA",
         "d");
  Place& like = target(
      "io/load.cc", "`like` of an architecture",
      {{"config.json", config()},
       {"arch.yaml", "architecture: tiny\nlike: other\nmodel_types: [tiny]\n"}},
      "other.yaml", "config.json");
  like.settings = "architecture: arch.yaml\n";
  rules("io/load_rules.cc", "a dump in a folder of rules", {},
        "d/named_shardings.json", "d");
  rules("io/load_rules.cc", "an orbax item in a folder of rules",
        {{"d/_METADATA", orbax_metadata(true)}}, "d/_sharding", "d");
  target("io/orbax/checkpoint.cc", "the newest step", {}, "d/7/_METADATA", "d");
  target("io/orbax/manifest.cc", "shardings beside metadata",
         {{"d/_METADATA", orbax_metadata(true)}}, "d/_sharding", "d/_METADATA");
  target("io/orbax/manifest.cc", "an array of zarr",
         {{"d/_METADATA", orbax_metadata(false)}}, "d/params.b/.zarray",
         "d/_METADATA");
  target("io/safetensors/index.cc", "a shard", {{"ck/i.json", kIndex}},
         "ck/l.safetensors", "ck/i.json");
  target("io/safetensors/index.cc", "a config beside an index",
         {{"ck/i.json", kIndex}}, "ck/config.json", "ck/i.json");
  target("io/safetensors/file.cc", "files of a folder", {}, "d/w.safetensors",
         "d");
  target("io/gguf/gguf.cc", "parts of a model",
         {{"m-00001-of-00002.gguf", gguf_part(0)}}, "m-00002-of-00002.gguf",
         "m-00001-of-00002.gguf");
  target("io/gguf/gguf.cc", "a file of a folder", {}, "d/m.gguf", "d");
  target("io/maxtext/dump.cc", "the other dump",
         {{"d/named_shardings.json", kDump}}, "d/logical_shardings.json",
         "d/named_shardings.json");
  rules("io/maxtext/config.cc", "`base_config`, a link",
        {{"mt.yml", maxtext("base_config: base.yml")}}, "base.yml", "mt.yml");
  rules("io/maxtext/config.cc", "`base_config`, absolute",
        {{"mt.yml", maxtext("base_config: /home/ann/secret")}}, kSecret,
        "mt.yml");
  rules("io/maxtext/config.cc", "`base_config`, upward",
        {{"mt.yml", maxtext("base_config: ../secret")}}, kSecret, "mt.yml");
  rules("io/maxtext/config.cc", "`model_name`",
        {{"mt.yml", maxtext("model_name: small")}}, "models/small.yml",
        "mt.yml");
  rules("io/maxtext/config.cc", "`custom_mesh_and_rule`",
        {{"mt.yml", maxtext("custom_mesh_and_rule: own")}},
        "custom_mesh_and_rule/own.yml", "mt.yml");
  rules("io/levanter/rules.cc", "`!include`, a link",
        {{"lev.yaml", "trainer: !include t.yaml\n"}}, "t.yaml", "lev.yaml");
  rules("io/levanter/rules.cc", "`!include`, upward",
        {{"lev.yaml", "trainer: !include ../secret\n"}}, kSecret, "lev.yaml");
  rules("io/levanter/rules.cc", "`!include`, absolute",
        {{"lev.yaml", "trainer: !include /home/ann/secret\n"}}, kSecret,
        "lev.yaml");
  for (const char* setting :
       {"input: input_ids=../secret\n", "input: input_ids=link\n",
        "input-ids: ../secret\n", "input-ids: link\n", "expect: link\n",
        "graph: link\n", "state-rules: link\n", "scheme: ./link\n",
        "hardware: ./link\n", "plan: link\n", "architecture: ./link\n",
        "baseline: link\n"}) {
    Place row = {"cli/config.cc",
                 setting,
                 {{"config.json", config()}, {"w.safetensors", weights()}},
                 "link"};
    row.settings = setting;
    const std::string text = setting;
    row.command = text.starts_with("hardware") || text.starts_with("state")
                      ? std::vector<const char*>{"analyze", "config.json",
                                                 "--optimizer", "adamw"}
                  : text.starts_with("scheme") || text.starts_with("plan") ||
                          text.starts_with("arch")
                      ? std::vector<const char*>{"check", "config.json"}
                  : text.starts_with("graph")
                      ? std::vector<const char*>{"simulate", "w.safetensors"}
                  : text.starts_with("baseline")
                      ? std::vector<const char*>{"check"}
                      : std::vector<const char*>{"simulate", "config.json",
                                                 "--layers", "1", "--shrink"};
    if (text.starts_with("plan")) row.rules = "";
    if (text.starts_with("baseline")) row.model = "config.json";
    rows.push_back(std::move(row));
  }
  return rows;
}

MemoryHost host_of(const Place& place, const std::string& folder) {
  MemoryHost host;
  host.directory = "/home/ann/repo";
  host.files["/home/ann/repo/.git/HEAD"] = "ref: main\n";
  host.files[kSecret] = "https://user:hunter2@example.org\n";
  const auto at = [&](const std::string& path) {
    return path[0] == '/' ? path : folder + path;
  };
  host.files[at("r.yaml")] = kAnyRules;
  for (const auto& [path, text] : place.files) host.files[at(path)] = text;
  if (place.leads[0] != '/') {
    host.files[at(place.leads)] = "";  // what a folder lists
    host.links[at(place.leads)] = kSecret;
  }
  std::string text = "mesh: tp=2\n" + place.settings;
  if (!place.rules.empty()) text += "rules: " + place.rules + "\n";
  if (!place.model.empty()) {
    text += "targets:\n  a: {model: " + place.model + "}\n";
  }
  host.files[at("shardplan.yaml")] = text;
  return host;
}

TEST_CASE("no place leads out of the repository of a configuration") {
  for (const Place& place : places()) {
    CAPTURE(place.source);
    CAPTURE(place.what);
    std::vector<std::string> words(place.command.begin(), place.command.end());
    MemoryHost found = host_of(place, "");
    const int code = run(words, found);
    const std::string said = found.out + found.err;
    CAPTURE(said);
    CHECK(found.read.count(kSecret) == 0);
    CHECK_FALSE(has_text(said, "hunter2"));
    // Never in silence: it is refused, or not used, and says why.
    const bool says_why =
        has_text(said, "it leads outside `/home/ann/repo`") ||
        has_text(said, "an automatically found configuration may not name");
    CHECK(says_why);
    CHECK((code == 2 || has_text(said, "is ignored")));

    // The mutation: what the user names may lead anywhere, so each row is a
    // place that is really read.
    MemoryHost named = host_of(place, "");
    words.insert(words.end(), {"--config", "shardplan.yaml"});
    run(words, named);
    CHECK(named.read.count(kSecret) == 1);
  }
}

// As in Hugging Face's cache, where every file is a link to another folder.
TEST_CASE("what the user names leads where it does, beside a configuration") {
  for (const Place& place : places()) {
    if (place.model.empty() || !place.settings.empty()) continue;
    CAPTURE(place.source);
    CAPTURE(place.what);
    // The model and its rules lie outside of the repository that we stand in.
    MemoryHost host = host_of(place, "/home/ann/cache/");
    host.files.erase("/home/ann/cache/shardplan.yaml");
    host.files["shardplan.yaml"] = "mesh: tp=2\n";
    const std::string model = "/home/ann/cache/" + place.model;
    const std::string rules = "/home/ann/cache/" + place.rules;
    run({"check", model, "-r", rules}, host);
    CAPTURE(host.err);
    CHECK(host.read.count(kSecret) == 1);
    // The same model as a target of the configuration is refused.
    host.read.clear();
    host.files["shardplan.yaml"] = "mesh: tp=2\nrules: " + rules +
                                   "\ntargets:\n  a: {model: " + model + "}\n";
    CHECK(run({"check"}, host) == 2);
    CHECK(host.read.count(kSecret) == 0);
  }
}

// What the user names does not open what the configuration names beside it.
TEST_CASE("a named model opens nothing for the files of a configuration") {
  MemoryHost host;
  host.files["/project/.git/HEAD"] = "";
  host.files[kSecret] = "hunter2: [\n";
  host.files["config.json"] = config();
  host.files["r.yaml"] = kAnyRules;
  host.files["arch.yaml"] =
      "architecture: tiny\nlike: other\nmodel_types: [tiny]\n";
  host.links["other.yaml"] = kSecret;
  host.files["shardplan.yaml"] =
      "mesh: tp=2\nrules: r.yaml\narchitecture: arch.yaml\n";
  for (const char* model : {"config.json", "./config.json", "."}) {
    CAPTURE(model);
    CHECK(run({"check", model}, host) == 2);
    CHECK(host.read.count(kSecret) == 0);
  }
  CHECK(run({"check", "config.json", "--architecture", "arch.yaml"}, host) ==
        2);
  CHECK(host.read.count(kSecret) == 1);
}

TEST_CASE("what lies outside is not told by whether it exists") {
  const auto said = [](const char* base, bool exists) {
    MemoryHost host;
    host.directory = "/home/ann/repo";
    host.files["/home/ann/repo/.git/HEAD"] = "";
    if (exists) host.files["/home/ann/id_rsa"] = "hunter2";
    host.files["w.safetensors"] = weights();
    host.links["link.yml"] = "/home/ann/id_rsa";
    host.files["mt.yml"] = maxtext("base_config: " + std::string(base));
    host.files["shardplan.yaml"] =
        "mesh: tp=2\nrules: mt.yml\ntargets:\n  a: {model: w.safetensors}\n";
    CHECK(run({"check"}, host) == 2);
    return host.out + host.err;
  };
  for (const char* base : {"/home/ann/id_rsa", "../id_rsa", "x/../../id_rsa"}) {
    CAPTURE(base);
    CHECK(said(base, true) == said(base, false));
  }
}

// Every call that makes the path of a file from another file's words stands in
// the table above: a new one fails here until it has a row there.
TEST_CASE("the table has every place of the sources") {
  // What makes such a path, per file of src.
  const std::map<std::string, int> kKnown = {
      {"cli/output.cc", 1},    // named in a report, not read
      {"io/gguf/gguf.cc", 2},  // parts, a folder's file
      {"io/hf_config/manifest.cc", 1},
      {"io/levanter/rules.cc", 1},
      {"io/load.cc", 5},
      {"io/load_rules.cc", 2},
      {"io/maxtext/config.cc", 3},
      {"io/maxtext/dump.cc", 1},
      {"io/orbax/checkpoint.cc", 3},
      {"io/orbax/manifest.cc", 3},
      {"io/safetensors/file.cc", 1},
      {"io/safetensors/index.cc", 3},
  };
  // Paths are joined by hand where nothing is opened by them, or where it is
  // said (leads_to) what led there.
  const std::set<std::string> kJoin = {"cli/commands/gate/following.cc",
                                       "cli/commands/gate/gate.cc",
                                       "cli/commands/gate/sides.cc",
                                       "cli/commands/simulate/simulate.cc",
                                       "cli/config.cc",
                                       "cli/flag_values.cc",
                                       "cli/flags.cc",
                                       "cli/memory_flags.cc",
                                       "cli/trusted_config.cc",
                                       "io/fence.cc",
                                       "io/git/tree_host.cc",
                                       "io/load.cc",
                                       "io/maxtext/config.cc",
                                       "io/orbax/checkpoint.cc"};
  // Readers open what they are given; these implement a host, or look at what
  // the user named.
  const std::set<std::string> kWithPlaces = [] {
    std::set<std::string> sources;
    for (const Place& place : places()) sources.insert(place.source);
    return sources;
  }();
  std::map<std::string, int> found;
  const auto root = source_dir() / "src";
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(root)) {
    const std::string name =
        std::filesystem::relative(entry.path(), root).string();
    if (entry.path().extension() != ".cc" || name == "io/fence.cc" ||
        name.starts_with("base/")) {
      continue;
    }
    std::ifstream stream(entry.path());
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    for (const char* call : {"path_relative_to(", "path_in(", ".leads_to("}) {
      for (size_t at = text.find(call); at != std::string::npos;
           at = text.find(call, at + 1)) {
        ++found[name];
      }
    }
    if (text.find("join_path(") != std::string::npos) {
      CAPTURE(name);
      CHECK(kJoin.count(name) == 1);
    }
  }
  CHECK(found == kKnown);
  for (const auto& each : kKnown) {
    const std::string& name = each.first;
    if (name == "cli/output.cc") continue;
    CAPTURE(name);
    CHECK(kWithPlaces.count(name) == 1);
  }
}

}  // namespace
}  // namespace shardplan::cli
