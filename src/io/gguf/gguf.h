// SPDX-License-Identifier: Apache-2.0
// What the metadata of a GGUF file says of its model.
#pragma once

#include <string>
#include <vector>

#include "core/facts.h"
#include "io/gguf/header.h"

namespace shardplan {

// Layers, heads, KV heads, sizes of heads, experts, vocabulary and windows, as
// `<architecture>.*` give them; from == Manifest when there are any. Absent
// keys give absent facts, but for those whose default llama.cpp has: as many KV
// heads as heads, heads of embedding_length / head_count. What differs between
// layers is left out, with a remark.
Facts gguf_facts(const GgufMetadata& metadata,
                 std::vector<std::string>& remarks);

}  // namespace shardplan
