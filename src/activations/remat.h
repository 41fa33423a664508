// SPDX-License-Identifier: Apache-2.0
// Rematerialisation: what a layer keeps from forward to backward, where
// backward computes the rest again.
//
// A policy says which results may be kept. Of these a layer keeps what backward
// needs that lies nearest to what it reads, and its own input; everything
// between is computed again before the layer's backward, and is alive then, in
// one layer at a time.
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

// A module of layers that Megatron-LM can compute again by itself
// (--recompute-modules; megatron/core/transformer: transformer_layer.py,
// multi_latent_attention.py, moe/experts.py, moe/moe_layer.py), with
// Transformer Engine: a norm that it computes in one module with the product
// behind it is none of its own. What such a module gives, and all that is made
// on the way to it, is not kept.
struct RecomputedModule {
  enum class Of : uint8_t { Dense, Experts, Latent };

  std::string_view name;
  Of of = Of::Dense;  // layers without experts, with experts; latent attention
  // Parts of a layer, as the forward pass names them; with a dot behind, all
  // below; with a star, of every expert. Of these, values that stay, by part or
  // whole name.
  std::vector<std::string_view> parts = {};
  std::vector<std::string_view> but = {};
};
// Several rows of one name are one module.
std::span<const RecomputedModule> recomputed_modules();

// What may be kept of a layer beside its input.
struct RematPolicy {
  std::string_view name;
  std::string_view summary;
  bool everything = false;  // nothing is computed again
  bool weight_products = false;
  bool other_products =
      false;               // of activations: scores, and what attention mixes
  bool attention = false;  // what attention gives
  // Values of these parts of a layer, as the forward pass names them:
  // "attn.query", "mlp.gate"; none: by kind alone.
  std::vector<std::string_view> kept = {};
  // Kept in host memory rather than on the device: these parts; products with
  // weights; what attention gives; the input of the layer; all that a layer
  // keeps.
  std::vector<std::string_view> offloaded = {};
  bool offloads_products = false;
  bool offloads_attention = false;
  bool offloads_input = false;
  bool offloads_everything = false;
  // Products with weights that are computed again all the same: every second
  // (torchtitan's selective checkpointing of operations).
  bool every_second_product = false;
  // All is kept but scores of attention, and but these modules.
  bool scores_only = false;
  std::vector<const RecomputedModule*> modules = {};

  // Layers are not computed again as wholes.
  bool by_modules() const { return scores_only || !modules.empty(); }
};
std::span<const RematPolicy> remat_policies();
const RematPolicy* find_remat_policy(std::string_view name);
// Whether anything is kept in host memory.
inline bool offloads(const RematPolicy& policy) {
  return !policy.offloaded.empty() || policy.offloads_products ||
         policy.offloads_attention || policy.offloads_input ||
         policy.offloads_everything;
}

// Names that programs give values of a layer for such policies
// (jax.ad_checkpoint.checkpoint_name), as MaxText has them.
struct CheckpointName {
  std::string_view name;
  std::vector<std::string_view> parts = {};  // of a layer
  bool input = false;                        // it is the layer's input
  bool attention = false;                    // it is what attention gives
};
std::span<const CheckpointName> checkpoint_names();

// A policy with the text that it is called by.
struct NamedPolicy {
  std::string text;
  RematPolicy policy;
};

// Which layers a policy applies to.
struct Remat {
  const RematPolicy* policy = nullptr;  // null: nothing is computed again
  // A policy of names that were given, which `policy` points to; else null.
  std::shared_ptr<const NamedPolicy> named = nullptr;
  int64_t every = 1;             // every so many-th layer
  std::optional<int64_t> first;  // the first so many of a stage alone
  // Layers whose input is kept once for all of them (Megatron's uniform).
  int64_t together = 1;

  // Nothing is computed again.
  bool is_none() const { return policy == nullptr || policy->everything; }
  // Nor is anything kept in host memory.
  bool is_plain() const {
    return is_none() && (policy == nullptr || !offloads(*policy));
  }
};

// `block`, `full:uniform:2`, `full:block:4`, `selective:2`: a policy and which
// layers. `save_only_these_names:NAMES`,
// `save_and_offload_only_these_names:NAMES:NAMES` (JAX: kept, then offloaded;
// either may be empty) and `custom:NAME=device,NAME=offload,NAME=remat`
// (MaxText), of checkpoint_names(). `selective:MODULES` (Megatron-LM), of
// recomputed_modules() and core_attn, which is scores of attention. Empty, with
// the reason and the nearest name reported (SP010).
std::optional<Remat> read_remat(const std::string& text, Diagnostics& diags);

// As it was written: "full:block:4".
std::string remat_text(const Remat& remat);

}  // namespace shardplan
