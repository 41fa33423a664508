// SPDX-License-Identifier: Apache-2.0
// Opens the values of tensors in safetensors files (open_weights() in
// io/load.h).
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/text.h"
#include "io/formats.h"
#include "io/load.h"
#include "io/safetensors/file.h"

namespace shardplan {
namespace {

// One whole safetensors file. It must not move, because `numbers` points into
// it.
struct OpenFile {
  SourcePtr source;
  Manifest manifest;
  SafetensorsHeader header;
  std::unordered_map<std::string_view, size_t> numbers = {};  // by name
};
using OpenFilePtr = std::unique_ptr<OpenFile>;

OpenFilePtr open_file(const std::string& path, Host& host, Diagnostics& diags) {
  SourcePtr source = read_source(path, kWholeFile, host, diags);
  if (source == nullptr) return nullptr;
  Manifest tensors;
  auto header = read_safetensors_header(source, std::ssize(source->text()),
                                        tensors, diags);
  if (!header) return nullptr;
  auto file = std::make_unique<OpenFile>(
      OpenFile{std::move(source), std::move(tensors), *std::move(header)});
  const Manifest& manifest = file->manifest;
  file->numbers.reserve(manifest.any_size());
  for (size_t i = 0; i < manifest.any_size(); ++i) {
    file->numbers.emplace(manifest.any_name(i), i);
  }
  return file;
}

// Returns a tensor whose data is null if the file ends before its data.
StoredTensor tensor_at(const OpenFile& file, size_t number) {
  const TensorType& type = file.manifest.any_type(number);
  StoredTensor tensor{type.dtype, type.shape};
  const std::string_view data =
      file.source->text().substr(to_size(file.header.data_begin));
  const size_t begin = to_size(file.header.begins[number]);
  const size_t bytes = to_size(type.bytes());
  if (begin > data.size() || bytes > data.size() - begin) return tensor;
  tensor.data = reinterpret_cast<const std::byte*>(data.data()) + begin;
  tensor.owner = file.source;
  return tensor;
}

void report_tensors(const Manifest& manifest,
                    const std::vector<size_t>& tensors, const std::string& what,
                    const std::string& help, Diagnostics& diags) {
  if (tensors.empty()) return;
  std::vector<std::string> names;
  for (const size_t i : tensors) names.emplace_back(manifest.any_name(i));
  diags
      .error(Code::InconsistentCheckpoint, manifest.any_where(tensors.front()),
             what + " " + some_names(names))
      .help(help)
      .parameters(names);
}

}  // namespace

std::optional<StoredTensors> open_weights(const std::string& path,
                                          const Manifest& manifest, Host& host,
                                          Diagnostics& diags) {
  const bool from_pipe = path == "-";
  // The shapes of an index without shards come from a config, not a file.
  const bool placed = manifest.size() == 0 || manifest.where(0).file != nullptr;
  const bool from_safetensors = manifest.format == kSafetensors.name ||
                                manifest.format == kSafetensorsIndex.name;
  if (!from_safetensors || from_pipe || !placed) {
    return diags
        .error(Code::InconsistentCheckpoint, {},
               in_backticks(path) + " has no weight values")
        .fact(from_pipe ? "a pipe can be read only once"
                        : "values are read only from safetensors files");
  }
  std::map<std::string, OpenFilePtr> files;  // null: cannot be read
  StoredTensors tensors;
  tensors.reserve(manifest.any_size());
  std::vector<size_t> changed;
  std::vector<size_t> absent;
  bool readable = true;
  for (size_t i = 0; i < manifest.any_size(); ++i) {
    const std::string& file_path = manifest.any_where(i).file->name();
    const auto [place, is_new] = files.try_emplace(file_path);
    if (is_new) place->second = open_file(file_path, host, diags);
    readable = readable && place->second != nullptr;
    if (place->second == nullptr) continue;
    const OpenFile& file = *place->second;
    const auto found = file.numbers.find(manifest.any_name(i));
    if (found == file.numbers.end() ||
        file.manifest.any_type(found->second) != manifest.any_type(i)) {
      changed.push_back(i);
      continue;
    }
    tensors.push_back(tensor_at(file, found->second));
    if (tensors.back().data == nullptr) absent.push_back(i);
  }
  report_tensors(manifest, changed, "the file changed while it was being read:",
                 "run again when nothing is writing the checkpoint", diags);
  report_tensors(manifest, absent, "the file ends before the data of",
                 "download the whole file: this copy is truncated", diags);
  if (!changed.empty() || !absent.empty() || !readable) return std::nullopt;
  return tensors;
}

std::optional<StoredTensors> find_weights(const std::string& path,
                                          const Manifest& manifest,
                                          Host& host) {
  // A pipe can be read only once, so it is left to the reader that needs it.
  const std::optional<FileInfo> info = host.file_info(path);
  if (!info || (!info->directory && info->size == 0)) return std::nullopt;
  Diagnostics ignored;
  return open_weights(path, manifest, host, ignored);
}

}  // namespace shardplan
