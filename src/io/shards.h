// SPDX-License-Identifier: Apache-2.0
// The safetensors files of one checkpoint, and putting them together.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "base/host.h"
#include "core/manifest.h"

namespace shardplan {

struct Shard {
  std::string path;
  Manifest manifest;
  bool data_absent = false;
};

// Reads the headers of all files; empty when one cannot be read.
std::optional<std::vector<Shard>> read_shards(
    std::span<const std::string> paths, Host& host, Diagnostics& diags);

// Parameters and buffers; see Manifest::any_name.
size_t tensor_count(const Manifest& manifest);
// Bytes of both; empty when they exceed 63 bits.
std::optional<int64_t> tensor_bytes(const Manifest& manifest);

// Adds tensors of a shard to another manifest, which looks each type up once.
class ShardCopy {
 public:
  // Both must outlive it.
  ShardCopy(const Manifest& from, Manifest& into)
      : from_(&from), into_(&into), type_of_(from.types().size(), kUnknown) {}
  // Tensor `index` of any kind. What both hold must not exceed 63 bits (SP008).
  bool add(size_t index, Diagnostics& diags) {
    return try_add(index) || report_too_large(index, diags);
  }
  bool try_add(size_t index);
  // False.
  bool report_too_large(size_t index, Diagnostics& diags) const;

 private:
  static constexpr uint32_t kUnknown = UINT32_MAX;
  const Manifest* from_;
  Manifest* into_;
  std::vector<uint32_t> type_of_;  // numbers there, by those here
};

// Puts the tensors of all shards together, in their order. SP008 where two
// shards have one name, or all exceed 63 bits.
bool append_shards(std::span<const Shard> shards, Manifest& into,
                   Diagnostics& diags);

// Gives `into` the shards' sources, and a remark about those without data.
void adopt_shards(std::span<const Shard> shards, Manifest& into);

// SP008 when two shards have a tensor of the same name.
bool check_distinct(std::span<const Shard> shards, Diagnostics& diags);

}  // namespace shardplan
