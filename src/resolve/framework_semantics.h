// SPDX-License-Identifier: Apache-2.0
// Framework semantics: what the programs of the field make of one and the same
// spec, where they differ.
//
// It says who is asked no rule, what happens to an entry that has no
// place, an axis that the mesh lacks and a dimension that its axes do not
// divide. Some refuse where others correct: JAX takes a NamedSharding as it is
// or raises, eFormer and MaxText correct it first, GSPMD pads, DTensor cuts
// unevenly. Sources: eformer.escale (match_partition_rules,
// get_corrected_named_sharding), flax.linen.spmd, MaxText
// (remove_size_one_mesh_axis, adjust_pspec_for_indivisible_shapes), EasyLM's
// match_partition_rules, torch.chunk in torch.distributed.tensor, transformers'
// tensor_parallel (get_tensor_shard), XLA's GSPMD.
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

// Who is replicated without asking the rules.
enum class Unasked : uint8_t { Nobody, Scalars, OneElement };

// A dimension that its axes do not divide.
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
  bool semantic_axes = false;  // knows `HEAD`
  bool logical_axes = false;   // knows logical axis rules
  Unasked unasked = Unasked::Nobody;
  bool needs_rule = false;      // refuses a parameter without one
  bool cuts_to_rank = false;    // else refuses a longer spec
  bool drops_unknown = false;   // else refuses an axis that the mesh lacks
  bool drops_size_one = false;  // removes axes of size 1
  bool folds_digits = false;    // `w1` and `w2` have one rule
  Uneven uneven = Uneven::Refused;
};
std::span<const FrameworkSemantics> framework_semantics();
const FrameworkSemantics* find_framework_semantics(std::string_view name);

enum class ReadKind : uint8_t {
  Placed,
  Refused,  // the program would stop with an error
  NotRead,  // the rule says what the semantics has no notion of
};

struct ReadOutcome {
  ReadKind kind = ReadKind::Placed;
  PartitionSpec spec;            // as final specs are; empty unless Placed
  int64_t bytes_per_device = 0;  // of the largest shard
  // Sizes of the shards of every dimension that is cut.
  std::vector<std::vector<ShardSize>> shards;
  std::vector<std::string> why;  // what was done to the spec, or is wrong
};
// The same kind and, where placed, the same shards.
bool agree(const ReadOutcome& a, const ReadOutcome& b);

// How a whole model is read; as a Plan, with few distinct outcomes.
struct ReadOutcomes {
  std::vector<ReadOutcome> outcomes;
  std::vector<uint32_t> outcome_of;  // per parameter

  const ReadOutcome& of(size_t parameter) const {
    return outcomes[outcome_of[parameter]];
  }
};

// `verbatim` is the plan of these rules with `strict` off: it says which rule
// decides which parameter, and what the rule asks for.
ReadOutcomes read_as(const FrameworkSemantics& semantics,
                     const Manifest& manifest, const RuleSet& rules,
                     const Plan& verbatim);

}  // namespace shardplan
