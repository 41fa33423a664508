// SPDX-License-Identifier: Apache-2.0
// Commands over meshes with views: rows of programs against arithmetic, sweeps,
// and what is suggested where memory runs out.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "tests/support/hf_config.h"
#include "tests/support/memory_host.h"
#include "tests/support/words.h"

namespace shardplan::cli {
namespace {

using shardplan::testing::MemoryHost;
using testing::has_text;
using testing::Words;
using ViewsJson = nlohmann::json;

constexpr int kExperts = 5;

// Attention of one layer, and five experts that are stored one by one.
MemoryHost host_of_views() {
  MemoryHost host;
  ViewsJson model = {
      {"layers.0.attn.q", {{"shape", {16, 16}}, {"dtype", "bf16"}}}};
  for (int expert = 0; expert < kExperts; ++expert) {
    model["layers.0.mlp.experts." + std::to_string(expert) + ".up"] = {
        {"shape", {32, 16}}, {"dtype", "bf16"}};
  }
  host.files["m.json"] = model.dump();
  host.files["r.yaml"] =
      "axes: [dp, tp, ep, etp, edp]\n"
      "rules:\n"
      "  - [\"attn\", [tp, null]]\n"
      "  - {pattern: \"experts\", view: experts, deal: ep, spec: [etp, "
      "null]}\n";
  return host;
}

ViewsJson json_of(Words words) {
  MemoryHost host = host_of_views();
  const Words rest(words.begin() + 1, words.end());
  Words all = {words.front(), "m.json", "-r",
               "r.yaml",      "--json", "--exit-zero"};
  all.insert(all.end(), rest.begin(), rest.end());
  const int code = run(all, host);
  CAPTURE(host.out);
  CAPTURE(host.err);
  REQUIRE((code == 0 || code == 1));
  return ViewsJson::parse(host.out);
}

TEST_CASE("rows of placements say the view, and the rank of each expert") {
  const ViewsJson report = json_of(
      {"resolve", "-m", "dp=2,tp=4", "--view", "experts:ep=2,edp=2,etp=2"});
  CHECK(report.at("summary").at("mesh") == ViewsJson{{"dp", 2}, {"tp", 4}});
  CHECK(report.at("summary").at("views") ==
        ViewsJson{{"experts", {{"ep", 2}, {"edp", 2}, {"etp", 2}}}});
  const auto& rows = report.at("tables").at("placements");
  REQUIRE(rows.size() == kExperts + 1);
  for (const auto& row : rows) {
    const auto name = row.at("parameter").get<std::string>();
    CAPTURE(name);
    if (name == "layers.0.attn.q") {
      CHECK(row.at("view").is_null());
      CHECK(row.at("dealt").is_null());
      CHECK(row.at("shards") == 4);
      CHECK(row.at("replicas") == 2);
      continue;
    }
    const int expert = name[std::string("layers.0.mlp.experts.").size()] - '0';
    CHECK(row.at("view") == "experts");
    CHECK(row.at("dealt") ==
          ViewsJson{{"axis", "ep"}, {"rank", expert * 2 / kExperts}});
    CHECK(row.at("shards") == 2);
    CHECK(row.at("replicas") == 8 / (2 * 2));
    CHECK(row.at("bytes_per_device") == 32 / 2 * 16 * 2);
  }
  // Rank 0 holds three experts, rank 1 two; attention is everywhere.
  const auto& memory = report.at("summary").at("memory_per_device");
  CHECK(memory.at("max") == 16 * 16 * 2 / 4 + 3 * 512);
  CHECK(memory.at("min") == 16 * 16 * 2 / 4 + 2 * 512);
}

TEST_CASE("inspect --shard has the devices of the expert's rank alone") {
  MemoryHost host = host_of_views();
  REQUIRE(run({"inspect", "m.json", "-r", "r.yaml", "-m", "dp=2,tp=4", "--view",
               "experts:ep=2,edp=2,etp=2", "--shard",
               "layers.0.mlp.experts.3.up", "--json", "--exit-zero"},
              host) == 0);
  const ViewsJson report = ViewsJson::parse(host.out);
  CHECK(report.at("summary").at("view") == "experts");
  CHECK(report.at("summary").at("dealt") ==
        ViewsJson{{"axis", "ep"}, {"rank", 1}});
  std::set<int> devices;
  for (const auto& row : report.at("tables").at("shards")) {
    const int device = row.at("device").get<int>();
    devices.insert(device);
    CHECK(row.at("coordinates") ==
          ViewsJson{device / 4, device / 2 % 2, device % 2});
    CHECK(row.at("begin") == ViewsJson{device % 2 * 16, 0});
  }
  CHECK(devices == std::set<int>{4, 5, 6, 7});
}

TEST_CASE("a sweep tries sizes of views, and counts those that do not fit") {
  const ViewsJson report = json_of(
      {"sweep", "-m", "dp=1,2,tp=4", "--view", "experts:ep=1,2,8,etp=-1"});
  // ep=8 has more devices than dp=1,tp=4.
  CHECK(report.at("summary").at("left_out") == 1);
  CHECK(report.at("summary").at("points") == 5);
  std::set<std::string> seen;
  for (const auto& row : report.at("tables").at("points")) {
    CHECK(row.at("views").contains("experts"));
    seen.insert(row.at("mesh").dump() + row.at("views").dump());
    const int ep = row.at("views").at("experts").at("ep").get<int>();
    const int etp = row.at("views").at("experts").at("etp").get<int>();
    CHECK(ep * etp == row.at("devices").get<int>());
    const int most = (kExperts + ep - 1) / ep;
    CHECK(row.at("bytes_per_device") == 128 + most * 1024 / etp);
  }
  CHECK(seen.size() == 5);
  // Two flags for one name are two choices, and so are lists behind `;`.
  for (const Words& views :
       {Words{"--view", "experts:ep=2,etp=4", "--view", "experts:ep=8,etp=1"},
        Words{"--view", "experts:ep=2,etp=4;ep=8,etp=1"}}) {
    Words words = {"sweep", "-m", "dp=2,tp=4"};
    words.insert(words.end(), views.begin(), views.end());
    const ViewsJson two = json_of(words);
    CHECK(two.at("summary").at("points") == 2);
    CHECK(two.at("summary").at("left_out") == 0);
  }
}

TEST_CASE("a sweep whose views fit no mesh says why") {
  MemoryHost host = host_of_views();
  CHECK(run({"sweep", "m.json", "-r", "r.yaml", "-m", "dp=2,4,tp=4", "--view",
             "experts:ep=3,etp=2"},
            host) == 2);
  CHECK(has_text(host.err, "view `experts` has 6 devices, but the mesh has 8"));
  CHECK(has_text(host.err, "all 2 combinations of mesh and views"));
  MemoryHost other = host_of_views();
  CHECK(run({"sweep", "m.json", "-r", "r.yaml", "-m", "dp=2,tp=4", "--view",
             "experts"},
            other) == 2);
  CHECK(has_text(other.err, "is not a view"));
}

// The flags that a suggestion names, from `--mesh`, `--view` or `--zero` on.
std::vector<Words> suggested(const std::string& text) {
  std::vector<Words> all;
  size_t at = 0;
  while ((at = text.find('`', at)) != std::string::npos) {
    const size_t end = text.find('`', at + 1);
    if (end == std::string::npos) break;
    const std::string quoted = text.substr(at + 1, end - at - 1);
    at = end + 1;
    if (!quoted.starts_with("--mesh ") && !quoted.starts_with("--view ") &&
        !quoted.starts_with("--zero ") && !quoted.starts_with("--expert-")) {
      continue;
    }
    Words words;
    for (size_t begin = 0; begin < quoted.size();) {
      const size_t blank = std::min(quoted.find(' ', begin), quoted.size());
      words.push_back(quoted.substr(begin, blank - begin));
      begin = blank + 1;
    }
    all.push_back(words);
  }
  return all;
}

TEST_CASE("suggestions keep the views, and can be typed") {
  const Words asked = {"analyze",  "m.json",      "-r",
                       "r.yaml",   "--optimizer", "adamw",
                       "--memory", "14KiB",       "--exit-zero"};
  const std::map<std::string, std::string> given = {
      {"--mesh", "dp=2,tp=2"}, {"--view", "experts:ep=2,edp=2"}};
  const auto ran = [&](const std::map<std::string, std::string>& flags) {
    MemoryHost host = host_of_views();
    Words words = asked;
    for (const auto& [flag, value] : flags) {
      words.insert(words.end(), {flag, value});
    }
    const int code = run(words, host);
    return std::pair(code, host.out + host.err);
  };
  const std::pair<int, std::string> first = ran(given);
  const std::string& text = first.second;
  CAPTURE(text);
  REQUIRE(first.first == 0);
  const std::vector<Words> all = suggested(text);
  bool any_mesh = false;
  bool any_view = false;
  bool any_zero = false;
  for (const Words& words : all) {
    std::map<std::string, std::string> flags = given;
    for (size_t i = 0; i + 1 < words.size(); i += 2) {
      flags[words[i]] = words[i + 1];
      any_mesh = any_mesh || words[i] == "--mesh";
      any_view = any_view || words[i] == "--view";
      any_zero = any_zero || words[i] == "--zero-axes";
    }
    const std::pair<int, std::string> again = ran(flags);
    CAPTURE(again.second);
    CHECK(again.first == 0);
    CHECK(has_text(again.second, "experts ep="));
  }
  CHECK(any_mesh);
  CHECK(any_view);
  CHECK(any_zero);
}

// Two layers of eight experts, each of three matrices of 64 x 32.
constexpr const char* kMoeConfig = R"({"model_type": "qwen3_moe",
  "architectures": ["Qwen3MoeForCausalLM"], "dtype": "bfloat16",
  "hidden_size": 64, "intermediate_size": 128, "moe_intermediate_size": 32,
  "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4,
  "head_dim": 8, "num_experts": 8, "num_experts_per_tok": 2,
  "decoder_sparse_step": 1, "mlp_only_layers": [], "norm_topk_prob": true,
  "vocab_size": 1024, "tie_word_embeddings": false})";

