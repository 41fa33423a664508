// SPDX-License-Identifier: Apache-2.0
// Candidates of a search: a model of 405 billion parameters on 16,384 devices,
// every mesh of three axes under every way to do a step, with and without ZeRO,
// and under changed rules; on one thread.
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "evaluate/evaluate.h"
#include "io/load.h"
#include "memory/sweep.h"
#include "session/step.h"
#include "tests/bench/bench.h"
#include "tests/support/memory_host.h"

namespace shardplan::bench {
namespace {

// Llama 3.1 405B.
constexpr const char* kConfig = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama",
  "hidden_size": 16384, "intermediate_size": 53248, "num_hidden_layers": 126,
  "num_attention_heads": 128, "num_key_value_heads": 8, "vocab_size": 128256,
  "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "torch_dtype": "bfloat16",
  "tie_word_embeddings": false, "max_position_embeddings": 131072
})";

struct Searched {
  int64_t meshes = 0;
  int64_t candidates = 0;
  int64_t fitting = 0;
};

// Every way to do the step under one plan.
void search_steps(const StepModel& model, const Manifest& manifest,
                  const RuleSet& rules, const Plan& plan, Searched& searched) {
  const PlanRequest planning;
  const MemoryRequest memory;
  const WorkloadRequest workload;
  const LayerGroups groups = layer_groups(manifest, plan.placement_of);
  Steps steps({planning, memory, workload}, model, manifest, plan, &rules);
  Diagnostics diags;
  for (const int64_t microbatches : {1, 2, 4, 8, 16}) {
    for (const char* remat : {"none", "block", "dots", "full"}) {
      for (const int zero : {0, 1}) {
        StepOptions step;
        step.microbatches = microbatches;
        step.remat = *read_remat(remat, diags);
        BudgetOptions how;
        how.state.optimizer = Optimizer::AdamW;
        how.state.zero = zero;
        if (zero > 0) how.state.zero_axes = {"dp"};
        how.limit =
            DeviceLimit{"bench", int64_t{80} << 30, int64_t{80} << 30, false};
        ++searched.candidates;
        const auto budget = make_budget(manifest, plan, groups, how, diags);
        if (!budget) continue;
        const auto judged = steps.judge({2048, 8192}, how, *budget,
                                        model.sized(step, {}), diags);
        if (judged && judged->refused.empty() && judged->fit.surely()) {
          ++searched.fitting;
        }
      }
    }
  }
}

Searched search(const Model& of, const RuleSet& rules, Diagnostics& diags) {
  const Manifest& manifest = of.manifest;
  Searched searched;
  const auto meshes = factorizations(16384, {"dp", "fsdp", "tp"}, 1000);
  auto found = find_rules(manifest, rules, {}, diags);
  const auto model = step_model(of, {}, diags);
  if (!meshes || !found || !model) return searched;
  const Groundwork ground =
      groundwork_of_rules(manifest, rules, *std::move(found), of.folding(),
                          of.units(), {}, {}, Places::LeftOut);
  RuleChange whole;  // the first rule shards nothing
  Evaluator evaluator(ground);
  for (const auto& edits :
       {std::vector<RuleChange>{}, std::vector<RuleChange>{whole}}) {
    for (const Mesh& mesh : *meshes) {
      Diagnostics findings;
      auto judged =
          evaluator.judge({edits, mesh, {}, {}}, mesh, kMeshSides, findings);
      if (!judged) continue;
      ++searched.meshes;
      search_steps(*model, manifest, judged->matched->rules.rules,
                   plan_of_all(std::move(judged->plan), ground.groups),
                   searched);
    }
  }
  return searched;
}

}  // namespace

void bench_sweep() {
  std::printf(
      "### sweep\n"
      "| model | plans | candidates | that fit | milliseconds for each |\n"
      "|---|---:|---:|---:|---:|\n");
  testing::MemoryHost host;
  host.files["405b.json"] = kConfig;
  Diagnostics diags;
  auto manifest = load_manifest("405b.json", host, diags);
  const std::vector<std::string> sets = {"@llama"};
  const auto rules = load_rules(sets, std::nullopt, {}, host, diags);
  if (!manifest || !rules) return;
  const Model model(*std::move(manifest));
  Searched searched;
  const double seconds =
      seconds_of([&] { searched = search(model, *rules, diags); });
  std::printf("| Llama 3.1 405B | %s | %s | %s | %.2f |\n",
              count_text(searched.meshes).c_str(),
              count_text(searched.candidates).c_str(),
              count_text(searched.fitting).c_str(),
              1000 * seconds / static_cast<double>(searched.candidates));
}

}  // namespace shardplan::bench
