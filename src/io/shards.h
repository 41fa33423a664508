// SPDX-License-Identifier: Apache-2.0
// Several files of one checkpoint, read into one manifest.
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

// A file, and which tensors of the manifest it has brought: they follow one
// another there, parameters and buffers by themselves.
struct Shard {
  std::string path;
  bool data_absent = false;
  size_t first_parameter = 0, parameters = 0;
  size_t first_buffer = 0, buffers = 0;
};

// Reads the headers of safetensors files, one behind the other. Empty when one
// cannot be read; then `into` has some of their tensors.
std::optional<std::vector<Shard>> read_shards(
    std::span<const std::string> paths, Host& host, Manifest& into,
    Diagnostics& diags);

// Bytes of parameters and buffers; empty when they exceed 63 bits.
std::optional<int64_t> tensor_bytes(const Manifest& manifest);

// The remark about files without data.
void remark_absent(std::span<const Shard> shards, Manifest& manifest);

// Names are unique: SP003 where one file has a name twice, SP008 where two have
// the same.
bool check_distinct(const Manifest& manifest, Diagnostics& diags);

}  // namespace shardplan
