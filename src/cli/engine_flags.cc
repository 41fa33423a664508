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

std::vector<std::string> engine_choices() { return all_names(engines()); }

// Stores a fraction above 0 and at most 1.
void set_share(const Setting& s, Options& o, Diagnostics& d) {
  const auto share = number_of(s, d);
  if (!share) return;
  if (*share <= 0 || *share > 1) {
    d.error(Code::Usage, s.where,
            title_of(s) + " must be a fraction above 0, at most 1, e.g. 0.9");
    return;
  }
  o.engine.share = *share;
  o.engine.share_flag = s.flag->name;
}

template <std::optional<int64_t> EngineRequest::*Count, int64_t Most = kMaxStep>
void set_count(const Setting& s, Options& o, Diagnostics& d) {
  o.engine.*Count = integer_of(s, 1, Most, d);
}

// Splits "q_proj+v_proj".
std::vector<std::string> modules_of(const Setting& s, Diagnostics& d) {
  std::vector<std::string> modules;
  std::string_view text = s.value;
  while (true) {
    const size_t end = std::min(text.find('+'), text.size());
    modules.emplace_back(text.substr(0, end));
    if (modules.back().empty()) {
      d.error(Code::Usage, s.where,
              title_of(s) +
                  " must be module names joined by `+`, e.g. q_proj+v_proj");
      return {};
    }
    if (end == text.size()) return modules;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

const std::vector<Flag>& engine_flags() {
  static const std::vector<Flag> kFlags = {
      {"engine", Takes::Choice, "NAME", "Memory",
       "memory and schedule of a serving engine", kServing,
       [](auto& s, auto& o, auto&) {
         o.engine.name = s.value;
         declare_for_engine(o.engine, o.planning);
       },
       false, true, engine_choices},
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
       kServing,
       [](auto& s, auto& o, auto& d) {
         o.engine.lora_targets = modules_of(s, d);
       }},
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
  return kFlags;
}

}  // namespace shardplan::cli
