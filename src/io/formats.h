// SPDX-License-Identifier: Apache-2.0
// The manifest formats, one file each, as io/load.cc lists them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/host.h"
#include "base/source.h"
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
extern const ManifestFormat kMaxtextModel;
extern const ManifestFormat kStableHlo;
extern const ManifestFormat kGraph;

// A place for remarks about a file whose bytes cannot be shown.
inline Span nowhere_in(const std::string& name, Diagnostics& diags) {
  auto source = std::make_shared<SourceFile>(name, std::string());
  diags.keep(source);
  return {source.get(), 0, 0};
}

// Facts (heads, KV heads, head_dim, experts, layers) of a Hugging Face
// config.json, whatever its family; from == Config. `architecture` says how it
// is read; null: the one that the config names.
Facts config_facts(
    const Node& config,
    const std::shared_ptr<const Architecture>& architecture = nullptr);
// How many experts a token goes to, which is among them.
std::optional<int64_t> config_experts_per_token(const Node& config);
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

// Small models of every architecture that has a shipped set of rules, one per
// class: two layers, two experts, biases where a config may ask for them. For
// names of parameters that real models have, where no model is given. Titled
// with their model types ("llama"); those first that most others build on. Made
// when they are first asked for, and kept.
const std::vector<Manifest>& family_samples();

// What a file beside a config, that of `path`, says of quantisation where the
// config says nothing. Empty where such a file is not known, reported as SP009,
// or cannot be read.
std::optional<QuantisationFile> quantisation_beside(const std::string& path,
                                                    const Document& config,
                                                    Host& host,
                                                    Diagnostics& diags);

// What the architecture of a config says of the tensors of its model, a
// checkpoint: what they are (Manifest::kinds), and which of them are buffers.
// Where the config cannot be read, only a remark says why. `path` is its own.
void explain_tensors(const Document& config, const std::string& path,
                     const ConfigReading& reading, Host& host,
                     Manifest& manifest);

// Tensors that checkpoints carry though they are no parameters: GPT-2's causal
// mask `h.0.attn.bias` [1, 1, n, n], rotary `inv_freq`, router correction
// biases, quantisation scales, llama.cpp's factors of rotation.
bool is_known_buffer(std::string_view name, const TensorType& type);

}  // namespace shardplan
