// SPDX-License-Identifier: Apache-2.0
// LoraTargets: the modules of a model that PEFT adapts, and the adapters of its
// experts.
//
// `targets` names linear layers. Since transformers 5 the experts of a layer
// are two stacks, `gate_up_proj` and `down_proj`, and their router is usually
// not a linear layer either. For the model types that PEFT 0.21 has a mapping
// for (utils/transformers_weight_conversion.py), it converts the previous names
// of these modules to those of the stacks. Such a name then refers only to the
// stacks, not to dense layers or shared experts. `all-linear` also adapts the
// stacks of these model types; of other types it adapts only linear layers. A
// stack that is named explicitly, `experts.down_proj`, is adapted as with
// `target_parameters`.
//
// Adapters of a stack have one rank per expert: `lora_A` [rank x experts, in],
// `lora_B` [out, rank x experts] (tuners/lora/layer.py, ParamWrapper). For
// `gate_up_proj` the rank doubles if the targets name its two parts.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/manifest.h"
#include "model/naming/lora.h"

namespace shardplan {

// A linear layer of a model.
struct LoraSite {
  enum class Kind : uint8_t {
    Layer,
    Output,  // the head, or the last layer of a model for another task
    Router,
    Parameter,  // a matrix of a module that is not a linear layer
    Expert,     // one of several experts, or a stack of them
  };
  Kind kind = Kind::Layer;
  std::string path;       // "model.layers.3.self_attn.q_proj"
  std::string in_memory;  // path in memory; "a.q|k" for several modules
};

// The weight [out, in] of an expert.
struct ExpertWeight {
  int64_t out = 0;
  int64_t in = 0;
  DimKind out_kind = {};
  DimKind in_kind = {};
};

// The adapters of one stack. They are next to the experts' module or, if both
// stacks are adapted, next to PEFT's wrapper of it.
struct StackAdapters {
  std::string at;    // suffix of the module: "" or ".base_layer"
  int64_t rank = 0;  // of all experts together
  ExpertWeight weight;
};

// A problem with the targets, in the parts of a diagnostic.
struct LoraProblem {
  std::string key;  // of the config
  std::string message;
  std::string fact;
  std::string help;
};

class LoraTargets {
 public:
  LoraTargets(const Lora& lora, std::string_view model_type);

  const Lora& lora() const { return *lora_; }

  // Returns whether the layer gets its own adapters. Records the layer.
  bool adapts(const LoraSite& site);
  // Records a module that is not a linear layer, which PEFT may adapt
  // differently.
  void pass_by(const std::string& in_memory);
  // Records a weight of the current experts, by its name in memory. Packed
  // weights cannot have adapters.
  void meet_expert(const LoraSite& site, ExpertWeight weight);
  void meet_packed_expert(const LoraSite& site) { packed_ = site.path; }
  // Returns the adapters of the stacks of the current `experts` experts, whose
  // module has this name in memory ("model.layers.3.mlp.experts").
  std::vector<StackAdapters> leave_experts(const std::string& in_memory,
                                           int64_t experts);

  // Call after all modules. problem() returns what is wrong, remarks() the
  // targets that PEFT ignores.
  std::optional<LoraProblem> problem() const;
  std::vector<std::string> remarks() const;

 private:
  bool is_router_target(const LoraSite& site);
  bool is_target(const std::string& in_memory);
  std::string linear_text() const;

  const Lora* lora_;
  std::string model_type_;
  bool all_ = false;  // all linear layers
  std::vector<std::string> modules_;
  std::vector<std::string> stacks_;          // targets that name a stack
  std::set<std::string> meant_for_experts_;  // targets for stacks or the router
  // Multiples of the rank; 0: not adapted.
  int64_t gate_up_ = 0;
  int64_t down_ = 0;
  bool router_ = false;  // adapted as a parameter
  std::string half_;     // the missing one of gate and up

  std::set<std::string> linear_;  // last name components of linear layers
  std::set<std::string> others_;  // those of modules that are not linear
  std::set<std::string> found_;   // targets that matched
  std::string joined_;            // a path that is several modules
  std::string unknown_;           // an unsupported router or stack
  std::string packed_;            // an expert that is stored quantised
  bool any_stack_ = false;
  bool any_ = false;
  bool unadaptable_ = false;
  // Weights of the current experts.
  std::optional<ExpertWeight> gate_up_weight_;
  std::optional<ExpertWeight> down_weight_;
};

}  // namespace shardplan
