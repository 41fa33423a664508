// SPDX-License-Identifier: Apache-2.0
// Decoders in the shape of Llama: norm, attention with rotary positions,
// residual, norm, MLP, residual; told apart by norms of the heads, biases, and
// by what the MLP is.
//
// Values of layer i are `layers.i.attn.*`, `layers.i.mlp.*` and
// `layers.i.residual`; then `norm` and `logits`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/model_sizes.h"
#include "graph/model_writer.h"

namespace shardplan {

// Sizes of a decoder with a dense MLP, and the defaults of LlamaConfig.
FamilySizes decoder_sizes(std::string_view family);

// Names of a decoder without its MLP (Family::marks, Family::foreign).
std::vector<std::string_view> decoder_marks();
std::vector<std::string_view> decoder_foreign();

// Writes the MLP of a layer: of what input, under what name; its output is
// [batch, length, hidden].
using WriteMlp = std::function<std::string(ModelWriter& out, int64_t layer,
                                           const std::string& x)>;

// Down(act(gate x) * up x), as in Shazeer, "GLU Variants", 2020.
std::string write_dense_mlp(ModelWriter& out, int64_t layer,
                            const std::string& x);

// `config` is complete.
std::optional<GraphDescription> write_decoder(const FamilyInput& input,
                                              const ModelConfig& config,
                                              std::string_view family,
                                              const WriteMlp& mlp,
                                              Diagnostics& diags);

}  // namespace shardplan
