// SPDX-License-Identifier: Apache-2.0
// Families of models: from the names of a checkpoint and its config to the
// graph of its forward pass.
//
// A family is a row of families() and one file in graph/families. It describes
// a graph as a file would (core/graph_description.h), with the parameters under
// the names that the manifest has, whichever convention these follow
// (graph/parameter_names.h), and labels its values with semantic axes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "core/graph_description.h"
#include "core/manifest.h"
#include "core/model_config.h"
#include "graph/parameter_names.h"

namespace shardplan {

// How much of a model is run, on what.
struct ForwardPass {
  int64_t batch = 2;                // sequences
  int64_t length = 16;              // tokens of each
  std::optional<int64_t> layers;    // the first so many; else all
  std::optional<int64_t> capacity;  // tokens of a sequence that an expert has
                                    // room for; else all of them
};

struct FamilyInput {
  const Manifest& manifest;
  const ParameterNames& names;
  const ModelConfig& config;
  ForwardPass pass;
};

struct Family {
  std::string_view name;     // "llama", as model_type of a config.json
  std::string_view summary;  // one line for `list families`
  // Names that the checkpoint must have for this family to be recognised where
  // no config names it, in the convention of parameter_names.h with `*` for
  // numbers of layers; what is missing is told.
  std::vector<std::string_view> marks;
  // Names that it must not have: those of families of which the marks of this
  // one are a part, but which compute something else.
  std::vector<std::string_view> foreign = {};
  // The config with every size that describe needs, from wherever it is said
  // (graph/model_sizes.h). Errors as describe.
  std::optional<ModelConfig> (*complete)(const FamilyInput& input,
                                         Diagnostics& diags) = nullptr;
  // Errors: SP013 for facts that neither config nor shapes tell, SP015 for
  // shapes that contradict them, SP009 for what the family cannot do yet.
  std::optional<GraphDescription> (*describe)(const FamilyInput& input,
                                              Diagnostics& diags) = nullptr;
};
std::span<const Family> model_families();

// By model_type; without a config by marks, the family with most of them whose
// marks are all there. Null, reported as SP016 with what was looked for, when
// there is none.
const Family* recognise_family(const Manifest& manifest,
                               const ParameterNames& names,
                               const ModelConfig& config, Diagnostics& diags);

}  // namespace shardplan
