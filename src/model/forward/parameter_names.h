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
// Adapters as PEFT writes them stand beside the weight that they adapt, which
// has the name that it had before: "layers.3.self_attn.q_proj.lora_A.weight" of
// `q_proj.lora_A.default.weight`, "layers.3.self_attn.q_proj.weight" of
// `q_proj.base_layer.weight`, "lm_head.weight" of
// `lm_head.modules_to_save.default.weight`. Of the two pairs beside stacks of
// experts one keeps its `base_layer`: "experts.base_layer.lora_A.weight".
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/manifest.h"
#include "model/architecture/architecture.h"

namespace shardplan {

struct NamedParameter {
  // In the manifest: of a parameter, or of a buffer (Manifest::any_name).
  size_t index = 0;
  // A matrix is [in, out], as in Flax; else [out, in], as in PyTorch.
  bool inputs_first = false;
  // The name lacks the number of the layer: the first dimension counts layers.
  bool stacked = false;
  // The parameter is read through this view; null: as it is.
  const TensorView* view = nullptr;
};

class ParameterNames {
 public:
  // The manifest must outlive this. Parts of names that are one of `others` are
  // as the architecture has them.
  // Tensors that the manifest has only as views (Manifest::views) are included.
  explicit ParameterNames(const Manifest& manifest,
                          std::span<const OtherName> others = {});

  // The checkpoint's shape, which a view may read out of a larger tensor.
  const Shape& shape_of(const NamedParameter& parameter) const {
    return parameter.view != nullptr
               ? parameter.view->shape
               : manifest_->any_type(parameter.index).shape;
  }

  // By a name of the convention; "layers.3.x" is also found in a stacked
  // "layers.x". Null when there is none.
  // Stacked, `layer` becomes the number that its name lacks.
  const NamedParameter* find(std::string_view name,
                             int64_t* layer = nullptr) const;
  // Numbers of layers under a prefix ("layers", "h", "encoder.layer"), from
  // names or from the first dimension of what is stacked; 0 without any.
  int64_t layer_count(std::string_view prefix) const;
  // Names of parameters with `*` for numbers of layers and experts, sorted,
  // each once. What is stacked over layers has the `*` that its name lacks.
  // Adapters, and what they stand in for, are not among them.
  std::vector<std::string> folded() const;
  // The same of all tensors, with the first of each; a buffer only where no
  // parameter is called so.
  std::map<std::string, NamedParameter> folded_tensors() const;

 private:
  void add_views(const TensorViews& views, std::span<const OtherName> others);

  const Manifest* manifest_;
  std::map<std::string, NamedParameter, std::less<>> by_name_;
};

// What PEFT adds to a module, as names have it: `lora_A`, `ia3_l`.
// Empty for a name that is of no adapter.
std::string_view adapter_part(std::string_view name);
// Whether it is of a stack of experts: "mlp.experts.lora_A.default.weight".
bool is_stack_adapter(std::string_view name);

// A module's name without the outer modules: "layers.0.mlp" of
// "model.layers.0.mlp".
std::string without_outer_modules(std::string_view name);

}  // namespace shardplan
