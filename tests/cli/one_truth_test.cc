// SPDX-License-Identifier: Apache-2.0
// One question about memory has one answer, whichever command is asked: drawn
// command lines, each given to every command that says whether it fits.
//
// RC_PARAMS="max_success=5000 seed=7" draws many more, and others.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "base/allocation.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "core/plan.h"
#include "tests/support/hf_config.h"
#include "tests/support/memory_host.h"
#include "tests/support/property.h"
#include "tests/support/tiny_llama.h"
#include "tests/support/words.h"

namespace shardplan::cli {
namespace {

using testing::Json;
using testing::MemoryHost;
using testing::Words;

// --- What is asked

struct Given {
  std::string flag;
  std::string value;  // "" of a switch
};

struct Question {
  std::string model;  // a path
  std::string rules;  // a path or a shipped set; "" for those of the model
  std::string mesh;
  std::vector<Given> flags;

  const Given* find(std::string_view flag) const {
    for (const Given& each : flags) {
      if (each.flag == flag) return &each;
    }
    return nullptr;
  }
};

enum Kind : unsigned { kState = 1, kStep = 2, kCache = 4, kEngine = 8 };

// A flag is drawn once in `one_in` where it belongs, and now and then where it
// does not: then every command must refuse it alike. AXIS is one of the mesh,
// STAGES are layers for its `pp`.
struct DrawnFlag {
  std::string_view flag;
  Words values;
  unsigned kinds;
  int one_in;
};
const std::vector<DrawnFlag>& drawn_flags() {
  constexpr unsigned kTrains = kState | kStep;
  constexpr unsigned kServes = kCache | kEngine;
  constexpr unsigned kAll = kTrains | kServes;
  static const std::vector<DrawnFlag> kDrawn = {
      {"optimizer",
       {"adamw", "adafactor", "lion", "sgd", "sgd-momentum", "muon"},
       kTrains,
       1},
      {"optimizer-of", {"sgd:embed", "lion:q_proj", "none:norm"}, kTrains, 12},
      {"optimizer-impl", {"foreach", "fused", "loop"}, kStep, 5},
      {"precision", {"f32", "bf16", "f16", "autocast", "mixed"}, kTrains, 4},
      {"param-dtype", {"f32", "bf16", "f16"}, kAll, 9},
      {"grad-dtype", {"f32", "bf16"}, kTrains, 9},
      {"moment-dtype", {"f32", "bf16"}, kTrains, 9},
      {"master-dtype", {"f32", "none"}, kTrains, 9},
      {"compute-dtype", {"f32", "bf16", "f16"}, kAll, 12},
      {"live-layers", {"1", "2", "3"}, kAll, 14},
      {"state-rules", {"state.json"}, kTrains, 16},
      {"trainable", {"norm|ln", "lm_head|embed|wte"}, kTrains, 10},
      {"offload", {"optimizer", "weights"}, kTrains, 8},
      {"zero-style", {"jax", "deepspeed", "fsdp2", "megatron"}, kTrains, 8},
      {"source-seq", {"16", "64"}, kStep | kServes, 20},
      {"microbatches", {"1", "2", "4"}, kStep, 3},
      {"remat",
       {"none", "dots", "block", "full", "selective", "full:uniform:1",
        "custom:context=device"},
       kStep,
       3},
      {"attention", {"flash", "scores"}, kStep, 7},
      {"kernels", {"any", "fused", "eager"}, kStep | kServes, 7},
      {"hide", {"none", "framework", "full"}, kStep, 9},
      {"framework", {"any", "torch", "megatron", "jax"}, kStep, 2},
      {"fp8",
       {"delayed", "tensorwise", "blockwise", "mxfp8", "torchao"},
       kStep,
       12},
      {"dropout", {""}, kStep, 9},
      {"no-dropout", {""}, kStep, 12},
      {"loss-tiles", {"1", "2", "4"}, kStep, 9},
      {"expert-factor", {"1", "1.5", "3"}, kStep, 14},
      {"kv-dtype", {"bf16", "f32", "f8_e4m3", "i8"}, kServes, 6},
      {"kv-block", {"1", "16"}, kServes, 8},
      {"kv-axes", {"AXIS"}, kCache, 10},
      {"batch-axes", {"AXIS"}, kStep | kCache, 12},
      {"sequence-axes", {"AXIS"}, kStep | kCache, 16},
      {"ulysses-axes", {"AXIS"}, kStep, 20},
      {"gpu-memory-utilization", {"0.5", "0.9"}, kEngine, 8},
      {"mem-fraction-static", {"0.5", "0.8"}, kEngine, 10},
      {"max-batched-tokens", {"64", "2048"}, kEngine, 6},
      {"max-seqs", {"4", "64"}, kEngine, 6},
      {"expert-parallel", {""}, kEngine, 6},
      {"dp-attention", {""}, kEngine, 12},
      {"max-loras", {"1", "4"}, kEngine, 24},
      {"max-lora-rank", {"1", "16", "64"}, kEngine, 24},
      {"lora-target-modules", {"all-linear", "q_proj+v_proj"}, kEngine, 24},
      {"fully-sharded-loras", {""}, kEngine, 40},
      {"input-tokens", {"16", "100"}, kEngine, 12},
      {"output-tokens", {"8", "1000"}, kEngine, 12},
      {"concurrency", {"1", "8"}, kEngine, 16},
      {"reserve", {"1MiB", "10%", "100KiB"}, kAll, 9},
      {"fragmentation", {"0.05", "0.2"}, kAll, 10},
      {"hardware", {"h100-sxm", "l40s", "tpu-v5e"}, kAll, 6},
      {"calibrate", {"measured.csv"}, kStep, 20},
      {"on-indivisible", on_indivisible_names(), kAll, 12},
      {"min-size", {"100", "5000"}, kAll, 20},
      {"no-strict", {""}, kAll, 30},
      {"unmatched", {"replicate", "auto"}, kAll, 16},
      {"declare", {"replicate-kv-heads", "pad-vocab=128"}, kAll, 20},
      {"allow", {"SP203", "SP305"}, kAll, 30},
      {"deny", {"warnings", "SP204"}, kAll, 40},
  };
  return kDrawn;
}

// Drawn below, by what is asked.
const std::set<std::string_view> kDrawnByKind = {
    "mode",   "batch",    "seq",    "zero",  "zero-axes",
    "stages", "schedule", "memory", "engine"};
// A second model, which an engine serves beside the first.
const std::set<std::string_view> kNeverDrawn = {"draft"};

TEST_CASE("every flag about memory is drawn for the question with one answer") {
  for (const Flag& flag : flags()) {
    if (flag.group != "Memory" || !is_accepted_by(flag, "check")) continue;
    CAPTURE(flag.name);
    const bool drawn = std::ranges::any_of(
        drawn_flags(),
        [&](const DrawnFlag& each) { return each.flag == flag.name; });
    CHECK((drawn || kDrawnByKind.contains(flag.name) ||
           kNeverDrawn.contains(flag.name)));
  }
}

// Properties draw a seed alone: a question is some sixty draws, which take
// minutes to be made smaller one by one.
std::mt19937_64& drawing() {
  static std::mt19937_64 engine;
  return engine;
}

size_t pick_index(size_t count) {
  return static_cast<size_t>(drawing()() % count);
}

bool one_in(int count) { return pick_index(static_cast<size_t>(count)) == 0; }

std::string pick_of(const Words& values) {
  return values[pick_index(values.size())];
}

// --- Models, rules and meshes

struct DrawnModel {
  std::string path;
  std::string text;
  bool has_step = true;
};
const std::vector<DrawnModel>& models() {
  static const std::vector<DrawnModel> kModels = [] {
    std::vector<DrawnModel> all;
    const auto add = [&](const std::string& name, const Json& config) {
      all.push_back({name + "/config.json", config.dump(),
                     !config.contains("quantization_config")});
    };
    add("llama", testing::tiny_llama());
    add("five",
        testing::changed(testing::tiny_llama(), {{"num_hidden_layers", 5},
                                                 {"torch_dtype", "float32"}}));
    add("nf4", testing::changed(testing::tiny_llama(),
                                {{"quantization_config",
                                  {{"quant_method", "bitsandbytes"},
                                   {"load_in_4bit", true},
                                   {"bnb_4bit_quant_type", "nf4"}}}}));
    add("mamba", {{"architectures", {"MambaForCausalLM"}},
                  {"model_type", "mamba"},
                  {"vocab_size", 512},
                  {"hidden_size", 64},
                  {"state_size", 16},
                  {"num_hidden_layers", 4},
                  {"torch_dtype", "bfloat16"}});
    add("t5", {{"architectures", {"T5ForConditionalGeneration"}},
               {"model_type", "t5"},
               {"vocab_size", 512},
               {"d_model", 64},
               {"d_kv", 16},
               {"d_ff", 128},
               {"num_layers", 2},
               {"num_heads", 4},
               {"is_encoder_decoder", true},
               {"torch_dtype", "float32"}});
    for (const char* name :
         {"qwen2", "qwen3", "qwen3_moe", "mixtral", "gemma2", "gemma3_text",
          "gpt2", "bert-masked-lm", "deepseek_v3", "deepseek_v3-fp8", "gpt_oss",
          "gpt_oss-mxfp4"}) {
      Json config = testing::small_config(name);
      const bool is_gpt2 = config.at("model_type") == "gpt2";
      config[is_gpt2 ? "n_layer" : "num_hidden_layers"] = 4;
      config[is_gpt2 ? "n_positions" : "max_position_embeddings"] = 2048;
      if (config.contains("num_local_experts") ||
          config.contains("num_experts")) {
        config["num_experts_per_tok"] = 2;
      }
      add(name, config);
    }
    Json labelled;
    Json adapted = {{"facts", {{"heads", 4}, {"kv_heads", 2}}}};
    for (int layer = 0; layer < 3; ++layer) {
      const std::string number = std::to_string(layer);
      const auto label = [&](const char* name, const Json& shape,
                             const Json& axes) {
        labelled["parameters"]["layers/" + number + "/" + name] = {
            {"shape", shape}, {"dtype", "bf16"}, {"axes", axes}};
      };
      label("q/kernel", {64, 64}, {"embed", "heads"});
      label("up/kernel", {64, 128}, {"embed", "mlp"});
      label("down/kernel", {128, 64}, {"mlp", "embed"});
      const auto adapt = [&](const std::string& name, const Json& shape) {
        adapted["parameters"]["base_model.model.model.layers." + number + "." +
                              name + ".weight"] = {{"shape", shape},
                                                   {"dtype", "bf16"}};
      };
      for (const char* name : {"self_attn.q_proj", "self_attn.o_proj"}) {
        adapt(name + std::string(".base_layer"), {64, 64});
        adapt(name + std::string(".lora_A.default"), {8, 64});
        adapt(name + std::string(".lora_B.default"), {64, 8});
      }
      for (const char* name : {"self_attn.k_proj", "self_attn.v_proj"}) {
        adapt(name, {32, 64});
      }
      for (const char* name : {"mlp.gate_proj", "mlp.up_proj"}) {
        adapt(name, {128, 64});
      }
      adapt("mlp.down_proj", {64, 128});
      adapt("input_layernorm", {64});
      adapt("post_attention_layernorm", {64});
    }
    for (const char* name : {"model.embed_tokens", "lm_head"}) {
      adapted["parameters"]
             ["base_model.model." + std::string(name) + ".weight"] = {
                 {"shape", {512, 64}}, {"dtype", "bf16"}};
    }
    adapted["parameters"]["base_model.model.model.norm.weight"] = {
        {"shape", {64}}, {"dtype", "bf16"}};
    all.push_back({"labelled.json", labelled.dump(), false});
    all.push_back({"lora.json", adapted.dump()});
    return all;
  }();
  return kModels;
}

const std::map<std::string, std::string>& rule_files() {
  static const std::map<std::string, std::string> kFiles = {
      {"plain.json", R"({"axes": ["dp", "fsdp", "tp", "sp", "ep", "pp"],
        "rules": [["embed|lm_head|wte", [["tp", "fsdp"]]],
                  ["(q|k|v|gate|up)(_proj)?\\.", ["tp", "fsdp"]],
                  ["(o|down)(_proj)?\\.", ["fsdp", "tp"]], [".", []]]})"},
      {"wrong.json", R"({"rules": [["embed", ["tp", "zz"]],
        ["q_proj|up", ["tp", "tp"]], ["never", ["fsdp"]]]})"},
      {"labels.json", R"({"axes": ["dp", "fsdp", "tp", "sp", "ep", "pp"],
        "logical_axis_rules": [["embed", "fsdp"], ["mlp", "fsdp"],
          ["mlp", "tp"], ["heads", "tp"], ["vocab", "tp"]],
        "rules": [["q/", ["fsdp", "tp"]]]})"},
      {"state.json", R"({"rules": [["moment|master", ["fsdp"]], [".", []]]})"},
      {"measured.csv",
       "kind,dtype,m,n,k,bytes,seconds\n"
       "launch,,,,,,9e-6\nproduct,bf16,64,64,64,,9e-6\n"}};
  return kFiles;
}

