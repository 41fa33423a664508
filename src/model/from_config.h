// SPDX-License-Identifier: Apache-2.0
// What follows from a config.json: the model's facts, and its tensors without
// the checkpoint.
//
// One thing a config does not tell is taken from the model type: a tied head is
// left out, as the library that writes checkpoints does. A few checkpoints
// (Qwen3-0.6B and 1.7B) store it all the same.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/diagnostic.h"
#include "base/source.h"
#include "core/manifest.h"
#include "model/naming/lora.h"

namespace shardplan {

class Document;
class Node;
struct ExplainedTensors;
struct NameScheme;

// What the manifest of a config is called as a format.
inline constexpr std::string_view kConfigFormat = "hf-config";

// How a config.json is read.
struct ConfigReading {
  // Null: as it says itself.
  std::shared_ptr<const Architecture> architecture = nullptr;
  // What its tensors are called; null: as save_pretrained writes them.
  std::shared_ptr<const NameScheme> scheme = nullptr;
  // Adapters that are added, in which case there is no scheme.
  std::optional<Lora> lora = std::nullopt;
};

// Facts (heads, KV heads, head_dim, experts, layers) of a Hugging Face
// config.json, whatever its family; from == Config. `architecture` says how it
// is read; null: the one that the config names.
Facts config_facts(
    const Node& config,
    const std::shared_ptr<const Architecture>& architecture = nullptr);
// How many experts a token goes to, which is among them.
std::optional<int64_t> config_experts_per_token(const Node& config);
// Tokens of the longest sequence that the model's config speaks of, by any of
// the names that configs have for it.
std::optional<int64_t> config_positions(const Manifest& manifest);
// Its model type, as the table of types calls it where it is there.
std::string config_model_type(const Node& config);

// ModelOpt's hf_quant_config.json; no document where there is none.
struct QuantisationFile {
  SourcePtr file;
  std::shared_ptr<const Document> document;
};

// The manifest that the Hub checkpoint of this config has: its names, shapes
// and dtypes; with a scheme, those of that program. SP009 when the family is
// unknown or the config is quantised in a way that is not known.
std::optional<Manifest> synthesize_manifest(
    const Document& config, Diagnostics& diags,
    const ConfigReading& reading = {},
    const QuantisationFile* beside = nullptr);

// The same with numbers in the config's dtype, whatever it says of how they are
// stored: the model before it was quantised.
std::optional<Manifest> plain_manifest(
    const Document& config,
    const std::shared_ptr<const Architecture>& architecture,
    Diagnostics& diags);

// What the config says of a checkpoint's tensors, without making a manifest of
// its own. Empty, with the reason reported, as above.
std::optional<ExplainedTensors> explained_tensors(
    const Document& config,
    const std::shared_ptr<const Architecture>& architecture,
    const QuantisationFile* beside, Diagnostics& diags);

}  // namespace shardplan
