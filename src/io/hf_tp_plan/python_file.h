// SPDX-License-Identifier: Apache-2.0
// What a Python file of transformers says about the plans in it: the classes,
// the models that they are of, and the version.
//
// `model.tp_plan` is more than such a file holds: transformers puts the base
// model's name in front of its plan and, by version, adds the entry of the head
// class and of the embedding. Source: PreTrainedModel.post_init of transformers
// 4.51 to 5.13, distributed/mixin.py of 5.14 to 5.23.
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
// "4.57.1", "5"
std::optional<TransformersVersion> parse_version(std::string_view text);

// Digits of a name are folded by whole parts.
inline constexpr TransformersVersion kWholePartsSince = {5, 2};
// The plans of head classes count.
inline constexpr TransformersVersion kHeadsSince = {5, 14};
// The embedding is sharded: where it is tied, and always.
inline constexpr TransformersVersion kTiedEmbeddingSince = {5, 15};
inline constexpr TransformersVersion kEmbeddingSince = {5, 21};
// What is taken where a file only says that it is late.
inline constexpr TransformersVersion kNewestVersion = {5, 23};

// Of model types whose base model or head is not called as usual.
struct TpModules {
  std::string_view type;
  // Names of modules around the base model, any number in a row: "model|lm".
  std::string_view outer = "model|transformer|language_model";
  std::string_view head = "lm_head";  // "": none has a plan
  std::string_view head_style = "colwise_gather_output";
};
inline constexpr TpModules kUsualTpModules = {""};

// Null for a model type that transformers 4.57 and 5.23 have no plan for.
const TpModules* find_tp_modules(std::string_view type);

struct TpClass {
  std::string name;
  std::string model_type;  // "" where the class does not say it
  size_t begin = 0;        // bytes of the file
  size_t end = 0;
};

struct TpPythonFile {
  std::vector<TpClass> classes;
  std::string base_model_prefix;  // "" where no class says it
  // Classes are decorated with `@strict`: transformers 5.4 or later.
  bool has_strict_configs = false;

  const TpClass* class_at(size_t byte) const;
};

TpPythonFile look_at_tp_file(std::span<const PythonToken> tokens);

}  // namespace shardplan
