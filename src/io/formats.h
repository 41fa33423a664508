// SPDX-License-Identifier: Apache-2.0
// The manifest formats, one file each, as io/load.cc lists them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/diagnostic.h"
#include "base/host.h"
#include "core/manifest.h"
#include "io/load.h"
#include "syntax/document.h"

namespace shardplan {

extern const ManifestFormat kNative;
extern const ManifestFormat kSafetensors;
extern const ManifestFormat kSafetensorsIndex;
extern const ManifestFormat kGguf;
extern const ManifestFormat kOrbax;
extern const ManifestFormat kMaxtextDump;
extern const ManifestFormat kHfConfig;
extern const ManifestFormat kStableHlo;
extern const ManifestFormat kGraph;

// Facts (heads, KV heads, head_dim, experts, layers) of a Hugging Face
// config.json, whatever its family; from == Config. `architecture` says how it
// is read; null: the one that the config names.
ModelFacts config_facts(
    const Node& config,
    const std::shared_ptr<const Architecture>& architecture = nullptr);
// Its model type, as the table of types calls it where it is there.
std::string config_model_type(const Node& config);

// The manifest that the Hub checkpoint of this config has: its names, shapes
// and dtypes. SP009 when the family is unknown or the config is quantised in a
// way that changes the tensors.
std::optional<Manifest> synthesize_manifest(
    const Document& config, Diagnostics& diags,
    const std::shared_ptr<const Architecture>& architecture = nullptr);

// Whether a file beside a config, such as ModelOpt's hf_quant_config.json, says
// that the model is quantised though the config does not; reported as SP009, or
// as what keeps that file from being read.
bool is_quantised_beside(const std::string& directory, Host& host,
                         Diagnostics& diags);

// Tensors that checkpoints carry though they are no parameters: GPT-2's causal
// mask `h.0.attn.bias` [1, 1, n, n], rotary `inv_freq`, router correction
// biases, quantisation scales, llama.cpp's factors of rotation.
bool is_known_buffer(std::string_view name, const TensorType& type);

}  // namespace shardplan