Question drawn_question(unsigned kind) {
  Question asked;
  std::vector<std::string> paths;
  // Of some models no training step is known.
  const bool any = kind != kStep || one_in(8);
  for (const DrawnModel& model : models()) {
    if (any || model.has_step) paths.push_back(model.path);
  }
  asked.model = pick_of(paths);
  if (asked.model == "labelled.json") {
    asked.rules = "labels.json";
  } else if (asked.model == "lora.json") {
    asked.rules = "plain.json";
  } else {
    asked.rules =
        pick_of(Words{"", "", "@all_models", "plain.json", "wrong.json"});
  }
  asked.mesh = kind == kEngine && !one_in(12)
                   ? pick_of(Words{"tp=2", "dp=2,tp=2", "tp=1", "tp=4", "tp=3",
                                   "pp=2,tp=2", "pp=3"})
                   : pick_of(Words{"fsdp=2", "fsdp=1", "tp=2", "fsdp=2,tp=2",
                                   "dp=2,fsdp=2", "dp=2,tp=4", "fsdp=2,ep=2",
                                   "fsdp=2,sp=2", "fsdp=3", "tp=8",
                                   "pp=2,fsdp=2", "pp=2,tp=2", "pp=4",
                                   "pp=3,fsdp=2", "pp=2,dp=2,tp=2"});
  const auto add = [&](const char* flag, const std::string& value) {
    asked.flags.push_back({flag, value});
  };
  const bool serves = kind == kCache || kind == kEngine;
  if (serves) {
    add("mode", kind == kEngine
                    ? "decode"
                    : pick_of(Words{"decode", "prefill", "insert"}));
  }
  if (kind != kState) {
    add("seq", pick_of(Words{"16", "64", "63", "128", "1k"}));
    if (kind == kStep || one_in(2)) {
      add("batch", pick_of(Words{"8", "16", "4", "12", "6"}));
    }
  }
  if (asked.mesh.starts_with("pp=") ? !one_in(10) : one_in(60)) {
    add("stages",
        one_in(5) ? pick_of(Words{"pp:2,2", "pp:2,3", "pp:1,1,3", "pp:1,1,1,1"})
                  : "pp");
  }
  if (kind == kStep && asked.find("stages") != nullptr && one_in(3)) {
    add("schedule",
        pick_of(Words{"1f1b", "gpipe", "interleaved:1", "interleaved:2"}));
  }
  if (kind == kEngine) {
    add("engine", pick_of(Words{"vllm", "sglang"}));
    add("memory", pick_of(Words{"80GiB", "8GiB", "1GiB", "200MiB"}));
  } else if (!one_in(8)) {
    add("memory", pick_of(Words{"80GiB", "1GiB", "200MiB", "50MiB", "20MiB",
                                "10MiB", "5MiB", "2MiB", "1MiB", "500KiB"}));
  }
  Words axes;
  for (size_t at = 0; at < asked.mesh.size();) {
    const size_t end = std::min(asked.mesh.find(',', at), asked.mesh.size());
    axes.push_back(asked.mesh.substr(at, asked.mesh.find('=', at) - at));
    at = end + 1;
  }
  if (!serves && one_in(3)) {
    add("zero", pick_of(Words{"1", "2", "3"}));
    if (!one_in(12)) add("zero-axes", axes.back());
  }
  if (asked.model == "lora.json" && !serves && one_in(2)) {
    add("trainable", "lora");
  }
  for (const DrawnFlag& each : drawn_flags()) {
    if (!one_in((each.kinds & kind) != 0 ? each.one_in : 400)) continue;
    std::string value = pick_of(each.values);
    if (value == "AXIS") value = pick_of(axes);
    asked.flags.push_back({std::string(each.flag), std::move(value)});
  }
  return asked;
}

