// SPDX-License-Identifier: Apache-2.0
// Reads what a Python file of transformers states about its tensor-parallel
// plans: the classes, the models that they belong to, and the version.
//
// Such a file has only a part of `model.tp_plan`: transformers puts the base
// model's name in front of its plan and, depending on the version, adds an
// entry for the head class and for the embedding. Source:
// PreTrainedModel.post_init of transformers 4.51 to 5.13, distributed/mixin.py
// of 5.14 to 5.23.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "syntax/python.h"

namespace shardplan {

struct TransformersVersion {
  int64_t major = 0;
  int64_t minor = 0;

  auto operator<=>(const TransformersVersion&) const = default;
};
std::string version_text(TransformersVersion version);
// Reads "4.57.1" or "5".
std::optional<TransformersVersion> parse_version(std::string_view text);

// The first version that folds the digits of a name only in whole parts.
inline constexpr TransformersVersion kWholePartsSince = {5, 2};
// The first version that uses the plans of head classes.
inline constexpr TransformersVersion kHeadsSince = {5, 14};
// The first versions that shard the embedding: if it is tied, and always.
inline constexpr TransformersVersion kTiedEmbeddingSince = {5, 15};
inline constexpr TransformersVersion kEmbeddingSince = {5, 21};
// The version assumed if a file only shows that it is a late one.
inline constexpr TransformersVersion kNewestVersion = {5, 23};

// The modules around a base model, and its head, for one model type.
struct TpModules {
  std::string_view type;
  // Names of modules around the base model, any number in a row: "model|lm".
  std::string_view outer = "model|transformer|language_model";
  std::string_view head = "lm_head";  // "": no head has a plan
  std::string_view head_style = "colwise_gather_output";
};
inline constexpr TpModules kUsualTpModules = {""};

// Returns null for a model type without a plan in transformers 4.57 and 5.23.
const TpModules* find_tp_modules(std::string_view type);

struct TpClass {
  std::string name;
  std::string model_type;  // "" if the class does not state it
  size_t begin = 0;        // byte offset in the file
  size_t end = 0;
};

struct TpPythonFile {
  std::vector<TpClass> classes;
  std::string base_model_prefix;  // "" if no class states it
  // Whether classes are decorated with `@strict`: transformers 5.4 or later.
  bool has_strict_configs = false;

  const TpClass* class_at(size_t byte) const;
};

TpPythonFile look_at_tp_file(std::span<const PythonToken> tokens);

}  // namespace shardplan
