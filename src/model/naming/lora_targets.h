// SPDX-License-Identifier: Apache-2.0
// LoraTargets: which modules of a model PEFT adapts, and what it adds to
// experts.
//
// Linear layers are named by `targets`. Since transformers 5 the experts of a
// layer are two stacks, `gate_up_proj` and `down_proj`, and their router is
// mostly no linear layer either. PEFT 0.21 (utils/transformers_weight_
// conversion.py) turns the names that these had before into the stacks' for the
// types that it has a mapping of: then such a name means the stacks alone, of
// dense layers and shared experts nothing. `all-linear` adapts the stacks of
// these types too, and of other types linear layers alone. A stack that is
// named by itself, `experts.down_proj`, is adapted as `target_parameters` does.
//
// Adapters of a stack hold a rank for each expert: `lora_A` [rank x experts,
// in], `lora_B` [out, rank x experts] (tuners/lora/layer.py, ParamWrapper);
// those of `gate_up_proj` twice the rank where it was named by its two parts.
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
    Output,  // the head, or what a model for another task ends with
    Router,
    Parameter,  // a matrix of a module that is no linear layer
    Expert,     // one of several, or a stack of them
  };
  Kind kind = Kind::Layer;
  std::string path;       // "model.layers.3.self_attn.q_proj"
  std::string in_memory;  // the same in memory; "a.q|k" where it is several
};

// The weight [out, in] of an expert.
struct ExpertWeight {
  int64_t out = 0;
  int64_t in = 0;
  DimKind out_kind = {};
  DimKind in_kind = {};
};

// What is added to one stack: beside the module of the experts, or, where both
// are adapted, to what PEFT wraps around it.
struct StackAdapters {
  std::string at;    // behind the module: "" or ".base_layer"
  int64_t rank = 0;  // of all experts together
  ExpertWeight weight;
};

// What is wrong with the targets, as a diagnostic has it.
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

  // Whether the layer gets adapters of its own. Notes what was met.
  bool adapts(const LoraSite& site);
  // A module that is no linear layer, which PEFT may adapt otherwise.
  void pass_by(const std::string& in_memory);
  // A weight of the experts that are read now, by its name in memory; packed
  // ones take no adapters.
  void meet_expert(const LoraSite& site, ExpertWeight weight);
  void meet_packed_expert(const LoraSite& site) { packed_ = site.path; }
  // The adapters of the stacks of these, which are `experts` many, of a module
  // called so in memory ("model.layers.3.mlp.experts").
  std::vector<StackAdapters> leave_experts(const std::string& in_memory,
                                           int64_t experts);

  // After all modules: what is wrong, and what PEFT passes over.
  std::optional<LoraProblem> problem() const;
  std::vector<std::string> remarks() const;

 private:
  bool takes_router(const LoraSite& site);
  bool takes(const std::string& in_memory);
  std::string linear_text() const;

  const Lora* lora_;
  std::string model_type_;
  bool all_ = false;  // linear layers
  std::vector<std::string> modules_;
  std::vector<std::string> stacks_;          // targets that name a stack itself
  std::set<std::string> meant_for_experts_;  // that mean stacks or the router
  // Times the rank; 0: not adapted.
  int64_t gate_up_ = 0;
  int64_t down_ = 0;
  bool router_ = false;  // as a parameter
  std::string half_;     // of gate and up, the one that is missing

  std::set<std::string> linear_;  // ends of names of layers that could be
  std::set<std::string> others_;  // the same of what is not linear
  std::set<std::string> found_;   // targets
  std::string joined_;            // a path that is several modules
  std::string unknown_;           // a router or stack that is not known
  std::string packed_;            // an expert that is stored quantised
  bool any_stack_ = false;
  bool any_ = false;
  bool unadaptable_ = false;
  // Weights of the experts being walked.
  std::optional<ExpertWeight> gate_up_weight_;
  std::optional<ExpertWeight> down_weight_;
};

}  // namespace shardplan