// What is drawn, as one line of JSON.
template <unsigned kind>
std::string drawn_line() {
  const Question asked = drawn_question(kind);
  Json line = {asked.model, asked.rules, asked.mesh};
  for (const Given& each : asked.flags) line.push_back({each.flag, each.value});
  return line.dump();
}

Question question_of(const std::string& text) {
  const Json line = Json::parse(text);
  Question asked = {line.at(0), line.at(1), line.at(2), {}};
  for (size_t i = 3; i < line.size(); ++i) {
    asked.flags.push_back({line.at(i).at(0), line.at(i).at(1)});
  }
  return asked;
}

// --- What commands answer

// Several say the same under the same key; one that says nothing leaves it out.
using Answer = std::map<std::string, Json>;

MemoryHost host_of(const Question& asked) {
  MemoryHost host;
  for (const DrawnModel& model : models()) {
    if (model.path == asked.model) host.files[model.path] = model.text;
  }
  for (const auto& [path, text] : rule_files()) host.files[path] = text;
  return host;
}

void append(Words& words, const Given& given) {
  words.push_back("--" + given.flag);
  if (!given.value.empty()) words.push_back(given.value);
}

// The question as words, each in its usual place.
Words asked_words(const char* command, const Question& asked) {
  Words words = {command, asked.model, "--mesh", asked.mesh};
  if (!asked.rules.empty()) {
    words.insert(words.end(), {"--rules", asked.rules});
  }
  for (const Given& each : asked.flags) append(words, each);
  words.emplace_back("--json");
  return words;
}