// What a command says of it; JSON where it could run.
std::pair<int, std::string> run_moe(const char* command, const Words& more) {
  MemoryHost host;
  host.files["config.json"] = kMoeConfig;
  Words words = {command, "config.json", "--json", "--exit-zero"};
  words.insert(words.end(), more.begin(), more.end());
  const int code = run(words, host);
  return {code, host.out + host.err};
}

TEST_CASE("degrees of frameworks place experts as the view does") {
  struct Row {
    const char* mesh;
    Words flags;
    const char* view;
    int64_t ranks;  // that share out the experts' bytes
  };
  const Row rows[] = {
      {"dp=4,tp=2",
       {"--expert-model-parallel-size", "4"},
       "experts:edp=1,ep=4,etp=2",
       8},
      {"pp=2,dp=4,tp=2",
       {"--expert-model-parallel-size", "4", "--expert-tensor-parallel-size",
        "1"},
       "experts:pp=2,edp=2,ep=4,etp=1",
       4},
      {"fsdp=4,tp=2",
       {"--expert-parallel-degree", "4"},
       "experts:efsdp=2,ep=4",
       8},
      {"dp_replicate=2,fsdp=4,tp=2",
       {"--expert-parallel-degree", "2", "--expert-tensor-parallel-degree",
        "2"},
       "experts:dp_replicate=2,efsdp=2,ep=2,etp=2",
       8},
  };
  constexpr int64_t kBytes = int64_t{2} * 8 * 3 * 64 * 32 * 2;
  for (const Row& row : rows) {
    for (const Words& scheme :
         {Words{"-r", "@qwen3_moe"}, Words{"-r", "@all_models"},
          Words{"-r", "@qwen3_moe", "--scheme", "transformers-5"}}) {
      CAPTURE(row.view);
      Words by_flags = {"-m", row.mesh};
      by_flags.insert(by_flags.end(), scheme.begin(), scheme.end());
      Words by_view = by_flags;
      by_view.insert(by_view.end(), {"--view", row.view});
      by_flags.insert(by_flags.end(), row.flags.begin(), row.flags.end());
      const auto flags = run_moe("resolve", by_flags);
      CAPTURE(flags.second);
      REQUIRE(flags.first == 0);
      CHECK(flags == run_moe("resolve", by_view));
      // Each rank has as many bytes of experts as the others.
      std::map<int64_t, int64_t> held;  // by rank; -1: all have them
      const ViewsJson report = ViewsJson::parse(flags.second);
      for (const ViewsJson& placed : report.at("tables").at("placements")) {
        const std::string name = placed.at("parameter");
        if (!has_text(name, "experts")) continue;
        CHECK(placed.at("view") == "experts");
        const bool dealt = !placed.at("dealt").is_null();
        held[dealt ? placed.at("dealt").at("rank").get<int64_t>() : -1] +=
            placed.at("bytes_per_device").get<int64_t>();
      }
      for (const auto& each : held) {
        CAPTURE(each.first);
        CHECK(each.second == kBytes / row.ranks);
      }
    }
  }
}

