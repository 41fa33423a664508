// SPDX-License-Identifier: Apache-2.0
// Framework semantics: how frameworks differ in what they do with the same
// spec.
//
// It covers which parameters bypass the rules, and what happens to an entry
// beyond the rank, an axis that the mesh lacks and a dimension that its axes do
// not divide. Some frameworks refuse a spec that others correct: JAX uses a
// NamedSharding unchanged or raises, eFormer and MaxText correct it first,
// GSPMD pads, DTensor splits unevenly. Sources: eformer.escale
// (match_partition_rules, get_corrected_named_sharding), flax.linen.spmd,
// MaxText (remove_size_one_mesh_axis, adjust_pspec_for_indivisible_shapes),
// EasyLM's match_partition_rules, torch.chunk in torch.distributed.tensor,
// transformers' tensor_parallel (get_tensor_shard), XLA's GSPMD.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/manifest.h"
#include "core/plan.h"
#include "core/rules.h"
#include "core/spec.h"

namespace shardplan {

// The parameters that are replicated without consulting the rules.
enum class RuleBypass : uint8_t { None, Scalars, OneElement };

// The treatment of a dimension that its axes do not divide.
enum class Uneven : uint8_t {
  Whole,    // becomes unsharded
  Prefix,   // keeps the longest prefix of its axes that divides
  Refused,  // an error
  Padded,   // every shard stores ceil(d/n) rows
  Chunked,  // torch.chunk, axis by axis
  Blocks,   // blocks of ceil(d/n) rows, the last ones smaller or empty
};

struct FrameworkSemantics {
  std::string_view name;
  std::string_view summary;
  bool semantic_axes = false;  // supports `HEAD`
  bool logical_axes = false;   // supports logical axis rules
  RuleBypass rule_bypass = RuleBypass::None;
  bool needs_rule = false;      // refuses a parameter that no rule matches
  bool cuts_to_rank = false;    // truncates a longer spec; else refuses it
  bool drops_unknown = false;   // drops an axis that the mesh lacks; else
                                // refuses it
  bool drops_size_one = false;  // removes axes of size 1
  bool folds_digits = false;    // `w1` and `w2` share one rule
  Uneven uneven = Uneven::Refused;
};
std::span<const FrameworkSemantics> framework_semantics();
const FrameworkSemantics* find_framework_semantics(std::string_view name);

enum class ReadKind : uint8_t {
  Placed,
  Refused,  // the framework would stop with an error
  NotRead,  // the rule uses a feature that this framework does not have
};

struct ReadOutcome {
  ReadKind kind = ReadKind::Placed;
  PartitionSpec spec;            // in the form of final specs; empty unless
                                 // Placed
  int64_t bytes_per_device = 0;  // of the largest shard
  // Sizes of the shards of every sharded dimension.
  std::vector<std::vector<ShardSize>> shards;
  std::vector<std::string> why;  // what was changed in the spec, or is wrong
                                 // with it
};
// Returns whether both are of the same kind and, if placed, have the same
// shards.
bool agree(const ReadOutcome& a, const ReadOutcome& b);

// How a whole model is read: few distinct outcomes, shared as placements are in
// a Plan.
struct ReadOutcomes {
  std::vector<ReadOutcome> outcomes;
  std::vector<uint32_t> outcome_of;  // per parameter

  const ReadOutcome& of(size_t parameter) const {
    return outcomes[outcome_of[parameter]];
  }
};

// Reads the model with the given semantics. `verbatim` is the plan of these
// rules with `strict` off; it provides the rule that decides each parameter and
// the spec that this rule requests.
ReadOutcomes read_as(const FrameworkSemantics& semantics,
                     const Manifest& manifest, const RuleSet& rules,
                     const Plan& verbatim);

}  // namespace shardplan
