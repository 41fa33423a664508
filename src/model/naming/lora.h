// SPDX-License-Identifier: Apache-2.0
// Lora: the LoRA adapters that PEFT adds to a model (0.21,
// tuners/lora/layer.py). A linear layer [out, in] gets `lora_A` [rank, in] and
// `lora_B` [out, rank]. Its own weight moves to `base_layer`, and all names
// begin with `base_model.model.`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "core/types.h"

namespace shardplan {

struct Lora {
  int64_t rank = 8;
  // Suffixes of module names, `q_proj` or `layers.0.self_attn.q_proj`; empty:
  // all linear layers except the head (`all-linear`).
  std::vector<std::string> targets = {};
  // PEFT stores adapters in float32 next to 16-bit weights
  // (autocast_adapter_dtype).
  DType dtype = DType::F32;

  // Returns whether layers that differ only in their number may be treated
  // differently.
  bool names_layers() const;
};

inline constexpr std::string_view kLoraPrefix = "base_model.model.";

// Reads the argument of `--lora`, `r=16,targets=q_proj+v_proj,dtype=bf16`.
// Returns nothing, and reports SP010, if it is invalid.
std::optional<Lora> read_lora(std::string_view text, Span where,
                              Diagnostics& diags);

// Returns whether `target` is `module` or its last components.
bool is_named_by(std::string_view module, std::string_view target);

}  // namespace shardplan
