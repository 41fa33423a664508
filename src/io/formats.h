// SPDX-License-Identifier: Apache-2.0
// The manifest formats, one file each, in the order of io/load.cc.
#pragma once

#include <algorithm>
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
#include "model/from_config.h"
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

// Returns an empty span in a file whose bytes cannot be shown, for remarks.
inline Span empty_span_in(const std::string& name, Diagnostics& diags) {
  auto source = std::make_shared<SourceFile>(name, std::string());
  diags.add_source(source);
  return {source.get(), 0, 0};
}

// Returns the text from the value on that `key`, in quotes, has in JSON; "" if
// the text has no such key.
inline std::string_view json_value_of(std::string_view text,
                                      std::string_view key) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t at = text.find(key);
  if (at == text.npos) return "";
  text.remove_prefix(at + key.size());
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  if (!text.starts_with(':')) return "";
  text.remove_prefix(1);
  return text.substr(std::min(text.find_first_not_of(kBlanks), text.size()));
}

// Returns small models of every architecture that has a shipped set of rules,
// one per class: two layers, two experts, and biases if a config may ask for
// them. They provide realistic parameter names when no model is given. Each is
// titled with its model type ("llama"); architectures that most others build on
// come first. The samples are made on the first call and cached.
const std::vector<Manifest>& family_samples();

// Reads the file next to the config at `path` that describes its quantisation
// when the config itself does not. Returns nullopt if the file cannot be read
// or has an unknown method (reported as SP009).
std::optional<QuantisationFile> read_quantisation_file(const std::string& path,
                                                       const Document& config,
                                                       Host& host,
                                                       Diagnostics& diags);

// Adds what the config's architecture knows about the tensors of a checkpoint:
// their roles (Manifest::kinds), and which of them are buffers. If the config
// cannot be used, a remark says why. `path` is the path of the config.
void explain_manifest(const std::string& path, Host& host, Manifest& manifest);

// Returns whether a tensor of a checkpoint is not a parameter: GPT-2's causal
// mask `h.0.attn.bias` [1, 1, n, n], rotary `inv_freq`, router correction
// biases, quantisation scales, llama.cpp's RoPE factors.
bool is_known_buffer(std::string_view name, const TensorType& type);

}  // namespace shardplan
