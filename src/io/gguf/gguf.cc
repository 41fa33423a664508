// SPDX-License-Identifier: Apache-2.0
// The format `gguf`: one file, all parts of a split one, or the one model of a
// directory.
//
// llama.cpp's gguf-split names the parts `model-00001-of-00003.gguf` and writes
// `split.no`, `split.count` and `split.tensors.count` into each.
#include <algorithm>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "io/fence.h"
#include "io/formats.h"
#include "io/gguf/header.h"
#include "io/shards.h"

namespace shardplan {
namespace {

constexpr std::string_view kEnding = ".gguf";
constexpr size_t kDigits = 5;
constexpr int64_t kMaxParts = 99'999;

std::string five_digits(int64_t number) {
  std::string text = std::to_string(number);
  return std::string(kDigits - std::min(kDigits, text.size()), '0') + text;
}

// Returns "-00002-of-00003.gguf".
std::string part_ending(int64_t number, int64_t count) {
  return "-" + five_digits(number) + "-of-" + five_digits(count) +
         std::string(kEnding);
}

std::optional<GgufHeader> read_header(const std::string& path,
                                      const SourcePtr& file, Host& host,
                                      Manifest& into, Diagnostics& diags) {
  auto size = std::ssize(file->text());
  // Only the header of the file may have been read; pipes have no size.
  const auto info = path == "-" ? std::nullopt : host.file_info(path);
  if (info) size = std::max(size, info->size);
  return read_gguf_header(file, size, into, diags);
}

Diagnostics::Builder inconsistent(Diagnostics& diags, std::string message) {
  return diags.error(Code::InconsistentCheckpoint, {}, std::move(message));
}

// Reads all parts of the model that `path` is a part of.
std::optional<Manifest> read_parts(const std::string& path,
                                   const GgufHeader& one, int64_t count,
                                   Host& host, Diagnostics& diags) {
  const int64_t number = one.metadata.integer("split.no").value_or(-1) + 1;
  const std::string ending = part_ending(number, std::min(count, kMaxParts));
  if (number < 1 || number > count || count > kMaxParts ||
      !path.ends_with(ending)) {
    return inconsistent(diags,
                        "`" + path + "` is part " + std::to_string(number) +
                            " of " + std::to_string(count) +
                            " of a split model, but its name does not say so")
        .help("parts are found by name: name them `model" + part_ending(1, 3) +
              "`, like gguf-split does");
  }
  const std::string stem = path.substr(0, path.size() - ending.size());
  std::vector<std::string> parts;
  for (int64_t i = 1; i <= count; ++i) {
    parts.push_back(stem + part_ending(i, count));
    host.leads_to(path, parts.back());
  }
  std::vector<std::string> missing;
  std::ranges::copy_if(
      parts, std::back_inserter(missing),
      [&](const std::string& part) { return !host.file_info(part); });
  if (!missing.empty()) {
    return inconsistent(diags,
                        plural(std::ssize(missing), "part") + " of " +
                            std::to_string(count) +
                            " of the split model missing from its folder: " +
                            some_names(missing));
  }
  std::vector<Shard> shards;
  Manifest manifest;
  for (const std::string& part : parts) {
    const SourcePtr file = read_source(part, kWholeFile, host, diags);
    if (file == nullptr) return std::nullopt;
    const auto header = read_header(part, file, host, manifest, diags);
    if (!header) return std::nullopt;
    if (header->metadata.integer("split.no") != std::ssize(shards) ||
        header->metadata.integer("split.count") != count) {
      return inconsistent(
          diags, "`" + part + "` is not the part that its name states");
    }
    shards.push_back({part, header->data_absent});
  }
  const auto tensors = static_cast<int64_t>(manifest.any_size());
  const auto expected = one.metadata.integer("split.tensors.count");
  if (expected && *expected != tensors) {
    return inconsistent(diags, "the parts have " + plural(tensors, "tensor") +
                                   ", but `split.tensors.count` is " +
                                   count_text(*expected));
  }
  remark_absent(shards, manifest);
  return manifest;
}

std::optional<Manifest> read_model(const std::string& path,
                                   const SourcePtr& file, Host& host,
                                   Diagnostics& diags) {
  Manifest manifest;
  const auto header = read_header(path, file, host, manifest, diags);
  if (!header) return std::nullopt;
  const int64_t parts = header->metadata.integer("split.count").value_or(1);
  if (parts > 1) return read_parts(path, *header, parts, host, diags);
  const Shard whole{file->name(), header->data_absent};
  remark_absent({&whole, 1}, manifest);
  return manifest;
}

// Returns whether all files are parts of one model.
bool is_one_model(const std::vector<std::string>& names) {
  const auto count = std::ssize(names);
  if (count < 2 || count > kMaxParts) return count == 1;
  const std::string first_ending = part_ending(1, count);
  if (!names[0].ends_with(first_ending)) return false;
  const std::string stem =
      names[0].substr(0, names[0].size() - first_ending.size());
  for (int64_t i = 1; i <= count; ++i) {
    if (nth(names, i - 1) != stem + part_ending(i, count)) return false;
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
                   plural(std::ssize(names), "GGUF file") +
                   " of different models")
        .fact("found " + some_names(names))
        .help("give one of them");
  }
  const std::string path = path_in(directory, names.front(), host);
  const SourcePtr file = read_source(path, kWholeFile, host, diags);
  if (file == nullptr) return std::nullopt;
  return read_model(path, file, host, diags);
}

std::optional<Manifest> read(const ManifestSource& source, Host& host,
                             Diagnostics& diags) {
  if (source.file == nullptr) return read_directory(source.path, host, diags);
  return read_model(source.path, source.file, host, diags);
}

}  // namespace

const ManifestFormat kGguf = {
    "gguf",  "llama.cpp weights; only file headers are read",
    is_gguf, read,
    true,    gguf_bytes_needed};

}  // namespace shardplan
