// SPDX-License-Identifier: Apache-2.0
// LoRA as PEFT adds it to a model (0.21, tuners/lora/layer.py): beside a linear
// layer [out, in], `lora_A` [rank, in] and `lora_B` [out, rank]. Its own weight
// gets the name `base_layer`, and all names begin with `base_model.model.`.
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
  // Ends of names of modules, `q_proj` or `layers.0.self_attn.q_proj`; none:
  // all linear layers but the head (`all-linear`).
  std::vector<std::string> targets = {};
  // PEFT keeps adapters in float32 beside weights of 16 bits
  // (autocast_adapter_dtype).
  DType dtype = DType::F32;

  // Whether layers that differ in their number alone may be treated
  // differently.
  bool names_layers() const;
};

inline constexpr std::string_view kLoraPrefix = "base_model.model.";

// `r=16,targets=q_proj+v_proj,dtype=bf16`, as `--lora` takes it. Empty, with
// the reason reported (SP010).
std::optional<Lora> read_lora(std::string_view text, Span where,
                              Diagnostics& diags);

// Whether the module is one that the target names.
bool is_named_by(std::string_view module, std::string_view target);

}  // namespace shardplan
