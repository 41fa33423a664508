// SPDX-License-Identifier: Apache-2.0
// safetensors: one file, or every *.safetensors of a directory without index.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "io/formats/formats.h"
#include "io/paths.h"
#include "io/safetensors_header.h"
#include "io/shards.h"

namespace shardplan {
namespace {

std::optional<Manifest> together(std::vector<Shard> shards,
                                 Diagnostics& diags) {
  Manifest manifest;
  if (shards.size() == 1) {
    manifest = std::move(shards.front().manifest);
    shards.front().manifest = Manifest();
  }
  adopt_shards(shards, manifest);
  if (!check_distinct(shards, diags)) return std::nullopt;
  for (const Shard& shard : shards) {
    for (size_t i = 0; i < tensor_count(shard.manifest); ++i) {
      if (!copy_tensor(shard.manifest, i, manifest, diags)) return std::nullopt;
    }
  }
  return manifest;
}

std::optional<Manifest> read_directory(const std::string& directory, Host& host,
                                       Diagnostics& diags) {
  std::vector<std::string> paths;
  for (const std::string& name : host.list_directory(directory)) {
    if (name.ends_with(".safetensors")) {
      paths.push_back(join_path(directory, name));
    }
  }
  auto shards = read_shards(paths, host, diags);
  if (!shards) return std::nullopt;
  return together(*std::move(shards), diags);
}

std::optional<Manifest> read(const ModelSource& source, Host& host,
                             Diagnostics& diags) {
  if (source.file == nullptr) {
    return read_directory(source.directory, host, diags);
  }
  auto size = static_cast<int64_t>(source.file->text().size());
  // Of a file only the header has been read; pipes have no size.
  const auto info =
      source.path == "-" ? std::nullopt : host.file_info(source.path);
  if (info) size = std::max(size, info->size);
  auto header = read_safetensors_header(source.file, size, diags);
  if (!header) return std::nullopt;
  std::vector<Shard> shards;
  shards.push_back(
      {source.file->name(), std::move(header->manifest), header->data_absent});
  return together(std::move(shards), diags);
}

}  // namespace

const ManifestFormat kSafetensors = {
    "safetensors",  "weights; only their headers are read",
    is_safetensors, read,
    true,           safetensors_bytes_needed,
};

}  // namespace shardplan
