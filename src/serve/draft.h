// SPDX-License-Identifier: Apache-2.0
// Draft models: a smaller model on the same devices proposes tokens, which the
// large one checks (speculative decoding). What it takes of them:
//
// vLLM (`--speculative-config` with a `model` that is one by itself): weights
// of its own, embedding and head among them, cut over as many tensor-parallel
// ranks as the large model's; of stages the last one runs it. Its layers keep
// their cache in the same pool of blocks. A position that is proposed needs a
// slot, but no more than the longest sequence has. Read in
// v1/spec_decode/draft_model.py, config/speculative.py, config/vllm.py
// (num_lookahead_tokens) and v1/core/kv_cache_manager.py of 0.33.0.
// SGLang (`--speculative-algorithm STANDALONE`): the same weights, loaded
// before the pool is sized; a token of the pool is sized as if each layer of
// the draft kept what a layer of the large model keeps. Read in
// speculative/standalone_worker_v2.py and model_executor/pool_configurator.py
// of 0.5.23.
//
// Drafts that share the large model's embedding, head or hidden states (EAGLE,
// MTP, Medusa) are not described by their config.json alone, and not known.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "serve/pool.h"
#include "serve/serving.h"
#include "serve/weights.h"

namespace shardplan {

struct ServedDraft {
  RankWeights weights;
  std::vector<CacheLayer> layers;  // as the pool is sized
  std::vector<std::string> remarks;
};
// REQUIRES: input.draft. Empty, with the reason reported: what layers keep is
// not known, or how the engine sizes them (SP013), or it has no such mode
// (SP010).
std::optional<ServedDraft> served_draft(const ServedWeights& model,
                                        const ServingInput& input,
                                        Diagnostics& diags);
void add_draft(const ServedDraft& draft, ServedStage& stage);
// Why the engine does not start with it, here and at other degrees of tensor
// parallelism.
void add_draft_problems(const ServedWeights& model, const ServingInput& input,
                        Serving& answer);

}  // namespace shardplan
