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
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"

namespace shardplan {

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
  // Kept in host memory rather than on the device.
  std::vector<std::string_view> offloaded = {};
  bool offloads_input = false;  // the input of the layer
  // Products with weights that are computed again all the same: every second
  // (torchtitan's selective checkpointing of operations).
  bool every_second_product = false;
  // Computed again are the scores of attention alone.
  bool scores_only = false;
};
std::span<const RematPolicy> remat_policies();
const RematPolicy* find_remat_policy(std::string_view name);

// Which layers a policy applies to.
struct Remat {
  const RematPolicy* policy = nullptr;  // null: nothing is computed again
  int64_t every = 1;                    // every so many-th layer
  std::optional<int64_t> first;         // the first so many of a stage alone
  // Layers whose input is kept once for all of them (Megatron's uniform).
  int64_t together = 1;

  bool is_none() const { return policy == nullptr || policy->everything; }
};

// `block`, `full:uniform:2`, `full:block:4`, `selective:2`: a policy and which
// layers. Empty, with the reason and the nearest name reported (SP010).
std::optional<Remat> read_remat(const std::string& text, Diagnostics& diags);

// As it was written: "full:block:4".
std::string remat_text(const Remat& remat);

}  // namespace shardplan
