// SPDX-License-Identifier: Apache-2.0
#include "conformance/tree.h"

#include <utility>

#include "base/real_host.h"
#include "io/formats/formats.h"

namespace shardplan::conformance {
namespace {

Json nested(const Json& tree) {
  if (tree.is_null()) return nullptr;
  if (tree.is_object() && tree.contains("$shape")) {
    return {{"shape", tree.at("$shape")}, {"dtype", "f32"}};
  }
  for (const char* list : {"$list", "$tuple"}) {
    if (tree.is_object() && tree.contains(list)) return nested(tree.at(list));
  }
  if (tree.is_array()) {
    Json items = Json::array();
    for (const Json& item : tree) items.push_back(nested(item));
    return items;
  }
  if (!tree.is_object()) return {{"shape", Json::array()}, {"dtype", "f32"}};
  Json map = Json::object();
  for (const auto& [key, value] : tree.items()) map[key] = nested(value);
  return map;
}

}  // namespace

std::optional<Manifest> decode_tree(const Json& tree, Diagnostics& diags) {
  Json document = nested(tree);
  if (document.is_object() && document.contains("shape") &&
      document.contains("dtype")) {
    Manifest bare;  // a bare array has the empty path
    const auto shape = document.at("shape").get<Shape>();
    if (!bare.add("", {DType::F32, shape}, {})) return std::nullopt;
    return bare;
  }
  // The wrapper keeps keys such as `name` from meaning something else.
  document = {{"parameters", std::move(document)}};
  const std::unique_ptr<Host> host = make_real_host();
  const ModelSource source = {
      "tree", "", std::make_shared<SourceFile>("tree", document.dump())};
  return kNative.read(source, *host, diags);
}

}  // namespace shardplan::conformance
