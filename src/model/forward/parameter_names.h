// SPDX-License-Identifier: Apache-2.0
// ParameterNames: the parameters of a checkpoint, by their names in one
// convention.
//
// The convention is that of Hugging Face without the outer modules (`model.`,
// `transformer.`, `bert.`, `language_model.`): components joined by dots,
// "layers.3.self_attn.q_proj.weight", "embed_tokens.weight". Flax and EasyDeL
// write `model/layers/3/self_attn/q_proj/kernel`, put inputs before outputs in
// a kernel, and may stack layers: one `layers/self_attn/q_proj/kernel` whose
// first dimension counts layers. Their last component (`kernel`, `embedding`,
// `scale`) is `weight` in the convention. Experts may also be stacked; the name
// then lacks their index ("layers.3.mlp.experts.up_proj.weight").
//
// PEFT stores adapters next to the weight that they adapt, and that weight has
// the same name as without them: "layers.3.self_attn.q_proj.lora_A.weight" is
// `q_proj.lora_A.default.weight`, "layers.3.self_attn.q_proj.weight" is
// `q_proj.base_layer.weight`, and "lm_head.weight" is
// `lm_head.modules_to_save.default.weight`. Of the two pairs of adapters next
// to stacks of experts, one keeps its `base_layer`:
// "experts.base_layer.lora_A.weight".
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
  // Index of the parameter or buffer in the manifest (Manifest::any_name).
  size_t index = 0;
  // A matrix is [in, out], as in Flax; otherwise [out, in], as in PyTorch.
  bool inputs_first = false;
  // The name lacks the index of the layer: the first dimension counts layers.
  bool stacked = false;
  // The view through which the parameter is read; null: none.
  const TensorView* view = nullptr;
};

class ParameterNames {
 public:
  // The manifest must outlive the object. Components of names that are one of
  // `others` get the architecture's name. Tensors that the manifest has only as
  // views (Manifest::views) are included.
  explicit ParameterNames(const Manifest& manifest,
                          std::span<const OtherName> others = {});

  // Returns the checkpoint's shape, which a view may read from a larger tensor.
  const Shape& shape_of(const NamedParameter& parameter) const {
    return parameter.view != nullptr
               ? parameter.view->shape
               : manifest_->any_type(parameter.index).shape;
  }

  // Finds a parameter by its name in the convention; null if there is none.
  // "layers.3.x" is also found in a stacked "layers.x"; `layer` then becomes
  // the index that this name lacks.
  const NamedParameter* find(std::string_view name,
                             int64_t* layer = nullptr) const;
  // Finds the first parameter whose name has a number for each `*` of this one;
  // null if there is none.
  const NamedParameter* find_first(std::string_view name) const;
  // Returns the number of layers under a prefix ("layers", "h",
  // "encoder.layer"), from names or from the first dimension of stacked
  // parameters; 0 if there are none.
  int64_t layer_count(std::string_view prefix) const;
  // Returns the names of parameters with `*` for the indices of layers and
  // experts, sorted and without repetition. Names of stacked parameters get the
  // `*` that they lack. Adapters, and original modules that they replace, are
  // excluded.
  std::vector<std::string> folded() const;
  // Returns such names of all tensors, with the first tensor of each; a buffer
  // only if no parameter has the name.
  std::map<std::string, NamedParameter> folded_tensors() const;

 private:
  void add_views(const TensorViews& views, std::span<const OtherName> others);

  const Manifest* manifest_;
  std::map<std::string, NamedParameter, std::less<>> by_name_;
};

// Returns the component of the name that PEFT added to a module, such as
// `lora_A` or `ia3_l`; "" if the name is not that of an adapter.
std::string_view adapter_part(std::string_view name);
// Returns what precedes this component: "layers.0.self_attn.q_proj.". REQUIRES:
// adapter_part(name) is not empty.
std::string_view adapted_module(std::string_view name);
// Returns whether the name is that of an adapter of a stack of experts:
// "mlp.experts.lora_A.default.weight".
bool is_stack_adapter(std::string_view name);

// Returns a name without the outer modules: "layers.0.mlp" for
// "model.layers.0.mlp".
std::string without_outer_modules(std::string_view name);

}  // namespace shardplan
