// SPDX-License-Identifier: Apache-2.0
// Where the vocabulary is in a tensor.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/facts.h"
#include "core/types.h"

namespace shardplan {

// What a tensor's name says that it is for: rows that tokens look up, or the
// product that makes logits.
enum class VocabUse : uint8_t { Table, Head };
std::optional<VocabUse> vocab_use(std::string_view name);

// The dimension of an embedding or output head that is the vocabulary, told
// from its name and the facts' size; without that, from the layout that the
// name tells. Empty for anything else.
std::optional<size_t> vocab_dim(std::string_view name, const TensorType& type,
                                const ModelFacts& facts);

}  // namespace shardplan
