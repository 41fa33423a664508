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
  const auto has = [&](std::string_view key, char value) {
    size_t at = head.find(key);
    if (at == head.npos) return false;
    at = head.find_first_not_of(" \t\r\n", at + key.size());
    if (at == head.npos || head[at] != ':') return false;
    at = head.find_first_not_of(" \t\r\n", at + 1);
    return at != head.npos && head[at] == value;
  };
  return has("\"model_type\"", '"') || has("\"architectures\"", '[');
}

std::optional<Manifest> read(const ManifestSource& source, Host& host,
                             Diagnostics& diags) {
  diags.add_source(source.file);
  auto document = parse_document(source.file, diags);
  if (!document) return std::nullopt;
  const auto config = std::make_shared<const Document>(*std::move(document));
  std::optional<QuantisationFile> beside = QuantisationFile();
  if (source.path != "-") {
    beside = read_quantisation_file(source.path, *config, host, diags);
  }
  if (!beside) return std::nullopt;
  auto manifest = synthesize_manifest(*config, diags, source.reading, &*beside);
  if (!manifest) return std::nullopt;
  manifest->title = source.path;
  manifest->config = config;
  return manifest;
}

}  // namespace

const ManifestFormat kHfConfig = {
    kConfigFormat, "a Hugging Face config.json of a known family", recognize,
    read};

std::optional<QuantisationFile> read_quantisation_file(const std::string& path,
                                                       const Document& config,
                                                       Host& host,
                                                       Diagnostics& diags) {
  QuantisationFile result;
  // Newer programs write the quantisation into the config.
  const Node own = config.root();
  const auto said_there =
      own.is_map() ? own.find("quantization_config") : std::nullopt;
  if (said_there && !said_there->is_null()) return result;
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
    const auto part = root.is_map() ? root.find("quantization") : std::nullopt;
    const auto said = [&](const char* key) {
      const auto value =
          part && part->is_map() ? part->find(key) : std::nullopt;
      return value && !value->is_null() ? value : std::nullopt;
    };
    const auto algorithm = said("quant_algo");
    // Only the KV cache is quantised.
    if (part && part->is_map() && !algorithm && !said("quantized_layers")) {
      continue;
    }
    if (algorithm && std::string_view(name) == "hf_quant_config.json") {
      result.file = file;
      result.document = std::make_shared<const Document>(*std::move(document));
      return result;
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
  return result;
}

namespace {

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
    const bool is_cut = std::any_of(
        kind.begin(), kind.end(), [](const DimKind& d) { return d.block > 1; });
    if (!is_cut || !wanted.contains(key.first + kScales)) continue;
    for (DimKind& dim : kind) dim.block = 0;
  }
}

}  // namespace

void explain_manifest(const std::string& path, Host& host, Manifest& manifest) {
  const Document& config = *manifest.config;
  Diagnostics problems;
  const auto beside = read_quantisation_file(path, config, host, problems);
  if (!beside) return;
  auto own =
      explained_tensors(config, manifest.architecture, &*beside, problems);
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

namespace {

bool is_float(DType dtype) {
  return dtype == DType::F32 || dtype == DType::BF16 || dtype == DType::F16;
}

// Returns whether the shape is [1, 1, n, n], as in GPT-2 and similar models; a
// projection's bias never has this shape.
bool is_causal_mask(const Shape& shape) {
  return shape.size() == 4 && shape[0] == 1 && shape[1] == 1 &&
         shape[2] == shape[3];
}

bool is_single(const Shape& shape) {
  return shape.empty() || shape == Shape{1};
}

// Removes the last component of `name` and returns it.
std::string_view cut_last(std::string_view& name) {
  size_t begin = name.size();
  while (begin > 0 && name[begin - 1] != '.' && name[begin - 1] != '/') --begin;
  const std::string_view last = name.substr(begin);
  name.remove_suffix(name.size() - (begin == 0 ? 0 : begin - 1));
  return last;
}

// Returns whether a tensor named like a projection's weight or bias is a
// buffer: a causal mask, or in GGUF the RoPE factors and router correction
// biases.
bool is_module_buffer(std::string_view module, bool bias,
                      const TensorType& type) {
  if (bias && (module == "attn" || module == "attention")) {
    return is_causal_mask(type.shape);
  }
  if (type.shape.size() != 1 || !is_float(type.dtype)) return false;
  if (bias) return module == "exp_probs_b";
  return module == "rope_freqs" || module == "rope_factors_long" ||
         module == "rope_factors_short";
}

}  // namespace

bool is_known_buffer(std::string_view name, const TensorType& type) {
  const Shape& shape = type.shape;
  // This quick test suffices for most weights.
  if (shape.size() != 1 && name.ends_with("weight")) return false;
  const std::string_view leaf = cut_last(name);
  if (leaf == "bias" || leaf == "weight") {
    return is_module_buffer(cut_last(name), leaf == "bias", type);
  }
  if (leaf == "masked_bias" || leaf == "scale_attn") return is_single(shape);
  if (leaf == "causal_mask") return is_causal_mask(shape);
  if (leaf == "position_ids") {
    return shape.size() <= 2 &&
           (type.dtype == DType::I64 || type.dtype == DType::I32);
  }
  if (leaf == "inv_freq") return shape.size() == 1 && is_float(type.dtype);
  if (leaf == "e_score_correction_bias") {
    return shape.size() == 1 && is_float(type.dtype);
  }
  // DeepSeek's FP8 has one scale per block of a matrix. MXFP4's scales (u8) are
  // half of a weight's encoding and are placed with it.
  if (leaf == "weight_scale_inv") {
    return shape.size() == 2 &&
           (is_float(type.dtype) || type.dtype == DType::F8E8M0);
  }
  // DeepSeek V4's block scales. Those of its 4-bit experts are part of the
  // weight's encoding, like MXFP4's.
  if (leaf == "scale" && type.dtype == DType::F8E8M0 && shape.size() == 2) {
    cut_last(name);
    cut_last(name);
    return cut_last(name) != "experts";
  }
  if (leaf == "weight_scale" || leaf == "_weight_scale" ||
      leaf == "input_scale") {
    return shape.size() <= 2 && is_float(type.dtype);
  }
  // Single numbers: the scale of a whole tensor or of activations, or the
  // packing of bytes.
  if (leaf == "weight_scale_2" || leaf == "weight_global_scale" ||
      leaf == "input_global_scale" || leaf == "activation_scale" ||
      leaf == "k_scale" || leaf == "v_scale") {
    return is_single(shape) && is_float(type.dtype);
  }
  if (leaf == "weight_format") return shape.empty() && type.dtype == DType::U8;
  if (leaf == "weight_shape") {
    return shape == Shape{2} && type.dtype == DType::I64;
  }
  // bitsandbytes stores the values of its 4-bit codes, and a text.
  if (leaf == "quant_map") return shape == Shape{16} && is_float(type.dtype);
  if (leaf == "nested_quant_map") {
    return shape == Shape{256} && is_float(type.dtype);
  }
  if (leaf.starts_with("bitsandbytes__")) {
    return shape.size() == 1 && type.dtype == DType::U8;
  }
  return false;
}

}  // namespace shardplan
