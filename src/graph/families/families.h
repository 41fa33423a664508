// SPDX-License-Identifier: Apache-2.0
// Entry points of the families; the table is in graph/family.cc.
#pragma once

#include "graph/family.h"

namespace shardplan {

// Decoders with a dense MLP.
Family llama_family();
Family mistral_family();
Family qwen2_family();
Family qwen3_family();

// Decoders with experts.
Family mixtral_family();
Family qwen3_moe_family();

Family gpt2_family();
Family bert_family();

}  // namespace shardplan