TEST_CASE("sweeps leave out meshes whose degrees a framework refuses") {
  const auto swept =
      run_moe("sweep", {"-r", "@qwen3_moe", "-m", "fsdp=2,3,4,tp=2",
                        "--expert-parallel-degree", "4"});
  REQUIRE(swept.first == 0);
  const ViewsJson report = ViewsJson::parse(swept.second);
  CHECK(report.at("tables").at("points").size() == 2);
  CHECK(has_text(swept.second,
                 "on mesh fsdp=3,tp=2 torchtitan rejects "
                 "`--expert-parallel-degree 4`: 6 devices along dp_shard x cp "
                 "x tp are not divisible by 4"));
}

TEST_CASE("a saved plan takes degrees of expert parallelism") {
  MemoryHost host;
  host.files["config.json"] = kMoeConfig;
  REQUIRE(run({"resolve", "config.json", "-r", "@qwen3_moe", "-m", "dp=4,tp=2",
               "--expert-model-parallel-size", "2", "-o", "p.plan.json",
               "--exit-zero"},
              host) == 0);
  host.out.clear();
  REQUIRE(run({"resolve", "config.json", "--plan", "p.plan.json",
               "--expert-model-parallel-size", "4", "--json", "--exit-zero"},
              host) == 0);
  CHECK(ViewsJson::parse(host.out).at("summary").at("views").dump() ==
        R"({"experts":{"edp":1,"ep":4,"etp":2}})");
}