bool takes_all(const char* command, const Question& asked) {
  return std::ranges::all_of(asked.flags, [&](const Given& each) {
    return is_accepted_by(*find_flag(each.flag), command);
  });
}

// Runs it, and leaves the words and what was printed in the log of the case.
std::optional<Json> report_of(const Words& words, MemoryHost& host,
                              Answer& answer) {
  host.out.clear();
  host.err.clear();
  const int exit = run(words, host);
  testing::case_log() << "\nshardplan " << testing::command_line(words) << "-> "
                      << exit << " " << host.err;
  ENSURE(exit >= 0);
  ENSURE(exit < 3);
  answer["runs"] = exit < 2;
  answer["exit"] = exit;
  const Json report = Json::parse(host.out, nullptr, false);
  ENSURE(!report.is_discarded());
  return report;
}

// The codes that a sweep says with `fits` and `reasons`, and not as findings.
bool is_about_memory(const std::string& code) {
  static const std::set<std::string> kCodes = {"SP301", "SP306", "SP307",
                                               "SP308", "SP309"};
  return kCodes.contains(code);
}

// Findings about the plan, before they are grouped, and what memory gave cause
// to. Where there is no answer, why.
void read_findings(const Json& report, Answer& answer) {
  std::map<std::string, int64_t> counts;
  static const std::regex kDashes("`--");
  std::set<std::string> refusals;
  std::vector<std::string> verdicts;
  std::vector<std::string> refused;
  for (const Json& each : report.at("diagnostics")) {
    const auto code = each.at("code").get<std::string>();
    const auto severity = each.at("severity").get<std::string>();
    const auto message = each.at("message").get<std::string>();
    if (severity == "error" && (code < "SP100" || code == "SP105")) {
      // A configuration file has no dashes before names.
      refusals.insert(code + " " + std::regex_replace(message, kDashes, "`"));
    }
    if (severity == "note") continue;
    if (is_about_memory(code)) {
      verdicts.push_back(code + " " + severity + " " + message);
      if (code == "SP309") refused.push_back(message);
    } else {
      counts[severity] += each.at("findings").get<int64_t>();
    }
  }
  if (answer.at("runs") == false) {
    // A verdict that came before the refusal is no answer.
    answer = {{"runs", false}, {"exit", 2}, {"refusals", refusals}};
    return;
  }
  answer["errors"] = counts["error"];
  answer["warnings"] = counts["warning"];
  answer["verdicts"] = verdicts;
  answer["reasons"] = refused;
}

