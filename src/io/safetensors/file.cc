// SPDX-License-Identifier: Apache-2.0

#include "io/safetensors/file.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>

#include "base/text.h"
#include "io/fence.h"
#include "io/formats.h"
#include "io/load.h"
#include "io/paths.h"
#include "io/shards.h"

namespace shardplan {

// The format `safetensors`: one file, or every *.safetensors in a directory
// without an index.

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
    return read_directory(source.directory, host, diags);
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
      file.source->text().substr(static_cast<size_t>(file.header.data_begin));
  const auto begin = static_cast<size_t>(file.header.begins[number]);
  const auto bytes = static_cast<size_t>(type.bytes());
  if (begin > data.size() || bytes > data.size() - begin) return tensor;
  tensor.data = reinterpret_cast<const std::byte*>(data.data()) + begin;
  tensor.owner = file.source;
  return tensor;
}

bool holds_safetensors(const Manifest& manifest) {
  return manifest.format == kSafetensors.name ||
         manifest.format == kSafetensorsIndex.name;
}

class WeightReader {
 public:
  WeightReader(const Manifest& manifest, Host& host, Diagnostics& diags)
      : manifest_(manifest), host_(host), diags_(diags) {}

  std::optional<StoredTensors> read();

 private:
  // Returns the file that a tensor of the manifest is from; null when it cannot
  // be read, which is reported once.
  const OpenFile* file_of(Span where);
  void add(size_t number, const OpenFile& file);
  bool report_problems();

  const Manifest& manifest_;
  Host& host_;
  Diagnostics& diags_;
  std::map<std::string, OpenFilePtr, std::less<>> files_;
  StoredTensors tensors_;
  std::vector<size_t> changed_;
  std::vector<size_t> absent_;
};

const OpenFile* WeightReader::file_of(Span where) {
  const std::string& path = where.file->name();
  auto found = files_.find(path);
  if (found == files_.end()) {
    found = files_.emplace(path, open_file(path, host_, diags_)).first;
  }
  return found->second.get();
}

void WeightReader::add(size_t number, const OpenFile& file) {
  const auto found = file.numbers.find(manifest_.any_name(number));
  if (found == file.numbers.end() ||
      file.manifest.any_type(found->second) != manifest_.any_type(number)) {
    changed_.push_back(number);
    return;
  }
  tensors_.push_back(tensor_at(file, found->second));
  if (tensors_.back().data == nullptr) absent_.push_back(number);
}

bool WeightReader::report_problems() {
  const auto report = [&](const std::vector<size_t>& tensors,
                          std::string_view what, std::string_view help) {
    if (tensors.empty()) return;
    std::vector<std::string> names;
    for (const size_t i : tensors) names.emplace_back(manifest_.any_name(i));
    diags_
        .error(Code::InconsistentCheckpoint,
               manifest_.any_where(tensors.front()),
               std::string(what) + " " + some_names(names))
        .help(std::string(help))
        .parameters(names);
  };
  report(changed_, "the file changed while it was being read:",
         "run again when nothing is writing the checkpoint");
  report(absent_, "the file ends before the data of",
         "download the whole file: this copy is truncated");
  return changed_.empty() && absent_.empty();
}

std::optional<StoredTensors> WeightReader::read() {
  tensors_.reserve(manifest_.any_size());
  bool readable = true;
  for (size_t i = 0; i < manifest_.any_size(); ++i) {
    const OpenFile* file = file_of(manifest_.any_where(i));
    if (file == nullptr) {
      readable = false;
    } else {
      add(i, *file);
    }
  }
  if (!report_problems() || !readable) return std::nullopt;
  return std::move(tensors_);
}

}  // namespace

std::optional<StoredTensors> open_weights(const std::string& path,
                                          const Manifest& manifest, Host& host,
                                          Diagnostics& diags) {
  const bool from_pipe = path == "-";
  // The shapes of an index without shards come from a config, not a file.
  const bool placed = manifest.size() == 0 || manifest.where(0).file != nullptr;
  if (!holds_safetensors(manifest) || from_pipe || !placed) {
    return diags
        .error(Code::InconsistentCheckpoint, {},
               in_backticks(path) + " has no weight values")
        .fact(from_pipe ? "a pipe can be read only once"
                        : "values are read only from safetensors files");
  }
  return WeightReader(manifest, host, diags).read();
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
