// SPDX-License-Identifier: Apache-2.0
// Reads the facts about a model from the metadata of a GGUF file.
#pragma once

#include <string>
#include <vector>

#include "core/facts.h"
#include "io/gguf/metadata.h"

namespace shardplan {

// Returns layers, heads, KV heads, head sizes, experts, vocabulary and windows
// from the keys `<architecture>.*`; from == Manifest if there are any. Absent
// keys give absent facts, except where llama.cpp has a default: as many KV
// heads as heads, and a head size of embedding_length / head_count. A value
// that differs between layers is left out, with a remark.
Facts gguf_facts(const GgufMetadata& metadata,
                 std::vector<std::string>& remarks);

}  // namespace shardplan
