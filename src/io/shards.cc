// SPDX-License-Identifier: Apache-2.0
#include "io/shards.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "io/safetensors/file.h"

namespace shardplan {

std::optional<std::vector<Shard>> read_shards(
    std::span<const std::string> paths, Host& host, Manifest& into,
    Diagnostics& diags) {
  std::vector<Shard> shards;
  shards.reserve(paths.size());
  for (const std::string& path : paths) {
    Shard shard{path, false, into.size(), 0, into.buffers().size(), 0};
    const auto header = open_safetensors(path, host, into, diags);
    if (!header) continue;
    shard.data_absent = header->data_absent;
    shard.parameters = into.size() - shard.first_parameter;
    shard.buffers = into.buffers().size() - shard.first_buffer;
    shards.push_back(std::move(shard));
  }
  if (shards.size() < paths.size()) return std::nullopt;
  return shards;
}

std::optional<int64_t> tensor_bytes(const Manifest& manifest) {
  return checked_add(manifest.total_bytes(), manifest.buffer_bytes());
}

void remark_absent(std::span<const Shard> shards, Manifest& manifest) {
  const auto count = std::ranges::count(shards, true, &Shard::data_absent);
  if (count == 1) {
    const auto absent = std::ranges::find(shards, true, &Shard::data_absent);
    manifest.remarks.push_back("the data of `" + absent->path +
                               "` is missing (header only)");
  } else if (count > 1) {
    manifest.remarks.push_back("the data of " + std::to_string(count) + " of " +
                               std::to_string(shards.size()) +
                               " shards is missing (headers only)");
  }
}

bool check_distinct(const Manifest& manifest, Diagnostics& diags) {
  const auto duplicate = manifest.find_duplicate();
  if (!duplicate) return true;
  const Span there = manifest.any_where(duplicate->first);
  const Span here = manifest.any_where(duplicate->second);
  if (here.file == there.file) {
    diags
        .error(Code::DuplicateKey, here,
               in_backticks(manifest.any_name(duplicate->second)) +
                   " is given twice")
        .label(there, "first given here");
    return false;
  }
  std::unordered_set<std::string_view> seen;
  std::vector<std::string> repeated;
  for (size_t i = 0; i < manifest.any_size(); ++i) {
    const std::string_view name = manifest.any_name(i);
    if (!seen.insert(name).second) repeated.emplace_back(name);
  }
  diags
      .error(Code::InconsistentCheckpoint, here,
             plural(std::ssize(repeated), "tensor") +
                 " in more than one shard: " + some_names(repeated))
      .label(there, "first found here")
      .parameters(repeated);
  return false;
}

}  // namespace shardplan
