// SPDX-License-Identifier: Apache-2.0
// safetensors files as bytes.
//
//   safetensors({{"wte.weight", "F32", {2, 3}}})         with its data
//   safetensors_bytes(R"({"a": ...})", 24)               any header at all
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "core/types.h"

namespace shardplan::testing {

inline std::string safetensors_bytes(std::string_view header,
                                     int64_t data_bytes = 0) {
  std::string file;
  for (unsigned shift = 0; shift < 64; shift += 8) {
    file += static_cast<char>((header.size() >> shift) & 0xffU);
  }
  file += header;
  return file + std::string(static_cast<size_t>(data_bytes), 'x');
}

struct StoredTensor {
  std::string name;
  std::string dtype;  // as safetensors spells it
  Shape shape;
};

inline std::string safetensors(const std::vector<StoredTensor>& tensors,
                               bool with_data = true) {
  std::string header = "{";
  int64_t at = 0;
  for (const StoredTensor& tensor : tensors) {
    if (header.size() > 1) header += ',';
    const int64_t bytes =
        TensorType{find_dtype(tensor.dtype).value(), tensor.shape}.bytes();
    append_json_string(header, tensor.name);
    header += R"(:{"dtype":")" + tensor.dtype + R"(","shape":)" +
              shape_text(tensor.shape) + R"(,"data_offsets":[)" +
              std::to_string(at) + "," + std::to_string(at + bytes) + "]}";
    at += bytes;
  }
  header += "}";
  header.append((8 - header.size() % 8) % 8, ' ');
  return safetensors_bytes(header, with_data ? at : 0);
}

}  // namespace shardplan::testing
