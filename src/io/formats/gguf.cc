// SPDX-License-Identifier: Apache-2.0
// GGUF: one file, all parts of a split one, or the one model of a directory.
//
// llama.cpp's gguf-split names the parts `model-00001-of-00003.gguf` and writes
// `split.no`, `split.count` and `split.tensors.count` into each.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "io/formats/formats.h"
#include "io/gguf_header.h"
#include "io/paths.h"
#include "io/shards.h"

namespace shardplan {
namespace {

constexpr std::string_view kEnding = ".gguf";
constexpr size_t kDigits = 5;
constexpr int64_t kMostParts = 99'999;

std::string five_digits(int64_t number) {
  std::string text = std::to_string(number);
  return std::string(kDigits - std::min(kDigits, text.size()), '0') + text;
}

// "-00002-of-00003.gguf"
std::string part_ending(int64_t number, int64_t count) {
  return "-" + five_digits(number) + "-of-" + five_digits(count) +
         std::string(kEnding);
}

std::optional<GgufHeader> read_header(const std::string& path,
                                      const SourcePtr& file, Host& host,
                                      Diagnostics& diags) {
  auto size = static_cast<int64_t>(file->text().size());
  // Of a file only the header may have been read; pipes have no size.
  const auto info = path == "-" ? std::nullopt : host.file_info(path);
  if (info) size = std::max(size, info->size);
  return read_gguf_header(file, size, diags);
}

std::optional<Manifest> together(std::vector<Shard> shards,
                                 Diagnostics& diags) {
  if (!check_distinct(shards, diags)) return std::nullopt;
  Manifest manifest;
  adopt_shards(shards, manifest);
  for (const Shard& shard : shards) {
    for (size_t i = 0; i < tensor_count(shard.manifest); ++i) {
      if (!copy_tensor(shard.manifest, i, manifest, diags)) return std::nullopt;
    }
    for (const std::string& remark : shard.manifest.remarks) {
      manifest.remarks.push_back(remark);
    }
  }
  manifest.facts = std::move(shards.front().manifest.facts);
  manifest.model_name = std::move(shards.front().manifest.model_name);
  return manifest;
}

Diagnostics::Builder inconsistent(Diagnostics& diags, std::string message) {
  return diags.error(Code::InconsistentCheckpoint, {}, std::move(message));
}

// All parts of which `path` is one.
std::optional<Manifest> read_parts(const std::string& path,
                                   const GgufHeader& one, int64_t count,
                                   Host& host, Diagnostics& diags) {
  const int64_t number = one.metadata.integer("split.no").value_or(-1) + 1;
  const std::string ending = part_ending(number, std::min(count, kMostParts));
  if (number < 1 || number > count || count > kMostParts ||
      !path.ends_with(ending)) {
    return inconsistent(diags, "`" + path + "` is part " +
                                   std::to_string(number) + " of " +
                                   std::to_string(count) +
                                   " of a split model, but is not named so")
        .help("the parts are found by their names: `model" + part_ending(1, 3) +
              "`, as gguf-split gives them");
  }
  const std::string stem = path.substr(0, path.size() - ending.size());
  std::vector<std::string> missing;
  for (int64_t i = 1; i <= count; ++i) {
    const std::string part = stem + part_ending(i, count);
    if (!host.file_info(part)) missing.push_back(part);
  }
  if (!missing.empty()) {
    return inconsistent(
        diags, plural(static_cast<int64_t>(missing.size()), "part") + " of " +
                   std::to_string(count) +
                   " of the split model not beside it: " + some_names(missing));
  }
  std::vector<Shard> shards;
  int64_t tensors = 0;
  for (int64_t i = 1; i <= count; ++i) {
    const std::string part = stem + part_ending(i, count);
    const SourcePtr file = read_source(part, kWholeFile, host, diags);
    if (file == nullptr) return std::nullopt;
    auto header = read_header(part, file, host, diags);
    if (!header) return std::nullopt;
    if (header->metadata.integer("split.no") != i - 1 ||
        header->metadata.integer("split.count") != count) {
      return inconsistent(diags,
                          "`" + part + "` is not the part that its name says");
    }
    tensors += static_cast<int64_t>(tensor_count(header->manifest));
    shards.push_back({part, std::move(header->manifest), header->data_absent});
  }
  const auto expected = one.metadata.integer("split.tensors.count");
  if (expected && *expected != tensors) {
    return inconsistent(diags, "the parts have " + plural(tensors, "tensor") +
                                   ", but `split.tensors.count` is " +
                                   count_text(*expected));
  }
  return together(std::move(shards), diags);
}

std::optional<Manifest> read_model(const std::string& path,
                                   const SourcePtr& file, Host& host,
                                   Diagnostics& diags) {
  auto header = read_header(path, file, host, diags);
  if (!header) return std::nullopt;
  const int64_t parts = header->metadata.integer("split.count").value_or(1);
  if (parts > 1) return read_parts(path, *header, parts, host, diags);
  std::vector<Shard> shards;
  shards.push_back(
      {file->name(), std::move(header->manifest), header->data_absent});
  Manifest manifest = std::move(shards.front().manifest);
  shards.front().manifest = Manifest();
  adopt_shards(shards, manifest);
  return manifest;
}

// Whether all are the parts of one model.
bool is_one_model(const std::vector<std::string>& names) {
  const auto count = static_cast<int64_t>(names.size());
  if (count < 2 || count > kMostParts) return count == 1;
  const size_t length = part_ending(1, count).size();
  for (int64_t i = 1; i <= count; ++i) {
    const std::string& name = names[static_cast<size_t>(i - 1)];
    if (!name.ends_with(part_ending(i, count)) ||
        name.substr(0, name.size() - length) !=
            names[0].substr(0, names[0].size() - length)) {
      return false;
    }
  }
  return true;
}

std::optional<Manifest> read_directory(const std::string& directory, Host& host,
                                       Diagnostics& diags) {
  std::vector<std::string> names;
  for (const std::string& name : host.list_directory(directory)) {
    if (name.ends_with(kEnding)) names.push_back(name);
  }
  if (!is_one_model(names)) {
    return diags
        .error(Code::UnrecognizedFormat, {},
               "directory `" + directory + "` has " +
                   plural(static_cast<int64_t>(names.size()), "GGUF file") +
                   " of different models")
        .fact("they are " + some_names(names))
        .help("name one of them");
  }
  const std::string path = join_path(directory, names.front());
  const SourcePtr file = read_source(path, kWholeFile, host, diags);
  if (file == nullptr) return std::nullopt;
  return read_model(path, file, host, diags);
}

std::optional<Manifest> read(const ModelSource& source, Host& host,
                             Diagnostics& diags) {
  if (source.file == nullptr) {
    return read_directory(source.directory, host, diags);
  }
  return read_model(source.path, source.file, host, diags);
}

}  // namespace

const ManifestFormat kGguf = {
    "gguf",  "weights of llama.cpp; only their headers are read",
    is_gguf, read,
    true,    gguf_bytes_needed,
};

}  // namespace shardplan
