// SPDX-License-Identifier: Apache-2.0
// A plan that `resolve -o` wrote is read with `--plan`, and is the same plan,
// under every flag that changes one.
#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/flags.h"
#include "core/plan.h"
#include "tests/support/hf_config.h"
#include "tests/support/memory_host.h"
#include "tests/support/property.h"

namespace shardplan::cli {
namespace {

using nlohmann::json;
using shardplan::testing::MemoryHost;

struct Change {
  const char* flag;
  std::vector<std::string> values;  // "" of a switch
};

// Those that go with any rules and any model.
const std::vector<Change>& changes() {
  static const std::vector<Change> kChanges = {
      {"parity", {""}},
      {"fallback", {"axis_is_unsharded", "raise_error", "no_constraint"}},
      {"flax-compat", {"current", "2024"}},
      {"axes", {"zz", "ep,sp,dp", "fsdp"}},
      {"min-size", {"0", "1", "5", "100", "100000"}},
      {"on-indivisible", on_indivisible_names()},
      {"unmatched", {"error", "replicate", "auto"}},
      {"no-strict", {""}},
      {"declare",
       {"replicate-kv-heads", "pad-vocab=8", "pad-vocab=3",
        "interleave-gate-up,interleave-qkv"}},
      {"mode", {"train", "prefill", "decode", "insert"}},
      {"slices", {"2"}},
      {"expert-model-parallel-size", {"1", "2", "3"}},
      {"expert-tensor-parallel-size", {"1", "2", "3"}},
      {"expert-parallel-degree", {"1", "2", "3", "4"}},
      {"expert-tensor-parallel-degree", {"1", "2"}},
      {"view", {"experts:xp=-1", "experts:xp=2,yp=-1", "other:vp=1,wp=-1"}},
  };
  return kChanges;
}

// Those that are drawn below with rules or a mesh of their own kind.
const std::set<std::string_view> kDrawnApart = {
    "rules", "dialect", "table",    "set",    "pattern",
    "mesh",  "devices", "topology", "scheme", "architecture"};
// These say how a plan is judged or made, not what it is.
const std::set<std::string_view> kNoChange = {"plan", "jobs", "tolerance",
                                              "max-replicated"};

TEST_CASE("every flag that makes a plan is drawn here") {
  for (const Flag& flag : flags()) {
    const bool reads = flag.name == "architecture" || flag.name == "scheme";
    if (!makes_plan(flag) && !reads) continue;
    CAPTURE(flag.name);
    const bool drawn = std::any_of(
        changes().begin(), changes().end(),
        [&](const Change& change) { return change.flag == flag.name; });
    CHECK((drawn || kDrawnApart.count(flag.name) != 0 ||
           kNoChange.count(flag.name) != 0));
  }
}

std::string drawn_axis() {
  return draw_of<std::string>({"tp", "fsdp", "dp", "sp", "ep", "none_such",
                               "embed", "mlp", "HEAD", "BATCH", "mesh:tp",
                               "logical:embed", "xp", "yp", "vp"});
}

std::string drawn_spec() {
  if (draw_in(0, 4) == 0) {
    return draw_of<std::string>({"\"Replicated\"", "\"ColumnWise\"",
                                 "\"RowWise\"", "\"AttnQSharding\"",
                                 "\"ExpertColumnWise\""});
  }
  std::string text = "[";
  const int entries = draw_in(0, 5);
  for (int i = 0; i < entries; ++i) {
    if (i > 0) text += ", ";
    switch (draw_in(0, 3)) {
      case 0:
        text += "null";
        break;
      case 1:
        text += "\"" + drawn_axis() + "\"";
        break;
      default:
        text += "[\"" + drawn_axis() + "\", \"" + drawn_axis() + "\"]";
    }
  }
  return text + "]";
}

std::string drawn_pattern() {
  return draw_of<std::string>({".*", "embed", "q_proj", "mlp", "norm",
                               "weight$", "lm_head", "bias", "experts",
                               "experts\\.1"});
}

std::string drawn_rules() {
  std::string text = "{\"rules\": [";
  const int count = draw_in(1, 5);
  for (int i = 0; i < count; ++i) {
    if (i > 0) text += ", ";
    text +=
        "{\"pattern\": \"" + drawn_pattern() + "\", \"spec\": " + drawn_spec();
    if (draw_in(0, 4) == 0) text += ", \"align\": \"last\"";
    if (draw_in(0, 6) == 0) {
      text += ", \"decode_dim\": " + std::to_string(draw_in(-3, 3));
    }
    if (draw_in(0, 4) == 0) text += ", \"view\": \"experts\"";
    if (draw_in(0, 3) == 0) text += ", \"deal\": \"" + drawn_axis() + "\"";
    text += "}";
  }
  text += "]";
  if (draw_bool()) text += ", \"axes\": [\"ep\", \"none_such\"]";
  if (draw_bool()) {
    text +=
        ", \"logical_axis_rules\": [[\"embed\", \"fsdp\"], [\"mlp\", "
        "[\"tp\", \"sp\"]], [\"embed\", null], [\"vocab\", \"tp\"]]";
  }
  if (draw_bool()) {
    text += ", \"partition_axis\": {\"head_axis\": \"tp\"}";
  }
  return text + "}";
}

std::string drawn_model() {
  std::string text = "{";
  const std::vector<std::string> names = draw_some_of(
      {"model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.weight",
       "model.layers.1.self_attn.q_proj.weight",
       "model.layers.0.mlp.gate_up_proj.weight", "model.norm.weight",
       "lm_head.weight", "model.layers.0.self_attn.q_proj.bias", "scale",
       "model.layers.0.mlp.experts.0.up_proj.weight",
       "model.layers.0.mlp.experts.1.up_proj.weight",
       "model.layers.0.mlp.experts.2.up_proj.weight"});
  for (const std::string& name : names) {
    if (text.size() > 1) text += ", ";
    const int rank = draw_in(0, 4);
    std::string shape;
    std::string labels;
    for (int i = 0; i < rank; ++i) {
      shape += (i > 0 ? ", " : "") +
               std::to_string(draw_of({64, 8, 7, 1, 0, 12, 30}));
      labels += (i > 0 ? ", " : "") +
                draw_of<std::string>({"\"embed\"", "\"mlp\"", "null"});
    }
    text +=
        "\"" + name + "\": {\"dtype\": \"bf16\", \"shape\": [" + shape + "]";
    if (draw_in(0, 3) == 0) text += ", \"axes\": [" + labels + "]";
    text += "}";
  }
  return text + "}";
}

// Writes the plan, reads it, and compares what `--json` says of both. What is
// wrong with the words (exit 2) is another test's.
void check_round_trip(MemoryHost& host, const std::vector<std::string>& model,
                      const std::vector<std::string>& how) {
  const auto resolve = [&](std::vector<std::string> more) {
    host.out.clear();
    host.err.clear();
    std::vector<std::string> words = {"resolve"};
    words.insert(words.end(), model.begin(), model.end());
    words.insert(words.end(), more.begin(), more.end());
    words.insert(words.end(), {"--isolated", "--exit-zero"});
    shardplan::testing::case_log() << "\n";
    for (const std::string& word : words) {
      shardplan::testing::case_log() << word << " ";
    }
    const int code = run(words, host);
    shardplan::testing::case_log() << "-> " << code << " " << host.err;
    return code;
  };
  std::vector<std::string> words = how;
  words.emplace_back("--json");
  const int code = resolve(words);
  ENSURE(code == 0 || code == 2);
  shardplan::testing::count_case(code == 0 ? "read back" : "refused");
  if (code == 2) return;
  const json direct = json::parse(host.out);
  words.back() = "-o";
  words.emplace_back("p.plan.json");
  ENSURE(resolve(words) == 0);
  ENSURE(resolve({"--plan", "p.plan.json", "--json"}) == 0);
  const json saved = json::parse(host.out);
  for (const char* table : {"placements", "corrections", "rules"}) {
    shardplan::testing::case_log()
        << "\n"
        << table << "\n"
        << direct.at("tables").at(table).dump() << "\n"
        << saved.at("tables").at(table).dump();
    ENSURE(direct.at("tables").at(table) == saved.at("tables").at(table));
  }
  for (const char* key :
       {"fingerprint", "corrections", "mesh", "views", "memory_per_device",
        "efficiency", "padding_bytes", "replicated_fraction"}) {
    ENSURE(direct.at("summary").at(key) == saved.at("summary").at(key));
  }
}

std::vector<std::string> drawn_changes() {
  std::vector<std::string> words;
  for (const Change& change : changes()) {
    if (draw_in(0, 3) != 0) continue;
    words.push_back("--" + std::string(change.flag));
    const std::string value = draw_of(change.values);
    if (!value.empty()) words.push_back(value);
  }
  return words;
}

std::string drawn_mesh() {
  return draw_of<std::string>(
      {"tp=4", "tp=1", "fsdp=2,tp=4", "dp=2,fsdp=2,tp=2", "fsdp=1,tp=3,sp=1",
       "ep=2,tp=2,fsdp=2,sp=2", "tp=5", "none_such=2,tp=2"});
}

TEST_CASE("a plan that was written is read, under every flag that changes it") {
  CHECK(holds("--plan (resolve -o) = resolve", [] {
    MemoryHost host;
    host.files["m.json"] = drawn_model();
    host.files["r.json"] = drawn_rules();
    shardplan::testing::case_log() << host.files["m.json"] << "\n"
                                   << host.files["r.json"];
    std::vector<std::string> how = {"--mesh", drawn_mesh()};
    if (draw_in(0, 5) == 0) {
      how.insert(how.end(), {"--pattern", "q_proj|mlp->fsdp.tp,norm->None"});
    } else {
      how.insert(how.end(), {"-r", "r.json"});
    }
    const std::vector<std::string> more = drawn_changes();
    how.insert(how.end(), more.begin(), more.end());
    check_round_trip(host, {"m.json"}, how);
  }));
}

// Rules of other dialects, whose specs are not lists of axes, and models whose
// names follow from a config.
TEST_CASE("plans of other dialects and of configs are read, too") {
  const std::string config =
      shardplan::testing::sample_config("tinyllama-1.1b").dump();
  const std::vector<std::pair<std::string, std::string>> rules = {
      {"tp_plan.json",
       R"({"base_model_tp_plan": {"layers.*.self_attn.q_proj": "colwise",
           "layers.*.self_attn.o_proj": "rowwise",
           "layers.*.mlp.gate_proj": "packed_colwise"}})"},
      {"dtensor.json",
       R"x({"mesh_dim_names": ["fsdp", "tp"], "placements": {
           "model.embed_tokens.weight": ["Shard(0)", "Shard(-1)"],
           "model.norm.weight": ["Replicate()", "Shard(0)"]}})x"},
      {"rules.py",
       "def rules():\n  return (\n    (\"q_proj\", PartitionSpec(\"fsdp\", "
       "\"tp\")),\n    (\"norm\", Replicated if flag else "
       "PartitionSpec(\"tp\"))"
       ",\n    (\".*\", PartitionSpec(None)),\n  )\n"}};
  CHECK(holds("the same", [&] {
    MemoryHost host;
    host.files["config.json"] = config;
    const auto& [name, text] = rules[static_cast<size_t>(draw_in(0, 3))];
    host.files[name] = text;
    std::vector<std::string> model = {"config.json"};
    if (draw_in(0, 3) == 0) {
      model.insert(model.end(), {"--scheme", "easydel"});
    } else if (draw_bool()) {
      model.insert(model.end(), {"--architecture", "llama"});
    }
    std::vector<std::string> how = {"-r", name};
    if (draw_in(0, 4) == 0) {
      how.insert(how.end(), {"--topology", "8xH100", "--mesh", "fsdp=2,tp=-1"});
    } else {
      how.insert(
          how.end(),
          {"--mesh", draw_of<std::string>({"fsdp=2,tp=4", "fsdp=3,tp=2"})});
      if (draw_bool()) how.insert(how.end(), {"--devices", "8"});
    }
    if (name == "rules.py") {
      how.insert(how.end(),
                 {"--dialect", "python", "--table", "rules", "--set",
                  draw_of<std::string>({"flag=true", "flag=false"})});
    }
    const std::vector<std::string> more = drawn_changes();
    how.insert(how.end(), more.begin(), more.end());
    check_round_trip(host, model, how);
  }));
}

// What was refused (docs: tests/regressions).
TEST_CASE("min-size and an entry beyond the rank") {
  for (const char* spec :
       {"[null, \"tp\"]", "[\"tp\", \"fsdp\"]", "[null, null, [\"tp\"]]"}) {
    CAPTURE(spec);
    MemoryHost host;
    host.files["m.json"] = R"({"w": {"shape": [64], "dtype": "bf16"}})";
    host.files["r.json"] = "{\"rules\": [[\".*\", " + std::string(spec) + "]]}";
    CHECK(run({"resolve", "m.json", "-r", "r.json", "-m", "fsdp=2,tp=4",
               "--min-size", "100", "-o", "p.plan.json", "--exit-zero"},
              host) == 0);
    CHECK(run({"resolve", "m.json", "--plan", "p.plan.json", "--exit-zero"},
              host) == 0);
  }
}

}  // namespace
}  // namespace shardplan::cli
