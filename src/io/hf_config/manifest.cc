// SPDX-License-Identifier: Apache-2.0
// Hugging Face config.json: builds the manifest of its checkpoint without
// reading the checkpoint.
#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "core/fold.h"
#include "io/fence.h"
#include "io/formats.h"
#include "io/load.h"
#include "io/paths.h"
#include "io/shards.h"
#include "model/architecture/quantisation.h"
#include "model/architecture/walk.h"
#include "model/from_config.h"

namespace shardplan {
namespace {

bool recognize(std::string_view head) {
  const size_t begin = head.find_first_not_of(" \t\r\n");
  if (begin == head.npos || head[begin] != '{') return false;
  // The key must have a value of the right type, because a tensor may be called
  // `model_type`.
  return json_value_of(head, "\"model_type\"").starts_with('"') ||
         json_value_of(head, "\"architectures\"").starts_with('[');
}

std::optional<Manifest> read(const ManifestSource& source, Host& host,
                             Diagnostics& diags) {
  auto document = parse_document(source.file, diags);
  if (!document) return std::nullopt;
  const auto config = std::make_shared<const Document>(*std::move(document));
  std::optional<QuantisationFile> beside = QuantisationFile();
  if (source.path != "-") {
    beside = read_quantisation_file(source.path, *config, host, diags);
  }
  if (!beside) return std::nullopt;
  auto manifest = synthesize_manifest(*config, diags, source.reading, *beside);
  if (!manifest) return std::nullopt;
  manifest->title = source.path;
  manifest->config = config;
  return manifest;
}

// Turns the parameters with these folded names and shapes into buffers; the
// manifest's other fields stay the same.
void turn_into_buffers(Manifest& manifest,
                       const decltype(ExplainedTensors::buffers)& buffers) {
  std::vector<Manifest::Selected> selected;
  bool any = false;
  for (size_t i = 0; i < manifest.any_size(); ++i) {
    const bool was = i >= manifest.size();
    const bool is = was || buffers.contains({folded_name(manifest.name(i)),
                                             manifest.type(i).shape});
    any = any || is != was;
    selected.push_back({i, is});
  }
  // A total beyond 63 bits, which no checkpoint has, leaves them parameters.
  if (any) manifest.select(selected);
}

// A weight that lacks the scales of its method is stored in another way, such
// as with one scale for the whole weight, and may be sharded anywhere.
void drop_absent_blocks(const Manifest& manifest, ExplainedTensors& own) {
  const std::string kScales = "_scale_inv";
  std::set<std::string> wanted;
  for (const auto& [key, kind] : own.kinds) {
    if (key.first.ends_with(kScales)) wanted.insert(key.first);
  }
  for (const auto& [name, shape] : own.buffers) {
    if (name.ends_with(kScales)) wanted.insert(name);
  }
  if (wanted.empty()) return;
  for (size_t i = 0; i < manifest.any_size(); ++i) {
    if (!manifest.any_name(i).ends_with(kScales)) continue;
    wanted.erase(folded_name(manifest.any_name(i)));
  }
  for (auto& [key, kind] : own.kinds) {
    const bool is_cut =
        std::ranges::any_of(kind, [](const DimKind& d) { return d.block > 1; });
    if (!is_cut || !wanted.contains(key.first + kScales)) continue;
    for (DimKind& dim : kind) dim.block = 0;
  }
}

}  // namespace

const ManifestFormat kHfConfig = {
    kConfigFormat, "a Hugging Face config.json of a known family", recognize,
    read};

std::optional<QuantisationFile> read_quantisation_file(const std::string& path,
                                                       const Document& config,
                                                       Host& host,
                                                       Diagnostics& diags) {
  // Newer programs write the quantisation into the config.
  const auto said_there = config.root().find("quantization_config");
  if (said_there && !said_there->is_null()) return QuantisationFile();
  // The files of ModelOpt, of AutoGPTQ, and of AutoAWQ and HQQ before
  // transformers read the quantisation from the config.
  for (const char* name :
       {"hf_quant_config.json", "quantize_config.json", "quant_config.json"}) {
    const std::string beside = path_relative_to(path, name, host);
    if (!host.file_info(beside)) continue;
    const SourcePtr file = read_source(beside, kWholeFile, host, diags);
    auto document =
        file != nullptr ? parse_document(file, diags) : std::nullopt;
    if (!document) return std::nullopt;
    const Node root = document->root();
    const auto part = root.find("quantization");
    const auto said = [&](const char* key) {
      const auto value = part ? part->find(key) : std::nullopt;
      return value && !value->is_null() ? value : std::nullopt;
    };
    const auto algorithm = said("quant_algo");
    // Only the KV cache is quantised.
    if (part && part->is_map() && !algorithm && !said("quantized_layers")) {
      continue;
    }
    if (algorithm && std::string_view(name) == "hf_quant_config.json") {
      return QuantisationFile{
          file, std::make_shared<const Document>(*std::move(document))};
    }
    diags
        .error(Code::UnsupportedConfig,
               algorithm ? algorithm->span() : root.span(),
               "the model is quantised" +
                   (algorithm ? " with " + in_backticks(algorithm->text())
                              : std::string()) +
                   ", according to `" + std::string(name) +
                   "` next to its config")
        .fact(std::string(kPackedTensors))
        .help(std::string(kUseTensors));
    return std::nullopt;
  }
  return QuantisationFile();
}

void explain_manifest(const std::string& path, Host& host, Manifest& manifest) {
  const Document& config = *manifest.config;
  Diagnostics problems;
  const auto beside = read_quantisation_file(path, config, host, problems);
  if (!beside) return;
  auto own =
      explained_tensors(config, manifest.architecture, *beside, problems);
  const bool names_model =
      config.root().find("model_type") || config.root().find("architectures");
  if (!own && names_model && problems.has_errors()) {
    const auto& all = problems.all();
    const auto first =
        std::ranges::find(all, Severity::Error, &Diagnostic::severity);
    manifest.remarks.push_back(
        "the config next to the weights is rejected (" + first->message +
        "): tensor roles are inferred from names and shapes");
  }
  if (!own) return;
  drop_absent_blocks(manifest, *own);
  manifest.kinds =
      std::make_shared<const ParameterKinds>(std::move(own->kinds));
  if (!own->buffers.empty()) turn_into_buffers(manifest, own->buffers);
}

}  // namespace shardplan
