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

// What is said of the whole of a manifest, without its tensors.
Manifest without_tensors(const Manifest& manifest);
// Parameters and buffers; see Manifest::any_name.
size_t tensor_count(const Manifest& manifest);
// Bytes of both; empty when they exceed 63 bits.
std::optional<int64_t> tensor_bytes(const Manifest& manifest);

// Adds tensor `index` of `from`, of any kind, to `into`; what both hold must
// not exceed 63 bits (SP008).
bool copy_tensor(const Manifest& from, size_t index, Manifest& into,
                 Diagnostics& diags);

// Gives `into` the shards' sources, and a remark about those without data.
void adopt_shards(std::span<const Shard> shards, Manifest& into);

// SP008 when two shards have a tensor of the same name.
bool check_distinct(std::span<const Shard> shards, Diagnostics& diags);

}  // namespace shardplan
