// SPDX-License-Identifier: Apache-2.0
// The flags of an engine that serves the model (session/serving.h).
#include <string>
#include <string_view>
#include <vector>

#include "cli/flag_values.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "serve/engine.h"
#include "session/serving.h"

namespace shardplan::cli {
namespace {

constexpr std::string_view kServing = "check analyze sweep";
// More tokens or sequences than one step has; keeps products within 63 bits.
constexpr int64_t kMaxStep = int64_t{1} << 32;

std::vector<std::string> engine_choices() {
  std::vector<std::string> names;
  for (const Engine& engine : engines()) names.emplace_back(engine.name);
  return names;
}

// A fraction above 0, at most 1.
void set_share(const Setting& s, Options& o, Diagnostics& d) {
  const auto share = number_of(s, d);
  if (!share) return;
  if (*share <= 0 || *share > 1) {
    d.error(Code::Usage, s.where,
            title_of(s) + " is a fraction above 0, up to 1, e.g. 0.9");
    return;
  }
  o.engine.share = *share;
  o.engine.share_flag = s.flag->name;
}

}  // namespace

const std::vector<Flag>& engine_flags() {
  static const std::vector<Flag> kFlags = {
      {"engine", 0, Takes::Choice, "NAME", "Memory",
       "what an engine that serves the model does with each device", kServing,
       false, true, engine_choices,
       [](const Setting& s, Options& o, Diagnostics&) {
         o.engine.name = s.value;
         declare_for_engine(o.engine, o.planning);
       }},
      {"gpu-memory-utilization", 0, Takes::Text, "F", "Memory",
       "vLLM's share of a device's memory (default 0.92)", kServing, false,
       true, nullptr, set_share},
      {"mem-fraction-static", 0, Takes::Text, "F", "Memory",
       "SGLang's share of what is free (default by device)", kServing, false,
       true, nullptr, set_share},
      {"max-batched-tokens", 0, Takes::Text, "N", "Memory",
       "tokens of an engine's largest step (default by device)", kServing,
       false, true, nullptr,
       [](const Setting& s, Options& o, Diagnostics& d) {
         o.engine.batched_tokens = integer_of(s, 1, kMaxStep, d);
       }},
      {"max-seqs", 0, Takes::Text, "N", "Memory",
       "sequences that an engine runs at once (default by device)", kServing,
       false, true, nullptr,
       [](const Setting& s, Options& o, Diagnostics& d) {
         o.engine.sequences = integer_of(s, 1, kMaxStep, d);
       }},
      {"expert-parallel", 0, Takes::Nothing, "", "Memory",
       "an engine deals out experts whole, in place of cutting each", kServing,
       false, true, nullptr,
       [](const Setting&, Options& o, Diagnostics&) {
         o.engine.expert_parallel = true;
       }},
      {"dp-attention", 0, Takes::Nothing, "", "Memory",
       "SGLang's data-parallel groups share all but attention", kServing, false,
       true, nullptr,
       [](const Setting&, Options& o, Diagnostics&) {
         o.engine.dp_attention = true;
       }},
      {"draft", 0, Takes::File, "MODEL", "Memory",
       "a smaller model on the same devices that proposes tokens for an engine",
       kServing, false, true, nullptr,
       [](const Setting& s, Options& o, Diagnostics&) {
         o.engine.draft = path_of(s);
       }},
  };
  return kFlags;
}

}  // namespace shardplan::cli
