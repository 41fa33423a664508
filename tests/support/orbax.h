// SPDX-License-Identifier: Apache-2.0
// Pieces of Orbax's `_METADATA` and `_sharding`.
//
//   "{\"tree_metadata\": {" + orbax_leaf({"params", "w"}, "jax.Array", "[2]")
//   "{" + named_sharding("params.w", "fsdp=2", "\"fsdp\", null") + "}"
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"

namespace shardplan::testing {

inline std::string base64(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string result;
  for (size_t i = 0; i < text.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; ++k) {
      const auto byte = i + k < text.size()
                            ? static_cast<unsigned char>(text[i + k])
                            : static_cast<unsigned char>(0);
      bits = (bits << 8U) | byte;
    }
    for (size_t k = 0; k < 4; ++k) {
      result +=
          i + k <= text.size() ? kDigits[(bits >> (18U - 6U * k)) & 63U] : '=';
    }
  }
  return result;
}

// `write_shape` as JSON, or empty. A Dict or None is an empty container.
inline std::string orbax_leaf(const std::vector<std::string>& keys,
                              const std::string& value_type,
                              const std::string& write_shape = "") {
  std::string path = "(";
  std::string parts;
  for (const std::string& key : keys) {
    path += "'" + key + "', ";
    if (!parts.empty()) parts += ", ";
    parts += "{\"key\": \"" + key + "\", \"key_type\": 2}";
  }
  const bool empty = value_type == "Dict" || value_type == "None";
  std::string text;
  append_json_string(text, path + ")");
  text += ": {\"key_metadata\": [" + parts +
          "], \"value_metadata\": {\"value_type\": \"" + value_type +
          "\", \"skip_deserialize\": " + (empty ? "true" : "false");
  if (!write_shape.empty()) text += ", \"write_shape\": " + write_shape;
  return text + "}}";
}

// `mesh` as `fsdp=2,tp=4`, `spec` as the inside of JSON's list.
inline std::string named_sharding(std::string_view name, std::string_view mesh,
                                  std::string_view spec) {
  std::string names;
  std::string sizes;
  while (!mesh.empty()) {
    const size_t end = std::min(mesh.find(','), mesh.size());
    const std::string_view axis = mesh.substr(0, end);
    const size_t equals = axis.find('=');
    if (!names.empty()) names += ", ";
    names += "\"" + std::string(axis.substr(0, equals)) + "\"";
    if (!sizes.empty()) sizes += ", ";
    sizes += axis.substr(equals + 1);
    mesh.remove_prefix(std::min(end + 1, mesh.size()));
  }
  std::string text;
  append_json_string(text, base64(name));
  text += ": ";
  append_json_string(
      text, "{\"sharding_type\": \"NamedSharding\", \"shape\": [" + sizes +
                "], \"axis_names\": [" + names + "], \"partition_spec\": [" +
                std::string(spec) +
                "], \"device_mesh\": {\"mesh\": [{\"id\": 0}]}}");
  return text;
}

}  // namespace shardplan::testing
