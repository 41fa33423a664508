// SPDX-License-Identifier: Apache-2.0
// Remat: rematerialisation, also called activation checkpointing. A layer saves
// only some values from forward to backward, and backward recomputes the rest.
//
// A policy says which results may be saved. Of these, a layer saves those that
// backward needs and that are nearest to what it reads, and its own input.
// Everything in between is recomputed before the layer's backward, and is live
// then, in one layer at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"

namespace shardplan {

// A module of layers that Megatron-LM can recompute separately
// (--recompute-modules; megatron/core/transformer: transformer_layer.py,
// multi_latent_attention.py, moe/experts.py, moe/moe_layer.py), with
// Transformer Engine. A norm that Transformer Engine computes in one module
// with the product after it is not a module of its own. The result of such a
// module, and all that is computed on the way to it, is not saved.
struct RecomputedModule {
  enum class Of : uint8_t { Dense, Experts, Latent };

  std::string_view name;
  Of of = Of::Dense;  // dense layers, layers with experts, or latent attention
  // Parts of a layer, as the forward pass names them: a part that ends with a
  // dot includes all below, and a star stands for every expert. `but` lists
  // values of these parts that are saved, by part or whole name.
  std::vector<std::string_view> parts = {};
  std::vector<std::string_view> but = {};
};
// Returns all modules; rows of one name are one module.
std::span<const RecomputedModule> recomputed_modules();

// The values of a layer that may be saved besides its input.
struct RematPolicy {
  std::string_view name;
  std::string_view summary;
  bool everything = false;  // nothing is recomputed
  bool weight_products = false;
  bool other_products =
      false;               // of activations: scores, and attention's outputs
  bool attention = false;  // the output of attention
  // Values of these parts of a layer are saved, as the forward pass names them:
  // "attn.query", "mlp.gate". Empty: values are selected only by their kind.
  std::vector<std::string_view> saved = {};
  // Saved in host memory rather than on the device: these parts; products with
  // weights; the output of attention; the input of the layer; everything that a
  // layer saves.
  std::vector<std::string_view> offloaded = {};
  bool offloads_products = false;
  bool offloads_attention = false;
  bool offloads_input = false;
  bool offloads_everything = false;
  // Every second product with weights is recomputed all the same (torchtitan's
  // selective checkpointing of operations).
  bool every_second_product = false;
  // Everything is saved except attention scores, and except these modules.
  bool scores_only = false;
  std::vector<const RecomputedModule*> modules = {};

  // Returns whether layers are not recomputed as wholes.
  bool by_modules() const { return scores_only || !modules.empty(); }
};
std::span<const RematPolicy> remat_policies();
const RematPolicy* find_remat_policy(std::string_view name);
// Returns whether anything is saved in host memory.
inline bool offloads(const RematPolicy& policy) {
  return !policy.offloaded.empty() || policy.offloads_products ||
         policy.offloads_attention || policy.offloads_input ||
         policy.offloads_everything;
}

// Names that programs give to values of a layer for such policies
// (jax.ad_checkpoint.checkpoint_name), as in MaxText.
struct CheckpointName {
  std::string_view name;
  std::vector<std::string_view> parts = {};  // of a layer
  bool input = false;                        // it is the layer's input
  bool attention = false;                    // it is the output of attention
};
std::span<const CheckpointName> checkpoint_names();

// A policy with the text that its name refers to.
struct NamedPolicy {
  std::string text;
  RematPolicy policy;
};

// A policy, and the layers that it applies to.
struct Remat {
  const RematPolicy* policy = nullptr;  // null: nothing is recomputed
  // Owns the policy that `policy` points to, if it is built from given names.
  std::shared_ptr<const NamedPolicy> named = nullptr;
  int64_t every = 1;             // every N-th layer
  std::optional<int64_t> first;  // only the first N of a stage
  // The number of layers that save one input together (Megatron's uniform).
  int64_t together = 1;

  // Returns whether nothing is recomputed.
  bool is_none() const { return policy == nullptr || policy->everything; }
  // Returns whether, besides, nothing is saved in host memory.
  bool is_plain() const {
    return is_none() && (policy == nullptr || !offloads(*policy));
  }
};

// Reads a policy and the layers that it applies to: `block`, `full:uniform:2`,
// `full:block:4`, `selective:2`. `save_only_these_names:NAMES`,
// `save_and_offload_only_these_names:NAMES:NAMES` (JAX: saved names, then
// offloaded ones; either may be empty) and
// `custom:NAME=device,NAME=offload,NAME=remat` (MaxText) use
// checkpoint_names(). `selective:MODULES` (Megatron-LM) uses
// recomputed_modules() and core_attn, which stands for attention scores.
// Returns nullopt if the text is wrong, with the reason and the nearest name
// reported (SP010).
std::optional<Remat> read_remat(const std::string& text, Diagnostics& diags);

// Returns the text of a policy as it is written: "full:block:4".
std::string remat_text(const Remat& remat);

}  // namespace shardplan