TEST_CASE("suggestions keep the flags of a framework, and can be typed") {
  const Words asked = {"--optimizer", "adamw", "-r", "@qwen3_moe"};
  const auto ran = [&](const std::map<std::string, std::string>& flags) {
    Words words = asked;
    for (const auto& [flag, value] : flags) {
      words.insert(words.end(), {flag, value});
    }
    return run_moe("check", words);
  };
  const std::map<std::string, std::string> given[] = {
      {{"--memory", "1MiB"},
       {"--mesh", "dp=2,tp=2"},
       {"--expert-model-parallel-size", "2"}},
      {{"--memory", "900KiB"},
       {"--mesh", "fsdp=2,tp=2"},
       {"--expert-parallel-degree", "2"}}};
  for (const auto& start : given) {
    const auto first = ran(start);
    CAPTURE(first.second);
    REQUIRE(first.first == 0);
    int degrees = 0;
    for (const Words& words : suggested(first.second)) {
      std::map<std::string, std::string> flags = start;
      for (size_t i = 0; i + 1 < words.size(); i += 2) {
        flags[words[i]] = words[i + 1];
        degrees += has_text(words[i], "--expert-") ? 1 : 0;
      }
      CHECK_FALSE(flags.contains("--view"));
      const auto again = ran(flags);
      CAPTURE(again.second);
      CHECK(again.first == 0);
    }
    CHECK(degrees > 0);
  }
}

