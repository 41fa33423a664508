// SPDX-License-Identifier: Apache-2.0
// Experts of a view beside layers of the mesh: what is run, sent and priced.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "tests/support/memory_host.h"

namespace shardplan::cli {
namespace {

using nlohmann::json;

constexpr std::string_view kExpertsConfig = R"({
  "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe",
  "hidden_size": 32, "intermediate_size": 64, "moe_intermediate_size": 16,
  "num_experts": 16, "num_experts_per_tok": 2, "num_attention_heads": 4,
  "num_key_value_heads": 4, "head_dim": 8, "num_hidden_layers": 1,
  "vocab_size": 64, "decoder_sparse_step": 1, "mlp_only_layers": [],
  "norm_topk_prob": true, "hidden_act": "silu", "tie_word_embeddings": false,
  "torch_dtype": "float32", "rms_norm_eps": 1e-6,
  "max_position_embeddings": 64})";

constexpr std::string_view kExpertsRules = R"(
axes: [dp, fsdp, tp, sp, ep, etp, edp, efsdp]
rules:
  - {pattern: 'experts\.\d+\.(gate|up)', view: experts, deal: ep, spec: [etp, efsdp]}
  - {pattern: 'experts\.\d+\.down', view: experts, deal: ep, spec: [efsdp, etp]}
  - ['(embed|lm_head|(q|k|v)_proj).*weight', [tp, fsdp]]
  - ['o_proj', [fsdp, tp]]
  - ['.*', []]
)";

struct RanViews {
  int code = 0;
  json report;
};

RanViews run_views(std::vector<std::string> words) {
  testing::MemoryHost host;
  host.files["c.json"] = kExpertsConfig;
  host.files["r.yaml"] = kExpertsRules;
  words.insert(words.begin(),
               {"simulate", "c.json", "--rules", "r.yaml", "--json"});
  RanViews ran;
  ran.code = cli::run(words, host);
  ran.report = json::parse(host.out.empty() ? "{}" : host.out);
  return ran;
}

struct Layouts {
  std::string mesh;
  std::string view;
};

// Where the axes of the two meet in the order of devices, and where one cuts
// through another.
const std::vector<Layouts>& meshes_and_views() {
  static const std::vector<Layouts> kAll = {
      {"dp=2", "ep=2"},
      {"dp=4,tp=2", "ep=8"},
      {"dp=4,tp=2", "edp=2,ep=4"},
      {"dp=4,tp=2", "ep=4,edp=2"},
      {"dp=4,tp=2", "efsdp=2,ep=4"},
      {"dp=4,tp=2", "ep=4,etp=2"},
      {"dp=2,tp=4", "ep=2,etp=4"},
      {"dp=4,tp=2", "ep=2,etp=4"},
      {"fsdp=4,tp=2", "efsdp=2,ep=2,etp=2"},
      {"fsdp=2,dp=2,tp=2", "efsdp=2,ep=4"},
      {"dp=4,tp=4", "edp=2,ep=8"},
      {"dp=2,sp=2,tp=2", "ep=8"},
      {"dp=2,sp=2", "ep=2,edp=2"},
      {"dp=2,sp=4", "edp=2,ep=4"},
      {"dp=2,sp=4", "ep=4,edp=2"},
  };
  return kAll;
}

TEST_CASE("experts of a view compute what the unsharded model computes") {
  for (const Layouts& each : meshes_and_views()) {
    for (const char* values : {"random", "field"}) {
      CAPTURE(each.mesh);
      CAPTURE(each.view);
      CAPTURE(values);
      const RanViews ran =
          run_views({"--mesh", each.mesh, "--view", "experts:" + each.view,
                     "--values", values, "--allow", "SP513"});
      CHECK(ran.code == 0);
      const json& summary = ran.report.at("summary");
      CHECK(summary.at("verdict") == "ok");
      CHECK(summary.at("bytes_moved") == summary.at("bytes_priced"));
    }
  }
}

// Of one kind, summed over the axes that they go over.
int64_t bytes_sent(const json& report, std::string_view kind) {
  int64_t bytes = 0;
  for (const json& row : report.at("tables").at("collectives")) {
    if (row.at("kind") == kind) {
      bytes += row.at("bytes_per_device").get<int64_t>();
    }
  }
  return bytes;
}

TEST_CASE("tokens go to experts by all-to-all, weights stay where they are") {
  // 16 experts have 16 places for each sequence, of 32 numbers of 4 bytes; half
  // of one sequence's are on the other device, there and back.
  const RanViews two = run_views({"--mesh", "dp=2", "--view", "experts:ep=2"});
  CHECK(bytes_sent(two.report, "all-to-all") == 2 * 16 * 16 * 32 * 4 / 2);
  CHECK(bytes_sent(two.report, "all-gather") == 0);
  for (const Layouts& each : meshes_and_views()) {
    CAPTURE(each.mesh);
    CAPTURE(each.view);
    const RanViews ran =
        run_views({"--mesh", each.mesh, "--view", "experts:" + each.view});
    for (const json& row : ran.report.at("tables").at("collectives")) {
      if (row.at("cause") != "gathers weights") continue;
      const std::string axis = row.at("axis");
      CAPTURE(axis);
      CHECK((axis == "fsdp" || axis == "efsdp"));
    }
  }
}

TEST_CASE("devices that have a part of a sequence send it by themselves") {
  // 16 experts have 8 places for each half of a sequence, of 32 numbers of 4
  // bytes; half of them go over each of two axes, there and back.
  const RanViews ran =
      run_views({"--mesh", "dp=2,sp=2", "--view", "experts:ep=4"});
  CHECK(bytes_sent(ran.report, "all-to-all") == 2 * 2 * 16 * 8 * 32 * 4 / 2);
  // One token on each device, as where one is decoded.
  const RanViews one = run_views(
      {"--mesh", "dp=2,sp=2", "--view", "experts:ep=4", "--tokens", "2x2"});
  CHECK(bytes_sent(one.report, "all-to-all") == 2 * 2 * 16 * 1 * 32 * 4 / 2);
  // With room for fewer, which tokens are dropped follows from all of them.
  const RanViews few = run_views(
      {"--mesh", "dp=2,sp=2", "--view", "experts:ep=4", "--capacity", "2"});
  CHECK(few.report.at("summary").at("verdict") == "ok");
  CHECK(bytes_sent(few.report, "all-to-all") < 2 * 2 * 16 * 8 * 32 * 4 / 2);
}

TEST_CASE("views without common sub-axes are resolved and not run") {
  const RanViews ran =
      run_views({"--mesh", "dp=3,tp=2", "--view", "experts:ep=2,edp=3"});
  CHECK(ran.code == 2);
  CHECK(ran.report.dump().find("in incompatible ways") != std::string::npos);
}

}  // namespace
}  // namespace shardplan::cli
