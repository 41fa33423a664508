// SPDX-License-Identifier: Apache-2.0
// ServedDraft: a smaller model on the same devices that proposes tokens, which
// the large model checks (speculative decoding).
//
// vLLM (`--speculative-config` with a `model` that is a separate model): the
// draft has its own weights, including embedding and head, sharded over as many
// tensor-parallel ranks as the large model. The last pipeline stage runs it.
// Its layers store their cache in the same pool of blocks. A proposed position
// needs a slot, but no sequence needs more slots than the longest one has.
// Derived from v1/spec_decode/draft_model.py, config/speculative.py,
// config/vllm.py (num_lookahead_tokens) and v1/core/kv_cache_manager.py of
// 0.33.0.
// SGLang (`--speculative-algorithm STANDALONE`): the same weights, loaded
// before the pool is sized. A token in the pool is sized as if each layer of
// the draft stored as much as a layer of the large model. Derived from
// speculative/standalone_worker_v2.py and model_executor/pool_configurator.py
// of 0.5.23.
//
// Drafts that share the large model's embedding, head or hidden states (EAGLE,
// MTP, Medusa) are not supported, because their config.json alone does not
// describe them.
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
  std::vector<CacheLayer> layers;  // as the engine sizes the pool
  std::vector<std::string> remarks;
};
// Returns the draft as the engine loads it. REQUIRES: input.draft. Empty, with
// the reason reported: it is unknown what the layers cache or how the engine
// sizes it (SP013), or which pipeline stage runs the draft (SP010).
std::optional<ServedDraft> served_draft(const ServedWeights& model,
                                        const ServingInput& input,
                                        Diagnostics& diags);
void add_draft(const ServedDraft& draft, ServedStage& stage);
// Adds why the engine does not start with the draft, at this and other degrees
// of tensor parallelism.
void add_draft_problems(const ServedWeights& model, const ServingInput& input,
                        Serving& answer);

}  // namespace shardplan
