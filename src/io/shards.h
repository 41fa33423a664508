// SPDX-License-Identifier: Apache-2.0
// Reads the files (shards) of one checkpoint into one manifest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "base/host.h"
#include "core/manifest.h"

namespace shardplan {

// A file, and the tensors of the manifest that come from it: one range of the
// parameters and one of the buffers.
struct Shard {
  std::string path;
  bool data_absent = false;
  size_t first_parameter = 0, parameters = 0;
  size_t first_buffer = 0, buffers = 0;
};

// Reads the headers of safetensors files in order. Returns nullopt when one
// cannot be read; `into` then holds some of their tensors.
std::optional<std::vector<Shard>> read_shards(
    std::span<const std::string> paths, Host& host, Manifest& into,
    Diagnostics& diags);

// Returns the bytes of all parameters and buffers; nullopt beyond 63 bits.
std::optional<int64_t> tensor_bytes(const Manifest& manifest);

// Adds a remark about the files whose data is missing.
void remark_absent(std::span<const Shard> shards, Manifest& manifest);

// Returns whether all names are unique. Reports SP003 if one file has a name
// twice, SP008 if two files have the same name.
bool check_distinct(const Manifest& manifest, Diagnostics& diags);

}  // namespace shardplan
