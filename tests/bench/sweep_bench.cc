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
#include "evaluate/step.h"
#include "io/load.h"
#include "memory/sweep.h"
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

// Every way to do the step on a mesh.
std::vector<Candidate> candidates_on(const Placing& placing) {
  std::vector<Candidate> candidates;
  Diagnostics diags;
  for (const int64_t microbatches : {1, 2, 4, 8, 16}) {
    for (const char* remat : {"none", "block", "dots", "full"}) {
      for (const int zero : {0, 1}) {
        Candidate candidate{placing};
        candidate.step.emplace();
        candidate.step->microbatches = microbatches;
        candidate.step->remat = *read_remat(remat, diags);
        candidate.state.emplace();
        candidate.state->optimizer = Optimizer::AdamW;
        candidate.state->zero = zero;
        if (zero > 0) candidate.state->zero_axes = {"dp"};
        candidates.push_back(std::move(candidate));
      }
    }
  }
  return candidates;
}

Searched search(const Model& of, const RuleSet& rules, Diagnostics& diags) {
  Searched searched;
  const auto meshes = factorizations(16384, {"dp", "fsdp", "tp"}, 1000);
  auto found = find_rules(of.manifest, rules, {}, diags);
  const auto model = step_model(of, {}, diags);
  if (!meshes || !found || !model) return searched;
  const Groundwork ground =
      groundwork_of_rules(of.manifest, rules, *std::move(found), of.folding(),
                          of.units(), {}, {}, Places::LeftOut);
  AskedMemory memory;
  memory.options.state.optimizer = Optimizer::AdamW;
  memory.options.limit =
      DeviceLimit{"bench", int64_t{80} << 30, int64_t{80} << 30, false};
  memory.workload = Workload{2048, 8192};
  RuleChange whole;  // the first rule shards nothing
  Evaluator evaluator(ground, {of, &rules, memory, &*model}, {});
  for (const auto& edits :
       {std::vector<RuleChange>{}, std::vector<RuleChange>{whole}}) {
    for (const Mesh& mesh : *meshes) {
      ++searched.meshes;
      for (const Candidate& candidate : candidates_on({edits, mesh, {}, {}})) {
        ++searched.candidates;
        Diagnostics quiet;
        const auto judged = evaluator.judge(candidate, quiet);
        if (judged && judged->step->refused.empty() && judged->fit.will_fit()) {
          ++searched.fitting;
        }
      }
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