Answer asked_of(const char* command, const Question& asked) {
  MemoryHost host = host_of(asked);
  Answer answer;
  const auto report = report_of(asked_words(command, asked), host, answer);
  read_findings(*report, answer);
  if (answer.at("runs") == false) return answer;
  const Json& summary = report->at("summary");
  for (const char* key :
       {"fits", "headroom", "memory_limit", "memory_needed", "memory_bracket",
        "memory_bracket_from", "engine_weights", "engine_cache",
        "engine_tokens", "engine_sequences"}) {
    if (summary.contains(key)) answer[key] = summary.at(key);
  }
  return answer;
}

Answer ask_check(const Question& asked) { return asked_of("check", asked); }
Answer ask_analyze(const Question& asked) { return asked_of("analyze", asked); }

// One mesh, so one row, whose findings stand beside those of the sweep.
Answer ask_sweep(const Question& asked) {
  MemoryHost host = host_of(asked);
  Answer answer;
  const auto report = report_of(asked_words("sweep", asked), host, answer);
  read_findings(*report, answer);
  if (answer.at("runs") == false) return answer;
  // Exit 1 means that nothing fits, and findings of a mesh are no errors.
  answer.erase("exit");
  answer.erase("verdicts");
  const Json& points = report->at("tables").at("points");
  ENSURE(points.size() == 1);
  const Json& point = points.at(0);
  answer["reasons"] = Json::array();
  for (const char* key : {"fits", "headroom", "memory_limit"}) {
    answer[key] = point.at(key);
  }
  for (const char* key : {"errors", "warnings"}) {
    answer[key] = answer.at(key).get<int64_t>() + point.at(key).get<int64_t>();
  }
  if (point.contains("lower")) {
    answer["memory_bracket"] = {{"lower", point.at("lower")},
                                {"estimate", point.at("estimate")},
                                {"upper", point.at("upper")}};
    answer["memory_bracket_from"] =
        report->at("summary").at("memory_bracket_from");
    answer["reasons"] = point.at("reasons");
  } else if (asked.find("engine") != nullptr) {
    answer["engine_weights"] = point.at("weights");
    answer["engine_cache"] = point.at("cache");
  } else {
    answer["memory_needed"] = point.at("bytes_per_device");
  }
  return answer;
}

