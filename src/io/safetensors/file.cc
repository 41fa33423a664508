// SPDX-License-Identifier: Apache-2.0
// The format `safetensors`: one file, or every *.safetensors in a directory
// without an index.
#include "io/safetensors/file.h"

#include <algorithm>

#include "io/fence.h"
#include "io/formats.h"
#include "io/load.h"
#include "io/shards.h"

namespace shardplan {
namespace {

std::optional<Manifest> read_directory(const std::string& directory, Host& host,
                                       Diagnostics& diags) {
  std::vector<std::string> paths;
  for (const std::string& name : host.list_directory(directory)) {
    if (name.ends_with(".safetensors")) {
      paths.push_back(path_in(directory, name, host));
    }
  }
  Manifest manifest;
  const auto shards = read_shards(paths, host, manifest, diags);
  if (!shards) return std::nullopt;
  remark_absent(*shards, manifest);
  return manifest;
}

std::optional<Manifest> read(const ManifestSource& source, Host& host,
                             Diagnostics& diags) {
  if (source.file == nullptr) {
    return read_directory(source.path, host, diags);
  }
  auto size = std::ssize(source.file->text());
  // Only the header of a file has been read; pipes have no size.
  const auto info =
      source.path == "-" ? std::nullopt : host.file_info(source.path);
  if (info) size = std::max(size, info->size);
  Manifest manifest;
  const auto header =
      read_safetensors_header(source.file, size, manifest, diags);
  if (!header) return std::nullopt;
  const Shard whole{source.file->name(), header->data_absent};
  remark_absent({&whole, 1}, manifest);
  return manifest;
}

}  // namespace

const ManifestFormat kSafetensors = {
    "safetensors",  "weights; only file headers are read",
    is_safetensors, read,
    true,           safetensors_bytes_needed,
};

}  // namespace shardplan
