// SPDX-License-Identifier: Apache-2.0
// ConfigReader: sizes and switches of a config.json, each checked and, when it
// is wrong, reported with its place.
//
// Every getter gives back something usable, so that a model type reads all that
// it needs in a row and asks ok() once before it writes tensors. Invariant:
// whatever a getter gives while ok() holds is within its limits, so the product
// of two sizes, or twice that, fits 63 bits.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "core/manifest.h"
#include "core/types.h"
#include "syntax/document.h"

namespace shardplan {

// Larger than any dimension of a real model.
inline constexpr int64_t kMaxSize = int64_t{1} << 30;
// Layers, experts.
inline constexpr int64_t kMaxCount = 100'000;

// What to take where a key is absent, or null. Without one that is an error.
struct Fallback {
  std::optional<int64_t> absent = std::nullopt;
  std::optional<int64_t> null = std::nullopt;
};

class ConfigReader {
 public:
  // `path` is what leads to `map` in the file: "" or "text_config.".
  // REQUIRES: `map` is a map, and its document and `diags` outlive the reader.
  ConfigReader(const Node& map, std::string path, Diagnostics& diags);

  // 1 to kMaxSize.
  int64_t size(std::string_view key, const Fallback& fallback = {});
  // `least` to kMaxCount.
  int64_t count(std::string_view key, int64_t least,
                const Fallback& fallback = {});
  bool flag(std::string_view key, bool absent);
  // A number that is finite; `absent` also where it is null. SP009 when it is
  // not positive.
  double positive(std::string_view key, double absent);
  // "" when absent or null.
  std::string text(std::string_view key);
  // A list of integers; nothing when absent or null.
  std::vector<int64_t> integers(std::string_view key);
  // The value, when there is one that is not null.
  std::optional<Node> find(std::string_view key) const;
  // A map within this one, by key.
  std::optional<ConfigReader> section(std::string_view key);

  // Reports SP009 at the value of `key`, or at the map when it has none.
  Diagnostics::Builder refuse(std::string_view key, std::string message);
  // False once anything has been reported, here or in a section.
  bool ok() const;

 private:
  int64_t bounded(std::string_view key, int64_t least, int64_t most,
                  const Fallback& fallback);
  Diagnostics::Builder ill_typed(std::string_view key, const Node& value,
                                 std::string_view wanted);
  Span place(std::string_view key) const;

  Node map_;
  std::string path_;
  Diagnostics& diags_;
  int64_t errors_before_;
};

// TensorWriter: adds the tensors of a synthesised checkpoint to a manifest.
//
// Layers are spelled as PyTorch modules: linear("x", out, in) is `x.weight`
// [out, in] and, with a bias, `x.bias` [out]. Tensors have no place of their
// own, since no line of a config names them.

// A config of a few bytes may ask for any number of tensors; real models have
// up to a few hundred thousand.
inline constexpr int64_t kMaxTensors = 20'000'000;

class TensorWriter {
 public:
  // `dtype` is what tensors have unless they say otherwise. The manifest and
  // the config outlive the writer.
  TensorWriter(Manifest& manifest, DType dtype, ConfigReader& config)
      : manifest_(manifest), dtype_(dtype), config_(config) {}

  // Before anything is written: whether the config is sound and a model of
  // `layers` layers with at most `per_layer` tensors each is within
  // kMaxTensors (else SP009). REQUIRES: both at most 2^31.
  bool begin(int64_t layers, int64_t per_layer);

  void tensor(std::string_view name, Shape shape);
  void tensor(std::string_view name, DType dtype, Shape shape);
  void buffer(std::string_view name, DType dtype, Shape shape);

  void linear(const std::string& name, int64_t out, int64_t in,
              bool bias = false);
  void norm(const std::string& name, int64_t size);
  void layer_norm(const std::string& name, int64_t size);  // with a bias
  void embedding(const std::string& name, int64_t rows, int64_t size);

 private:
  void add(std::string_view name, const TensorType& type, bool buffer);

  Manifest& manifest_;
  DType dtype_;
  ConfigReader& config_;
};

// Model types whose checkpoint follows from a config.json.
//
// A model type is a row of kModelTypes (manifest.cc) and a function that writes
// its tensors in the order in which the model has them: embedding, layers,
// norm, head. Names and shapes are those of the checkpoints on the Hub, which
// tests compare with recordings of the modules of transformers (tests/data/hf).

// What a key means where it is absent, and where it is null.
inline constexpr int64_t kDerived = 0;  // from the other sizes
inline constexpr int64_t kRefused = -1;
struct HeadDefault {
  int64_t absent = kDerived;
  int64_t null = kDerived;
};

struct HfModelType {
  std::string_view model_type = {};
  std::string_view architecture = {};  // the one whose checkpoint is meant
  void (*write)(const HfModelType&, ConfigReader&, TensorWriter&) = nullptr;
  bool tied = false;          // where `tie_word_embeddings` is absent
  HeadDefault kv_heads = {};  // derived: as many as heads
  HeadDefault head_dim = {};  // derived: hidden_size over heads
  // The one `quant_method` whose tensors are known; "" for none.
  std::string_view quantization = {};
  int64_t heads = kRefused;  // where `num_attention_heads` is absent
};
// The row of a config by `model_type`, of several the one that
// `architectures` names; without a `model_type` by `architectures`. Null when
// it is none of ours. Reports nothing.
const HfModelType* find_model_type(const Node& config);
// All rows.
std::span<const HfModelType> hf_model_types();

// decoders.cc
void write_llama(const HfModelType&, ConfigReader&, TensorWriter&);
void write_mistral(const HfModelType&, ConfigReader&, TensorWriter&);
void write_qwen2(const HfModelType&, ConfigReader&, TensorWriter&);
void write_qwen3(const HfModelType&, ConfigReader&, TensorWriter&);
void write_mixtral(const HfModelType&, ConfigReader&, TensorWriter&);
void write_qwen3_moe(const HfModelType&, ConfigReader&, TensorWriter&);
void write_gemma2(const HfModelType&, ConfigReader&, TensorWriter&);
void write_gemma3_text(const HfModelType&, ConfigReader&, TensorWriter&);
void write_gemma3(const HfModelType&, ConfigReader&, TensorWriter&);
void write_gpt2(const HfModelType&, ConfigReader&, TensorWriter&);
void write_bert(const HfModelType&, ConfigReader&, TensorWriter&);
void write_bert_masked_lm(const HfModelType&, ConfigReader&, TensorWriter&);
void write_gpt_oss(const HfModelType&, ConfigReader&, TensorWriter&);
void write_deepseek_v3(const HfModelType&, ConfigReader&, TensorWriter&);

// How far back each layer sees, as the configuration classes of transformers
// read it.

// ModelFacts::windows of a config with that many layers: `layer_types` first,
// else what the model type's class does. Of model types that we do not know
// only `layer_types` is read; where they have `sliding_window` without it, all
// layers are taken to see all tokens, which is never too little. Layers that
// keep no keys and values (recurrent ones), and those that share another
// layer's, are kUnknownWindow. Reports nothing.
std::vector<int64_t> layer_windows(const Node& config, const HfModelType* row,
                                   int64_t layers);

}  // namespace shardplan
