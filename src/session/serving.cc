// SPDX-License-Identifier: Apache-2.0
// Checks the flags of an engine, and reads the models that it serves.
#include "session/serving.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/text.h"
#include "base/words.h"
#include "core/types.h"
#include "io/load.h"

namespace shardplan {
namespace {

struct GivenFlag {
  std::string flag;
  bool given;
};

// Rejects flags for what the engine decides itself: ignoring them would answer
// another question.
bool check_beside_engine(const Engine& engine, const MemoryRequest& memory,
                         Diagnostics& diags) {
  const std::array<GivenFlag, 7> flags = {
      {{"reserve", memory.reserve > 0 || memory.reserve_fraction > 0},
       {"fragmentation", memory.fragmentation > 0},
       {"live-layers", memory.live_layers != 1},
       {"compute-dtype", memory.state.compute_dtype.has_value()},
       {"source-seq", memory.source_seq.has_value()},
       {"zero", memory.state.zero > 0},
       {"zero-axes", !memory.state.zero_axes.empty()}}};
  bool good = true;
  for (const GivenFlag& flag : flags) {
    if (!flag.given) continue;
    good = refuse_flags(
        std::string(engine.title) + " has no `--" + flag.flag + "`",
        "leave it out: the engine's own `--" + std::string(engine.share_flag) +
            "` sets how much of a device it uses, and it shards weights by "
            "itself",
        diags);
  }
  return good;
}

bool check_without_engine(const EngineRequest& engine, Diagnostics& diags) {
  const std::array<GivenFlag, 13> flags = {
      {{engine.share_flag, engine.share.has_value()},
       {"max-batched-tokens", engine.batched_tokens.has_value()},
       {"max-seqs", engine.sequences.has_value()},
       {"expert-parallel", engine.expert_parallel},
       {"dp-attention", engine.dp_attention},
       {"draft", engine.draft.has_value()},
       {"input-tokens", engine.input_tokens.has_value()},
       {"output-tokens", engine.output_tokens.has_value()},
       {"concurrency", engine.concurrency.has_value()},
       {"max-loras", engine.max_loras.has_value()},
       {"max-lora-rank", engine.max_lora_rank.has_value()},
       {"fully-sharded-loras", engine.fully_sharded_loras},
       {"lora-target-modules", !engine.lora_targets.empty()}}};
  bool good = true;
  for (const GivenFlag& flag : flags) {
    if (!flag.given) continue;
    good = refuse_flags("`--" + flag.flag + "` needs an engine",
                        "add `--engine`, e.g. `--engine vllm`", diags);
  }
  return good;
}

// Checks that a workload has input and output tokens, and that both together
// fit the requested sequence length of the cache.
bool check_workload(const EngineRequest& engine, const MemoryRequest& memory,
                    Diagnostics& diags) {
  const bool any =
      engine.input_tokens || engine.output_tokens || engine.concurrency;
  if (!any) return true;
  if (!engine.workload()) {
    return refuse_flags(
        "a workload needs `--input-tokens` and `--output-tokens`",
        "add both, e.g. `--input-tokens 1024 --output-tokens 256`", diags);
  }
  const int64_t needed = *engine.input_tokens + *engine.output_tokens;
  if (*memory.seq >= needed) return true;
  return refuse_flags("`--seq " + std::to_string(*memory.seq) +
                          "` is shorter than prompt plus output, " +
                          std::to_string(needed) + " tokens",
                      "leave it out to use that length", diags);
}

// Checks the targets: a target that no layer has would reserve no memory.
bool targets_are_there(const std::vector<std::string>& targets,
                       const ServedWeights& model, const Engine& row,
                       Diagnostics& diags) {
  std::set<std::string> names = {"all-linear", "embed_tokens", "lm_head"};
  std::vector<std::string_view> layers;
  for (size_t i = 0; i < model.matrices.size(); ++i) {
    if (!model.matrices[i] || model.matrices[i]->bias) continue;
    const ParameterClass& of = model.folding->classes[i];
    layers.push_back(model.folding->folded_names[of.folded]);
    names.insert(std::string(slot_module(layers.back())));
  }
  const std::vector<std::string> known(names.begin(), names.end());
  bool good = true;
  for (const std::string& target : targets) {
    const LoraSlots alone = {1, 1, false, {target}};
    const auto has_target = [&](std::string_view layer) {
      return has_slots(alone, row, layer, true);
    };
    if (names.contains(target) || std::ranges::any_of(layers, has_target)) {
      continue;
    }
    good = false;
    suggest(
        diags.error(Code::Usage, {},
                    "`--lora-target-modules` names " + in_backticks(target) +
                        ", but no layer has that name"),
        target, known);
  }
  return good;
}

}  // namespace

bool check_engine_request(const EngineRequest& engine,
                          const MemoryRequest& memory,
                          const PlanRequest& planning, Diagnostics& diags) {
  if (!engine.name) return check_without_engine(engine, diags);
  const Engine& row = *find_engine(*engine.name);
  const std::string given = "`--engine " + *engine.name + "`";
  if (planning.mode != Mode::Decode) {
    return refuse_flags(given + " needs `--mode decode`", "add `--mode decode`",
                        diags);
  }
  if (!memory.seq) {
    return refuse_flags(
        given + " needs `--seq`, the tokens of each sequence",
        "add `--seq`, e.g. `--seq 8192`, or a workload, e.g. "
        "`--input-tokens 1024 --output-tokens 256 --concurrency "
        "16`",
        diags);
  }
  if (!memory.hardware && !memory.limit) {
    return refuse_flags(
        given + " takes a share of device memory, whose size is not given",
        "add `--hardware` or `--memory`", diags);
  }
  bool good = check_beside_engine(row, memory, diags) &&
              check_workload(engine, memory, diags);
  if (planning.asks_experts()) {
    good = refuse_flags(
        "expert parallelism is given in flags of " +
            std::string(planning.megatron.given() ? "Megatron" : "torchtitan") +
            ", but " + std::string(row.title) + " serves the model",
        "use `--expert-parallel` instead: it places whole experts over all "
        "ranks that hold experts",
        diags);
  }
  if (engine.share && engine.share_flag != row.share_flag) {
    good = refuse_flags(
        std::string(row.title) + " does not have `--" + engine.share_flag + "`",
        "use `--" + std::string(row.share_flag) + "`", diags);
  }
  if (engine.dp_attention && !row.dp_attention) {
    good =
        refuse_flags(std::string(row.title) + " does not have `--dp-attention`",
                     "use `--expert-parallel`, with which its data-parallel "
                     "groups share experts",
                     diags);
  }
  if (engine.fully_sharded_loras && !row.shares_loras) {
    good = refuse_flags(
        std::string(row.title) + " does not have `--fully-sharded-loras`",
        "leave it out", diags);
  }
  if (engine.has_loras() && !row.shares_loras &&
      (!engine.max_lora_rank || engine.lora_targets.empty())) {
    good =
        refuse_flags(std::string(row.title) +
                         " sets LoRA rank and target modules from the adapters "
                         "that it loads",
                     "give both: `--max-lora-rank 16 --lora-target-modules "
                     "all-linear`",
                     diags);
  }
  const int64_t rank = engine.max_lora_rank.value_or(LoraSlots().rank);
  if (slot_rank(row, rank) != rank) {
    good = refuse_flags(
        std::string(row.title) + " has no LoRA slots of rank " +
            count_text(rank),
        "use `--max-lora-rank " + std::to_string(slot_rank(row, rank)) + "`",
        diags);
  }
  if (!memory.sequence_axes.empty() || !memory.kv_axes.empty() ||
      !memory.batch_axes.empty()) {
    good = refuse_flags(given + " shards the cache itself",
                        "leave out `--kv-axes`, `--batch-axes` and "
                        "`--sequence-axes`",
                        diags);
  }
  return good;
}

void declare_for_engine(const EngineRequest& engine, PlanRequest& request) {
  if (!engine.name) return;
  const Engine& row = *find_engine(*engine.name);
  Declarations& declared = request.declarations;
  declared.replicate_kv_heads = true;
  if (declared.pad_vocab == 0) declared.pad_vocab = row.vocab_multiple;
  declared.interleave_gate_up = true;
  declared.interleave_qkv = true;
}

MemoryRequest without_limit(MemoryRequest memory) {
  memory.hardware.reset();
  memory.limit.reset();
  memory.stage_limits.clear();
  memory.reserve_fraction = 0;
  return memory;
}

MemoryRequest budgeted(const EngineRequest& engine,
                       const MemoryRequest& memory) {
  return engine.name ? without_limit(memory) : memory;
}

std::optional<ServedModels> served_models(const EngineRequest& engine,
                                          const Model& of, Host& host,
                                          Diagnostics& diags) {
  const Engine& row = *find_engine(*engine.name);
  auto model = known_weights(of, row, diags);
  if (!model) return std::nullopt;
  if (!targets_are_there(engine.lora_targets, *model, row, diags)) {
    return std::nullopt;
  }
  ServedModels models{*std::move(model), nullptr, std::nullopt};
  if (!engine.draft) return models;
  auto draft = load_manifest(*engine.draft, host, diags);
  if (!draft) return std::nullopt;
  models.draft_model = std::make_unique<Model>(*std::move(draft));
  models.draft = known_weights(*models.draft_model, row, diags);
  if (!models.draft) return std::nullopt;
  return models;
}

ServingInput asked_serving(const EngineRequest& engine,
                           const MemoryRequest& memory,
                           const ServedModels& models,
                           const DeviceLimit& device) {
  ServingInput input;
  input.engine = find_engine(*engine.name);
  input.mesh.expert_parallel = engine.expert_parallel;
  input.mesh.dp_attention = engine.dp_attention;
  input.stages = memory.stages;
  input.device = device;
  input.share = engine.share;
  input.batched_tokens = engine.batched_tokens;
  input.sequences = engine.sequences;
  input.seq = memory.seq.value_or(1);
  input.batch = memory.batch.value_or(1);
  input.kv_dtype = memory.kv_dtype.value_or(DType::BF16);
  if (memory.kv_block != 1) input.block = memory.kv_block;
  input.weight_dtype = memory.state.param_dtype;
  if (models.draft) input.draft = &*models.draft;
  input.workload = engine.workload();
  if (engine.has_loras()) {
    const int64_t most = input.engine->default_loras;
    input.slots = {engine.max_loras.value_or(most),
                   engine.max_lora_rank.value_or(LoraSlots().rank),
                   engine.fully_sharded_loras, engine.lora_targets};
  }
  return input;
}

}  // namespace shardplan
