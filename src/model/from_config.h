// SPDX-License-Identifier: Apache-2.0
// Derives a model's facts, and its tensors without a checkpoint, from its
// config.json.
//
// Whether a tied head is stored depends on the model type, not on the config:
// it is omitted, as in checkpoints that the library writes. A few checkpoints
// (Qwen3-0.6B and 1.7B) store it anyway.
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

// The format name of a manifest that was derived from a config.
inline constexpr std::string_view kConfigFormat = "hf-config";

// How a config.json is read.
struct ConfigReading {
  // Null: the architecture that the config names.
  std::shared_ptr<const Architecture> architecture = nullptr;
  // The names of the tensors; null: those that save_pretrained writes.
  std::shared_ptr<const NameScheme> scheme = nullptr;
  // Adapters to add. They cannot be combined with a scheme.
  std::optional<Lora> lora = std::nullopt;
};

// Returns the facts (heads, KV heads, head_dim, experts, layers) of a Hugging
// Face config.json of any family; from == Config. `architecture` determines how
// it is read; null: the one that the config names.
Facts config_facts(
    const Node& config,
    const std::shared_ptr<const Architecture>& architecture = nullptr);
// Returns how many experts each token is routed to, one of these facts.
std::optional<int64_t> config_experts_per_token(const Node& config);
// Returns the length of the longest sequence, in tokens, that the model's
// config gives under any of the usual names.
std::optional<int64_t> config_positions(const Manifest& manifest);
// Returns the model type, in the spelling of the table of types if it is listed
// there.
std::string config_model_type(const Node& config);

// ModelOpt's hf_quant_config.json; `document` is null if there is none.
struct QuantisationFile {
  SourcePtr file;
  std::shared_ptr<const Document> document;
};

// Returns the manifest that the Hub checkpoint of this config has: its names,
// shapes and dtypes; with a scheme, the names of that program. Reports SP009 if
// the family is unknown or the config is quantised in an unknown way.
std::optional<Manifest> synthesize_manifest(
    const Document& config, Diagnostics& diags,
    const ConfigReading& reading = {},
    const QuantisationFile& quantisation_file = {});

// Returns the manifest of the model before it was quantised: all numbers have
// the config's dtype, whatever the config says about their storage.
std::optional<Manifest> plain_manifest(
    const Document& config,
    const std::shared_ptr<const Architecture>& architecture,
    Diagnostics& diags);

// Returns what the config says about a checkpoint's tensors, without creating a
// manifest. Returns empty, with the reason reported, on the same errors.
std::optional<ExplainedTensors> explained_tensors(
    const Document& config,
    const std::shared_ptr<const Architecture>& architecture,
    const QuantisationFile& quantisation_file, Diagnostics& diags);

}  // namespace shardplan
