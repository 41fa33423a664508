// SPDX-License-Identifier: Apache-2.0
// The format `gguf`: one file, all parts of a split one, or the one model of a
// directory.
//
// llama.cpp's gguf-split names the parts `model-00001-of-00003.gguf` and writes
// `split.no`, `split.count` and `split.tensors.count` into each.
#include "io/gguf/gguf.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "io/fence.h"
#include "io/formats.h"
#include "io/paths.h"
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
  std::vector<std::string> missing;
  for (int64_t i = 1; i <= count; ++i) {
    const std::string part = stem + part_ending(i, count);
    host.leads_to(path, part);
    if (!host.file_info(part)) missing.push_back(part);
  }
  if (!missing.empty()) {
    return inconsistent(diags,
                        plural(std::ssize(missing), "part") + " of " +
                            std::to_string(count) +
                            " of the split model missing from its folder: " +
                            some_names(missing));
  }
  std::vector<Shard> shards;
  Manifest manifest;
  for (int64_t i = 1; i <= count; ++i) {
    const std::string part = stem + part_ending(i, count);
    const SourcePtr file = read_source(part, kWholeFile, host, diags);
    if (file == nullptr) return std::nullopt;
    const auto header = read_header(part, file, host, manifest, diags);
    if (!header) return std::nullopt;
    if (header->metadata.integer("split.no") != i - 1 ||
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
  if (source.file == nullptr) {
    return read_directory(source.directory, host, diags);
  }
  return read_model(source.path, source.file, host, diags);
}

}  // namespace

const ManifestFormat kGguf = {
    "gguf",  "llama.cpp weights; only file headers are read",
    is_gguf, read,
    true,    gguf_bytes_needed,
};

namespace {

class FactReader {
 public:
  FactReader(const GgufMetadata& metadata, std::vector<std::string>& remarks)
      : metadata_(metadata), remarks_(remarks) {
    if (const auto name = metadata.text("general.architecture")) {
      prefix_ = std::string(*name) + ".";
    }
  }

  Facts read() {
    Facts facts;
    if (prefix_.empty()) return facts;
    facts.layers = size("block_count");
    facts.heads = agreed("attention.head_count");
    facts.experts = size("expert_count");
    facts.expert_groups = size("expert_group_count");
    facts.vocab = size("vocab_size");
    if (!facts.vocab) facts.vocab = metadata_.length("tokenizer.ggml.tokens");
    if (facts.vocab == 0) facts.vocab.reset();
    size("attention.kv_lora_rank") ? read_latent(facts) : read_heads(facts);
    read_windows(facts);
    if (facts.heads || facts.kv_heads || facts.experts || facts.layers) {
      facts.from = FactsFrom::Manifest;
    }
    return facts;
  }

 private:
  // Returns a positive number.
  std::optional<int64_t> size(const std::string& key) const {
    const auto value = metadata_.integer(prefix_ + key);
    return value && *value > 0 ? value : std::nullopt;
  }

  // Returns a value that all layers share. It is given once or per layer, with
  // 0 for layers without attention.
  std::optional<int64_t> agreed(const std::string& key) {
    const auto values = metadata_.integers(prefix_ + key);
    if (!values) return std::nullopt;
    std::optional<int64_t> found;
    for (const int64_t value : *values) {
      if (value < 1) continue;
      if (found && *found != value) {
        remarks_.push_back("layers differ in " + in_backticks(prefix_ + key) +
                           " (" + std::to_string(*found) + " and " +
                           std::to_string(value) +
                           "), so this value is treated as unknown");
        return std::nullopt;
      }
      found = value;
    }
    return found;
  }

  void read_heads(Facts& facts) {
    const bool says_kv =
        metadata_.integers(prefix_ + "attention.head_count_kv").has_value();
    facts.kv_heads = says_kv ? agreed("attention.head_count_kv") : facts.heads;
    facts.head_dim = size("attention.key_length");
    const auto hidden = size("embedding_length");
    if (!facts.head_dim && hidden && facts.heads &&
        *hidden % *facts.heads == 0) {
      facts.head_dim = *hidden / *facts.heads;
    }
    const auto value_dim = size("attention.value_length");
    if (value_dim != facts.head_dim) facts.value_dim = value_dim;
  }

  // Every head projects its own part from the latent. The cache holds the
  // latent and, next to it, the rotated positions.
  void read_latent(Facts& facts) {
    facts.kv_heads = facts.heads;
    facts.value_dim = size("attention.value_length_mla");
    if (!facts.value_dim) facts.value_dim = size("attention.value_length");
    if (const auto rope = size("rope.dimension_count")) {
      facts.kv_latent = checked_add(*size("attention.kv_lora_rank"), *rope);
    }
  }

  void read_windows(Facts& facts) {
    if (!facts.layers) return;
    const auto layers = static_cast<size_t>(*facts.layers);
    const auto window = size("attention.sliding_window");
    const auto sliding =
        metadata_.integers(prefix_ + "attention.sliding_window_pattern");
    const auto kv = metadata_.integers(prefix_ + "attention.head_count_kv");
    const bool per_layer = kv && kv->size() == layers && layers > 1;
    const bool some_without =
        per_layer && std::ranges::find(*kv, 0) != kv->end();
    if (!window && !some_without) return;
    const bool patterned = sliding && sliding->size() == layers && layers > 1;
    // The number of layers is limited, since the file may state any number.
    constexpr size_t kMaxGgufLayers = 100'000;
    if (layers > kMaxGgufLayers) return;
    for (size_t i = 0; i < layers; ++i) {
      int64_t reach = 0;
      if (window) {
        reach = !patterned ? kUnknownWindow : sliding->at(i) != 0 ? *window : 0;
      }
      if (some_without && kv->at(i) == 0) reach = kUnknownWindow;
      facts.windows.push_back(reach);
    }
  }

  const GgufMetadata& metadata_;
  std::vector<std::string>& remarks_;
  std::string prefix_;  // "llama."
};

}  // namespace

Facts gguf_facts(const GgufMetadata& metadata,
                 std::vector<std::string>& remarks) {
  return FactReader(metadata, remarks).read();
}

}  // namespace shardplan
