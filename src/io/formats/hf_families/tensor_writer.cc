// SPDX-License-Identifier: Apache-2.0
#include "io/formats/hf_families/tensor_writer.h"

#include <optional>
#include <utility>

#include "base/checked.h"
#include "base/text.h"

namespace shardplan {

bool TensorWriter::begin(int64_t layers, int64_t per_layer) {
  if (!config_.ok()) return false;
  const std::optional<int64_t> tensors = checked_mul(layers, per_layer);
  if (tensors && *tensors <= kMaxTensors) return true;
  config_.refuse("", "the model would have too many tensors")
      .fact(count_text(layers) + " layers with up to " + count_text(per_layer) +
            " tensors each")
      .fact("the limit is " + count_text(kMaxTensors));
  return false;
}

void TensorWriter::add(std::string_view name, const TensorType& type,
                       bool buffer) {
  if (!config_.ok()) return;  // reported once
  if (manifest_.add(name, type, Span{}, buffer)) return;
  config_.refuse("", "the model's size exceeds 63 bits")
      .fact("at `" + printable(name) + "`, " + type_text(type));
}

void TensorWriter::tensor(std::string_view name, Shape shape) {
  add(name, {dtype_, std::move(shape)}, false);
}

void TensorWriter::tensor(std::string_view name, DType dtype, Shape shape) {
  add(name, {dtype, std::move(shape)}, false);
}

void TensorWriter::buffer(std::string_view name, DType dtype, Shape shape) {
  add(name, {dtype, std::move(shape)}, true);
}

void TensorWriter::linear(const std::string& name, int64_t out, int64_t in,
                          bool bias) {
  tensor(name + ".weight", {out, in});
  if (bias) tensor(name + ".bias", {out});
}

void TensorWriter::norm(const std::string& name, int64_t size) {
  tensor(name + ".weight", {size});
}

void TensorWriter::layer_norm(const std::string& name, int64_t size) {
  tensor(name + ".weight", {size});
  tensor(name + ".bias", {size});
}

void TensorWriter::embedding(const std::string& name, int64_t rows,
                             int64_t size) {
  tensor(name + ".weight", {rows, size});
}

}  // namespace shardplan
