// SPDX-License-Identifier: Apache-2.0
// The flags of a serving engine (session/serving.h).
#include <string>
#include <string_view>
#include <vector>

#include "base/words.h"
#include "cli/flag_values.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "serve/engine.h"
#include "session/serving.h"

namespace shardplan::cli {
namespace {

constexpr std::string_view kServing = "check analyze sweep plan";
// More tokens or sequences than one step has; the limit keeps products within
// 63 bits.
constexpr int64_t kMaxStep = int64_t{1} << 32;
// More adapters than an engine runs, and a larger rank than adapters have.
constexpr int64_t kMaxSlots = int64_t{1} << 16;

// Stores a fraction above 0 and at most 1.
void set_share(const Setting& s, Options& o, Diagnostics& d) {
  o.engine.share = number_of(s, d);
  o.engine.share_flag = s.flag->name;
  if (o.engine.share && (*o.engine.share <= 0 || *o.engine.share > 1)) {
    d.error(Code::Usage, s.where,
            title_of(s) + " must be a fraction above 0, at most 1, e.g. 0.9");
  }
}

template <std::optional<int64_t> EngineRequest::*Count, int64_t Most = kMaxStep>
void set_count(const Setting& s, Options& o, Diagnostics& d) {
  o.engine.*Count = integer_of(s, 1, Most, d);
}

// Reads "q_proj+v_proj".
void set_modules(const Setting& s, Options& o, Diagnostics& d) {
  o.engine.lora_targets = split_list(s.value, '+');
  if (contains(o.engine.lora_targets, "")) {
    d.error(Code::Usage, s.where,
            title_of(s) +
                " must be module names joined by `+`, e.g. q_proj+v_proj");
  }
}

}  // namespace

std::vector<Flag> engine_flags() {
  return {
      {"engine", Takes::Choice, "NAME", "Memory",
       "memory and schedule of a serving engine", kServing,
       [](auto& s, auto& o, auto&) {
         o.engine.name = s.value;
         declare_for_engine(o.engine, o.planning);
       },
       false, true, [] { return all_names(engines()); }},
      {"gpu-memory-utilization", Takes::Text, "F", "Memory",
       "vLLM's fraction of device memory (default 0.92)", kServing, set_share},
      {"mem-fraction-static", Takes::Text, "F", "Memory",
       "SGLang's fraction of free memory (default: by device)", kServing,
       set_share},
      {"max-batched-tokens", Takes::Text, "N", "Memory",
       "maximum tokens per engine step (default: by device)", kServing,
       set_count<&EngineRequest::batched_tokens>},
      {"max-seqs", Takes::Text, "N", "Memory",
       "maximum concurrent sequences (default: by device)", kServing,
       set_count<&EngineRequest::sequences>},
      {"expert-parallel", Takes::Nothing, "", "Memory",
       "place whole experts on ranks instead of slicing each one", kServing,
       [](auto&, auto& o, auto&) { o.engine.expert_parallel = true; }},
      {"dp-attention", Takes::Nothing, "", "Memory",
       "SGLang: data-parallel attention, everything else shared", kServing,
       [](auto&, auto& o, auto&) { o.engine.dp_attention = true; }},
      {"max-loras", Takes::Text, "N", "Memory",
       "LoRA adapters to reserve memory for (SGLang: max-loras-per-batch)",
       kServing, set_count<&EngineRequest::max_loras, kMaxSlots>},
      {"max-lora-rank", Takes::Text, "N", "Memory",
       "rank reserved for each adapter (vLLM default: 16)", kServing,
       set_count<&EngineRequest::max_lora_rank, kMaxSlots>},
      {"lora-target-modules", Takes::Text, "A+B", "Memory",
       "modules that reserve LoRA memory, or all-linear (vLLM default: by "
       "model)",
       kServing, set_modules},
      {"fully-sharded-loras", Takes::Nothing, "", "Memory",
       "vLLM: shard both matrices of each adapter", kServing,
       [](auto&, auto& o, auto&) { o.engine.fully_sharded_loras = true; }},
      {"input-tokens", Takes::Text, "N", "Memory", "tokens in each prompt",
       kServing, set_count<&EngineRequest::input_tokens>},
      {"output-tokens", Takes::Text, "N", "Memory",
       "tokens generated per prompt", kServing,
       set_count<&EngineRequest::output_tokens>},
      {"concurrency", Takes::Text, "N", "Memory",
       "requests in flight (default 1)", kServing,
       set_count<&EngineRequest::concurrency>},
      {"draft", Takes::File, "MODEL", "Memory",
       "draft model for speculative decoding, on the same devices", kServing,
       [](auto& s, auto& o, auto&) { o.engine.draft = path_of(s); }},
  };
}

}  // namespace shardplan::cli
