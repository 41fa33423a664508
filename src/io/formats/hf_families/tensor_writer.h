// SPDX-License-Identifier: Apache-2.0
// TensorWriter: adds the tensors of a synthesised checkpoint to a manifest.
//
// Layers are spelled as PyTorch modules: linear("x", out, in) is `x.weight`
// [out, in] and, with a bias, `x.bias` [out]. Tensors have no place of their
// own, since no line of a config names them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/diagnostic.h"
#include "core/manifest.h"
#include "core/types.h"
#include "io/formats/hf_families/config_reader.h"

namespace shardplan {

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

}  // namespace shardplan
