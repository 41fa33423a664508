// SPDX-License-Identifier: Apache-2.0
// GGUF files as bytes.
//
//   GgufFile().text("general.architecture", "llama")
//             .u32("llama.block_count", 2)
//             .tensor("blk.0.attn_q.weight", 12, {256, 8})   // fastest first
//             .bytes()
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/gguf/header.h"

namespace shardplan::testing {

class GgufFile {
 public:
  uint32_t version = 3;
  int64_t alignment = 32;
  // What the header says instead of the truth.
  std::optional<uint64_t> tensor_count, pair_count;

  static std::string number(uint64_t value, size_t size) {
    std::string bytes;
    for (size_t i = 0; i < size; ++i, value >>= 8U) {
      bytes += static_cast<char>(value & 0xffU);
    }
    return bytes;
  }
  static std::string string(std::string_view text) {
    return number(text.size(), 8) + std::string(text);
  }

  // A pair whose value is these bytes.
  GgufFile& pair(std::string_view key, uint32_t type, std::string_view value) {
    pairs_ += string(key) + number(type, 4) + std::string(value);
    ++pair_number_;
    return *this;
  }
  GgufFile& u32(std::string_view key, uint32_t value) {
    return pair(key, 4, number(value, 4));
  }
  GgufFile& text(std::string_view key, std::string_view value) {
    return pair(key, 8, string(value));
  }
  GgufFile& u32s(std::string_view key, const std::vector<uint32_t>& values) {
    std::string bytes = number(4, 4) + number(values.size(), 8);
    for (const uint32_t value : values) bytes += number(value, 4);
    return pair(key, 9, bytes);
  }
  GgufFile& texts(std::string_view key, const std::vector<std::string>& items) {
    std::string bytes = number(8, 4) + number(items.size(), 8);
    for (const std::string& item : items) bytes += string(item);
    return pair(key, 9, bytes);
  }

  // Behind the tensors before it, unless `offset` says where.
  GgufFile& tensor(std::string_view name, uint32_t type,
                   const std::vector<uint64_t>& sizes,
                   std::optional<uint64_t> offset = std::nullopt) {
    tensors_ += string(name) + number(sizes.size(), 4);
    for (const uint64_t size : sizes) tensors_ += number(size, 8);
    tensors_ += number(type, 4) + number(offset.value_or(data_), 8);
    ++tensor_number_;
    const auto dtype = ggml_dtype(type);
    Shape shape;
    for (const uint64_t size : sizes) {
      shape.push_back(static_cast<int64_t>(size));
    }
    const int64_t elements = element_count(shape).value_or(0);
    const int64_t bytes = dtype ? byte_count(elements, *dtype).value_or(0) : 0;
    const auto end =
        static_cast<int64_t>(offset.value_or(data_)) + bytes + alignment - 1;
    data_ = static_cast<uint64_t>(end / alignment * alignment);
    return *this;
  }

  std::string header() const {
    return "GGUF" + number(version, 4) +
           number(tensor_count.value_or(tensor_number_), 8) +
           number(pair_count.value_or(pair_number_), 8) + pairs_ + tensors_;
  }
  std::string bytes() const {
    std::string file = header();
    while (file.size() % static_cast<size_t>(alignment) != 0) file += '\0';
    return file + std::string(data_, 'x');
  }

 private:
  std::string pairs_, tensors_;
  uint64_t pair_number_ = 0, tensor_number_ = 0;
  uint64_t data_ = 0;
};

// What a llama with 2 layers, 4 heads and 2 KV heads of 64 says of itself.
inline GgufFile llama_gguf() {
  GgufFile file;
  file.text("general.architecture", "llama")
      .text("general.name", "Tiny")
      .u32("llama.block_count", 2)
      .u32("llama.embedding_length", 256)
      .u32("llama.attention.head_count", 4)
      .u32("llama.attention.head_count_kv", 2)
      .u32("llama.vocab_size", 1000);
  return file;
}

}  // namespace shardplan::testing