TEST_CASE("an engine's way with experts is a view of it") {
  struct Row {
    Words engine;
    Words flags;
    const char* view;
    const char* views;
  };
  const Row rows[] = {
      {{"vllm", "-m", "dp=2,tp=4"},
       {"--expert-parallel"},
       "experts:ep=8",
       R"({"experts":{"ep":8}})"},
      {{"vllm", "-m", "dp=2,tp=4"},
       {},
       "experts:etp=8",
       R"({"experts":{"etp":8}})"},
      {{"vllm", "-m", "tp=4"},
       {"--expert-parallel"},
       "experts:ep=4",
       R"({"experts":{"ep":4}})"},
      {{"vllm", "-m", "tp=4"}, {}, "experts:etp=4", "{}"},
      {{"vllm", "-m", "pp=2,data=2,model=2", "--stages", "pp"},
       {"--expert-parallel"},
       "experts:pp=2,ep=4",
       R"({"experts":{"ep":4,"pp":2}})"},
      {{"sglang", "-m", "dp=2,tp=4"},
       {"--expert-parallel"},
       "experts:edp=2,ep=4",
       R"({"experts":{"dp":2,"ep":4}})"},
      {{"sglang", "-m", "dp=2,tp=4", "--dp-attention"},
       {"--expert-parallel"},
       "experts:ep=8",
       R"({"dense":{"dense_tp":8},"experts":{"ep":8}})"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.view);
    Words words = {"--mode",     "decode", "--seq",    "1024",
                   "--hardware", "l40s",   "--engine", row.engine.front()};
    words.insert(words.end(), row.engine.begin() + 1, row.engine.end());
    Words by_view = words;
    by_view.insert(by_view.end(), {"--view", row.view});
    words.insert(words.end(), row.flags.begin(), row.flags.end());
    for (const char* command : {"analyze", "check"}) {
      const auto flags = run_moe(command, words);
      const auto viewed = run_moe(command, by_view);
      CAPTURE(viewed.second);
      REQUIRE(flags.first == 0);
      REQUIRE(viewed.first == 0);
      const ViewsJson by_flags = ViewsJson::parse(flags.second);
      const ViewsJson with_view = ViewsJson::parse(viewed.second);
      CHECK(by_flags.at("summary").at("views").dump() == row.views);
      int same = 0;
      for (const char* part : {"summary", "tables"}) {
        for (const auto& each : by_flags.at(part).items()) {
          const std::string& key = each.key();
          if (!key.starts_with("engine") && key != "views") continue;
          CAPTURE(key);
          CHECK(with_view.at(part).at(key) == each.value());
          ++same;
        }
      }
      CHECK(same >= 9);
    }
  }
}

TEST_CASE("what an engine does not do with experts is refused") {
  struct Row {
    Words flags;
    std::vector<const char*> says;
  };
  const Row rows[] = {
      {{"--view", "experts:ep=4,edp=2"},
       {"vLLM does not shard a model as view `experts:ep=4,edp=2`",
        "on dp=2,tp=4 each expert is sharded: `experts:etp=8`",
        "each rank holds whole experts: `experts:ep=8`",
        "use `--expert-parallel` instead"}},
      {{"--view", "experts:etp=8", "--expert-parallel"},
       {"as view `experts:etp=8`", "write `--view experts:ep=8`"}},
      {{"--view", "other:x=8"},
       {"as view `other:x=8`", "leave out the view `other`"}},
      {{"--expert-model-parallel-size", "2"},
       {"flags of Megatron, but vLLM serves the model",
        "use `--expert-parallel` instead"}},
      {{"--expert-tensor-parallel-size", "1"},
       {"flags of Megatron, but vLLM serves the model"}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.says.front());
    Words words = {"--mode", "decode",   "--seq", "1024", "--hardware",
                   "l40s",   "--engine", "vllm",  "-m",   "dp=2,tp=4"};
    words.insert(words.end(), row.flags.begin(), row.flags.end());
    const auto refused = run_moe("check", words);
    CAPTURE(refused.second);
    CHECK(refused.first == 2);
    CHECK(has_text(refused.second, "SP010"));
    for (const char* text : row.says) {
      CAPTURE(text);
      CHECK(has_text(refused.second, text));
    }
  }
}

TEST_CASE("suggestions for an engine keep its views, and can be typed") {
  const auto ran = [](const Words& mesh) {
    MemoryHost host;
    host.files["config.json"] =
        shardplan::testing::sample_config("qwen3-30b-a3b").dump();
    Words words = {"check",    "config.json", "--mode",   "decode",
                   "--seq",    "8192",        "--batch",  "64",
                   "--memory", "33GiB",       "--engine", "vllm"};
    words.insert(words.end(), mesh.begin(), mesh.end());
    const int code = run(words, host);
    return std::pair(code, host.out + host.err);
  };
  const auto found = ran({"-m", "tp=2", "--view", "experts:ep=2"});
  CAPTURE(found.second);
  REQUIRE(found.first == 1);
  int meshes = 0;
  for (const Words& words : suggested(found.second)) {
    if (words.front() != "--mesh") continue;
    const auto again = ran(words);
    CAPTURE(again.second);
    CHECK(again.first == 0);
    CHECK(has_text(again.second, "experts ep="));
    ++meshes;
  }
  CHECK(meshes > 0);
}

}  // namespace
}  // namespace shardplan::cli