// As a target of shardplan.yaml, whose findings are its verdict.
Answer ask_target(const Question& asked) {
  MemoryHost host = host_of(asked);
  Json target = {{"model", asked.model}, {"mesh", asked.mesh}};
  if (!asked.rules.empty()) target["rules"] = {asked.rules};
  Words words = {"check", "--json"};
  for (const Given& each : asked.flags) {
    if (each.flag == "allow" || each.flag == "deny") {
      append(words, each);
    } else if (each.value.empty()) {
      target[each.flag] = true;
    } else if (find_flag(each.flag)->repeats) {
      target[each.flag].push_back(each.value);
    } else {
      target[each.flag] = each.value;
    }
  }
  host.files["shardplan.yaml"] = Json{{"targets", {{"one", target}}}}.dump();
  Answer answer;
  const auto report = report_of(words, host, answer);
  read_findings(*report, answer);
  return answer;
}

// The plan that `resolve` saved. How a plan is made is said once.
Answer ask_saved_plan(const Question& asked) {
  if (asked.find("engine") != nullptr) return {};  // which declares more
  MemoryHost host = host_of(asked);
  Question making = asked;
  Question judging = asked;
  const auto makes = [](const Given& each) {
    return makes_plan(*find_flag(each.flag));
  };
  std::erase_if(making.flags, [&](const Given& each) { return !makes(each); });
  std::erase_if(judging.flags, [&](const Given& each) {
    return makes(each) && each.flag != "mode";
  });
  Words resolve = asked_words("resolve", making);
  resolve.insert(resolve.end() - 1, {"-o", "one.plan.json"});
  resolve.pop_back();
  if (run(resolve, host) > 1) return {};
  Words words = {"analyze", asked.model, "--plan", "one.plan.json", "--json"};
  for (const Given& each : judging.flags) append(words, each);
  Answer answer;
  const auto report = report_of(words, host, answer);
  read_findings(*report, answer);
  if (answer.at("runs") == false) return answer;
  const Json& summary = report->at("summary");
  Answer said = {{"runs", true},
                 {"exit", answer.at("exit")},
                 {"verdicts", answer.at("verdicts")}};
  for (const char* key : {"fits", "headroom", "memory_limit", "memory_needed",
                          "memory_bracket", "memory_bracket_from"}) {
    if (summary.contains(key)) said[key] = summary.at(key);
  }
  return said;
}

