// SPDX-License-Identifier: Apache-2.0
// ParameterNames: a checkpoint's parameters under one convention of names.
//
// The convention is that of Hugging Face without the outer modules (`model.`,
// `transformer.`, `bert.`, `language_model.`): parts joined by dots,
// "layers.3.self_attn.q_proj.weight", "embed_tokens.weight". Flax and EasyDeL
// write `model/layers/3/self_attn/q_proj/kernel`, put inputs before outputs in
// a kernel, and may stack layers: one `layers/self_attn/q_proj/kernel` whose
// first dimension counts layers. Their last part (`kernel`, `embedding`,
// `scale`) is `weight` in the convention. Experts may be stacked likewise: then
// the name lacks their number ("layers.3.mlp.experts.up_proj.weight").
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "core/facts.h"
#include "core/graph_description.h"
#include "core/manifest.h"

namespace shardplan {

struct NamedParameter {
  size_t index = 0;  // in the manifest
  // A matrix is [in, out], as in Flax; else [out, in], as in PyTorch.
  bool inputs_first = false;
  // The name lacks the number of the layer: the first dimension counts layers.
  bool stacked = false;
};

class ParameterNames {
 public:
  // The manifest must outlive this.
  explicit ParameterNames(const Manifest& manifest);

  // By a name of the convention; "layers.3.x" is also found in a stacked
  // "layers.x". Null when there is none.
  const NamedParameter* find(std::string_view name) const;
  // Numbers of layers under a prefix ("layers", "h", "encoder.layer"), from
  // names or from the first dimension of what is stacked; 0 without any.
  int64_t layer_count(std::string_view prefix) const;
  // Names with `*` for numbers of layers and experts, sorted, each once. What
  // is stacked over layers has the `*` that its name lacks.
  std::vector<std::string> folded() const;

 private:
  const Manifest* manifest_;
  std::map<std::string, NamedParameter, std::less<>> by_name_;
};

// Families of models: from the names of a checkpoint and its config to the
// graph of its forward pass.
//
// A family is a row of families() and one file in graph/families. It describes
// a graph as a file would (core/graph_description.h), with the parameters under
// the names that the manifest has, whichever convention these follow
// (graph/family.h), and labels its values with semantic axes.

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
  // no config names it, in the convention of ParameterNames with `*` for
  // numbers of layers; what is missing is reported.
  std::vector<std::string_view> marks;
  // Names that it must not have: those of families of which the marks of this
  // one are a part, but which compute something else.
  std::vector<std::string_view> foreign = {};
  // The config with every size that describe needs, from wherever it is said
  // (graph/family.h). Errors as describe.
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

// The sizes of a model, wherever they are said: its config, the facts of its
// manifest, the shapes of its parameters, and what the family's configuration
// class in transformers takes where a config is silent.

// A parameter with a size in one of its dimensions; of several names the first
// that the checkpoint has.
struct SizeSource {
  std::vector<std::string_view> names;  // for layer 0
  // The rows of a matrix [out, in], counted from the major end; its columns
  // where the matrix is [in, out]. Else that dimension, from the minor end.
  enum class Where : uint8_t { Outputs, Last, First } where = Where::Outputs;
  int64_t parts = 1;  // the size is a dimension over so many
};

// A model with more layers is refused: a graph has nodes for each.
inline constexpr int64_t kMaxModelLayers = 10'000;

// What is known of a family.
struct FamilySizes {
  std::string_view family;
  std::string_view layer_prefix;  // the prefix of layers: "layers"
  SizeSource vocab;
  SizeSource hidden;
  SizeSource queries;  // heads * head_dim; none: they are as wide as hidden
  SizeSource keys;     // kv_heads * head_dim; none: as queries
  SizeSource head_dim;
  SizeSource intermediate;
  SizeSource experts;
  SizeSource expert_intermediate;
  SizeSource positions;
  SizeSource token_types;

  double norm_epsilon = 1e-6;
  std::string_view activation = "silu";
  double rope_theta = 10'000;  // 0: positions are not rotated
  bool tied = false;
  int64_t experts_per_token = 0;  // 0: no experts
  bool normalise_top_k = true;
};

// `input.config` with everything that the family needs. Heads that nobody
// tells are SP013, as is what was assumed because there is no config, there a
// note. Sizes that cannot be are SP009.
std::optional<ModelConfig> complete_config(const FamilyInput& input,
                                           const FamilySizes& sizes,
                                           Diagnostics& diags);

// How many layers of a complete config the pass runs.
int64_t layers_run(const ForwardPass& pass, const ModelConfig& config);

}  // namespace shardplan
