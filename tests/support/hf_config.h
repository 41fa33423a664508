// SPDX-License-Identifier: Apache-2.0
// Configs for tests: the samples of tests/data/configs, small ones to change,
// and what is synthesised from them.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/diagnostic.h"
#include "core/manifest.h"
#include "io/formats.h"
#include "tests/support/source_dir.h"

namespace shardplan::testing {

using Json = nlohmann::json;

inline std::filesystem::path data_path(const std::string& name) {
  return source_dir() / "tests/data" / name;
}

inline Json read_json(const std::filesystem::path& path) {
  std::ifstream stream(path);
  if (!stream) throw std::runtime_error("cannot read " + path.string());
  return Json::parse(stream);
}

// tests/data/configs/NAME.json
inline Json sample_config(const std::string& name) {
  return read_json(data_path("configs/" + name + ".json"));
}

// The config of the recording tests/data/hf/small-NAME.json.
inline Json small_config(const std::string& name) {
  return read_json(data_path("hf/small-" + name + ".json")).at("config");
}

// `config` with other or further values.
inline Json changed(Json config, const Json& changes) {
  config.update(changes);
  return config;
}

inline Json without(Json config, const std::string& key) {
  config.erase(key);
  return config;
}

struct Synthesis {
  Diagnostics diags;
  std::optional<Manifest> manifest;

  // "SP009 `hidden_size` is missing", of the first diagnostic.
  std::string problem() const {
    if (diags.all().empty()) return "";
    const Diagnostic& first = diags.all().front();
    return code_id(first.code) + " " + first.message;
  }
  const Manifest& good() const {
    if (!manifest) throw std::runtime_error(problem());
    return *manifest;
  }
};

inline std::unique_ptr<Synthesis> synthesize_text(
    std::string text, std::shared_ptr<const NameScheme> scheme = nullptr) {
  auto result = std::make_unique<Synthesis>();
  const auto source =
      std::make_shared<const SourceFile>("config.json", std::move(text));
  result->diags.add_source(source);
  const auto document = parse_document(source, result->diags);
  if (document) {
    result->manifest = synthesize_manifest(*document, result->diags,
                                           {nullptr, std::move(scheme)});
  }
  return result;
}

inline std::unique_ptr<Synthesis> synthesize(
    const Json& config, std::shared_ptr<const NameScheme> scheme = nullptr) {
  return synthesize_text(config.dump(1), std::move(scheme));
}

// The type of a parameter or buffer; throws when there is none of that name.
inline TensorType type_of(const Manifest& manifest, std::string_view name) {
  for (size_t i = 0; i < manifest.size(); ++i) {
    if (manifest.name(i) == name) return manifest.type(i);
  }
  for (const auto& buffer : manifest.buffers()) {
    if (buffer.name == name) return buffer.type;
  }
  throw std::out_of_range(std::string(name));
}

inline bool has_tensor(const Manifest& manifest, std::string_view name) {
  try {
    type_of(manifest, name);
    return true;
  } catch (const std::out_of_range&) {
    return false;
  }
}

// Names in which every number is a `*`, with their shapes and how many there
// are: as recordings keep them.
using StarredTensors = std::map<std::pair<std::string, Shape>, int64_t>;

inline std::string starred(std::string_view name) {
  std::string folded;
  for (const char c : name) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit) folded += c;
    if (digit && !folded.ends_with('*')) folded += '*';
  }
  return folded;
}

inline StarredTensors starred_tensors(const Manifest& manifest) {
  StarredTensors counts;
  for (size_t i = 0; i < manifest.size(); ++i) {
    ++counts[{starred(manifest.name(i)), manifest.type(i).shape}];
  }
  for (const auto& buffer : manifest.buffers()) {
    ++counts[{starred(buffer.name), buffer.type.shape}];
  }
  return counts;
}

// Of a recording: [[name, shape, how many, ..], ..].
inline StarredTensors starred_tensors(const Json& recorded) {
  StarredTensors counts;
  for (const Json& tensor : recorded) {
    counts[{tensor.at(0).get<std::string>(), tensor.at(1).get<Shape>()}] +=
        tensor.at(2).get<int64_t>();
  }
  return counts;
}

}  // namespace shardplan::testing
