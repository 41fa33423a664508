// SPDX-License-Identifier: Apache-2.0
#include "io/shards.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "io/safetensors/file.h"

namespace shardplan {

std::optional<std::vector<Shard>> read_shards(
    std::span<const std::string> paths, Host& host, Diagnostics& diags) {
  std::vector<Shard> shards;
  shards.reserve(paths.size());
  for (const std::string& path : paths) {
    auto header = open_safetensors(path, host, diags);
    if (!header) continue;
    shards.push_back({path, std::move(header->manifest), header->data_absent});
  }
  if (shards.size() < paths.size()) return std::nullopt;
  return shards;
}

size_t tensor_count(const Manifest& manifest) {
  return manifest.size() + manifest.buffers().size();
}

std::optional<int64_t> tensor_bytes(const Manifest& manifest) {
  return checked_add(manifest.total_bytes(), manifest.buffer_bytes());
}

bool ShardCopy::try_add(size_t index) {
  const std::string_view name = from_->any_name(index);
  const Span where = from_->any_where(index);
  if (index >= from_->size()) {
    return into_->add(name, from_->any_type(index), where, true);
  }
  uint32_t& type = type_of_[from_->type_number(index)];
  if (type != kUnknown) return into_->add_numbered(name, type, where);
  if (!into_->add(name, from_->type(index), where)) return false;
  type = into_->type_number(into_->size() - 1);
  return true;
}

bool ShardCopy::report_too_large(size_t index, Diagnostics& diags) const {
  diags.error(Code::InconsistentCheckpoint, from_->any_where(index),
              "with this tensor the shards together exceed 2^63 bytes");
  return false;
}

bool append_shards(std::span<const Shard> shards, Manifest& into,
                   Diagnostics& diags) {
  for (const Shard& shard : shards) {
    ShardCopy copy(shard.manifest, into);
    for (size_t i = 0; i < tensor_count(shard.manifest); ++i) {
      if (copy.try_add(i)) continue;
      // What stands twice is the better reason.
      return check_distinct(shards, diags) && copy.report_too_large(i, diags);
    }
  }
  return !into.find_duplicate() || check_distinct(shards, diags);
}

void adopt_shards(std::span<const Shard> shards, Manifest& into) {
  const Shard* absent = nullptr;
  size_t count = 0;
  for (const Shard& shard : shards) {
    into.sources.insert(into.sources.end(), shard.manifest.sources.begin(),
                        shard.manifest.sources.end());
    if (!shard.data_absent) continue;
    if (count++ == 0) absent = &shard;
  }
  if (count == 1) {
    into.remarks.push_back("the data of `" + absent->path +
                           "` is absent (header only)");
  } else if (count > 1) {
    into.remarks.push_back("the data of " + std::to_string(count) + " of " +
                           std::to_string(shards.size()) +
                           " shards is absent (headers only)");
  }
}

bool check_distinct(std::span<const Shard> shards, Diagnostics& diags) {
  struct Place {
    size_t shard = 0, index = 0;
  };
  std::unordered_map<std::string_view, Place> first;
  std::vector<std::string> repeated;
  Span here, there;
  for (size_t s = 0; s < shards.size(); ++s) {
    const Manifest& manifest = shards[s].manifest;
    for (size_t i = 0; i < tensor_count(manifest); ++i) {
      const auto [known, is_new] =
          first.emplace(manifest.any_name(i), Place{s, i});
      if (is_new) continue;
      if (repeated.empty()) {
        here = manifest.any_where(i);
        there =
            shards[known->second.shard].manifest.any_where(known->second.index);
      }
      repeated.emplace_back(manifest.any_name(i));
    }
  }
  if (repeated.empty()) return true;
  diags
      .error(Code::InconsistentCheckpoint, here,
             plural(static_cast<int64_t>(repeated.size()), "tensor") +
                 " in more than one shard: " + some_names(repeated))
      .label(there, "first found here")
      .parameters(repeated);
  return false;
}

}  // namespace shardplan