// Both sides of a change that changes nothing.
Answer ask_diff(const Question& asked) {
  if (asked.rules.empty() || !takes_all("diff", asked)) return {};
  MemoryHost host = host_of(asked);
  Question sides = asked;
  sides.rules.clear();
  Words words = asked_words("diff", sides);
  words.insert(words.end(), {"--before", asked.rules, "--after", asked.rules});
  Answer answer;
  const auto report = report_of(words, host, answer);
  read_findings(*report, answer);
  if (answer.at("runs") == false) return answer;
  const Json& summary = report->at("summary");
  ENSURE(summary.at("memory_bracket_before") ==
         summary.at("memory_bracket_after"));
  Answer said = {{"runs", true}};
  if (!summary.at("memory_bracket_after").is_null()) {
    said["memory_bracket"] = summary.at("memory_bracket_after");
  }
  return said;
}

// A command that says whether something fits is a row here.
struct Asked {
  const char* name;
  Answer (*ask)(const Question&);  // empty where it cannot be asked so
};
constexpr Asked kCommands[] = {
    {"analyze", ask_analyze},         {"sweep", ask_sweep},
    {"a target", ask_target},         {"a saved plan", ask_saved_plan},
    {"both sides of diff", ask_diff},
};

// What `check` says is held against its own numbers, and all others against it.
void judge(const Question& asked) {
  const Answer checked = ask_check(asked);
  const auto said = [&](const char* key) -> const Json* {
    const auto found = checked.find(key);
    return found == checked.end() || found->second.is_null() ? nullptr
                                                             : &found->second;
  };
  const Json* const fits = said("fits");
  testing::count_case(checked.at("runs") == false       ? "refused"
                      : said("memory_limit") == nullptr ? "without a limit"
                      : fits == nullptr                 ? "may fit"
                      : *fits == true                   ? "fits"
                                                        : "does not fit");
  const Json* const limit = said("memory_limit");
  const Json* const bracket = said("memory_bracket");
  if (bracket != nullptr) {
    ENSURE(bracket->at("lower") <= bracket->at("estimate"));
    ENSURE(bracket->at("estimate") <= bracket->at("upper"));
  }
  if (fits != nullptr && *fits == true) {
    ENSURE(said("headroom")->get<int64_t>() >= 0);
    if (bracket != nullptr) ENSURE(bracket->at("upper") <= *limit);
  }
  for (const Asked& command : kCommands) {
    const Answer answer = command.ask(asked);
    for (const auto& [key, value] : answer) {
      const auto other = checked.find(key);
      if (other == checked.end()) continue;
      if (other->second == value) continue;
      testing::case_log() << "\n\n"
                          << key << ": check says " << other->second.dump()
                          << ", " << command.name << " says " << value.dump();
      ENSURE(other->second == value);
    }
  }
}

TEST_CASE("check, analyze, sweep, targets, plans and diff answer alike") {
  // A question takes a tenth of a second: all are asked where more are drawn
  // on purpose.
  const char* const params = std::getenv("RC_PARAMS");
  const bool all =
      params != nullptr && testing::has_text(params, "max_success");
  const int nth = all ? 1 : kCountsAllocations ? 2 : 25;
  int drawn_so_far = 0;
  const auto asks = [&](std::string (*drawn)()) {
    return [&, drawn] {
      drawing().seed(draw_any<uint64_t>());
      const std::string line = drawn();
      testing::case_log() << line;
      if (++drawn_so_far % nth == 0) judge(question_of(line));
    };
  };
  CHECK(
      holds("training state fits, whoever is asked", asks(drawn_line<kState>)));
  CHECK(
      holds("a training step fits, whoever is asked", asks(drawn_line<kStep>)));
  CHECK(holds("a cache fits, whoever is asked", asks(drawn_line<kCache>)));
  CHECK(holds("an engine starts, whoever is asked", asks(drawn_line<kEngine>)));
}

}  // namespace
}  // namespace shardplan::cli
