// SPDX-License-Identifier: Apache-2.0
// Resolving: turns a manifest, rules and a mesh into a plan.
//
// In strict mode, which follows eformer's match_partition_rules, scalars get
// the empty spec without consulting the rules, arrays of fewer than `min_size`
// elements get it after the match, and a spec is truncated to the rank.
// Otherwise the first matching rule decides and its spec is used verbatim. A
// parameter that no rule decides is placed by its logical axes, if the manifest
// gives them and there are logical rules. Then names become mesh axes
// (resolve/name_resolution.h), and every spec is corrected for the mesh
// (resolve/correct.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "core/manifest.h"
#include "core/mesh.h"
#include "core/plan.h"
#include "core/rules.h"
#include "core/spec.h"
#include "model/units.h"
#include "resolve/match.h"
#include "resolve/name_resolution.h"

namespace shardplan {

struct ResolveOptions {
  int64_t min_size = 0;  // elements; arrays with fewer are replicated
  OnIndivisible on_indivisible = OnIndivisible::Drop;
  bool strict = true;
  int jobs = 1;
  Declarations declarations = {};
  NameReading names = {};
  // Places arrays that no rule matches by their size (correct.h).
  bool auto_unmatched = false;
  // Follows the original frameworks: a declared axis that the mesh lacks is an
  // unknown axis (SP201), not one of size 1.
  bool parity = false;
};

// Returns the plan. Only a pattern that cannot be compiled (SP105), or a tensor
// that exceeds 63 bits as declared (SP007), prevents one; all other problems
// are found in the plan itself (findings/findings.h).
std::optional<Plan> resolve(const Manifest& manifest, const RuleSet& rules,
                            const Mesh& mesh, const ResolveOptions& options,
                            Diagnostics& diags);

// The same in steps, so that names are searched once for any number of meshes.

// Returns the rules that match each name. Reports SP105 if a pattern cannot be
// compiled, or if searching for these rules takes too long.
std::optional<FoundSets> find_rules(const Manifest& manifest,
                                    const RuleSet& rules,
                                    const ResolveOptions& options,
                                    Diagnostics& diags);
// Returns the winners among the rules that find_rules() found.
Matches matches_of(const FoundSets& found, const Manifest& manifest,
                   const RuleSet& rules, const ResolveOptions& options);
// `known`: the facts of the whole model, if the manifest is a part of one
// (model/units.h).
std::optional<Plan> resolve(const Manifest& manifest, const RuleSet& rules,
                            const Matches& matches, const Mesh& mesh,
                            const ResolveOptions& options, Diagnostics& diags,
                            const UnitFacts* known = nullptr);

// Returns the mesh axes that the specs of a plan name: first those of its rules
// as written, then those that were requested for its parameters; each axis
// once.
AxisNames axes_in_specs(const Plan& plan);

// Returns the dimensions of a parameter that are stored differently as
// declared, when `spec` shards it. Ascending; empty if no declaration applies.
// Does not check whether the stored tensor still fits 63 bits. REQUIRES: `spec`
// names only axes of the mesh and has at most one entry per dimension.
std::vector<StoredDim> stored_dims(std::string_view name,
                                   const TensorType& type,
                                   const PartitionSpec& spec, const Mesh& mesh,
                                   const Declarations& declared,
                                   const UnitFacts& known);

// Conversion: places a plan on another mesh by correcting the requested specs
// again.
//
// The task is that of eformer's convert_sharding_strategy. That function asks
// its auto_partition_spec for a new spec, with the old mesh's split factor as
// the least size of an array. Here the specs that rules requested are placed
// again, and every departure from them is a correction.

struct ConvertOptions {
  // Axes that specs may name though the new mesh lacks them, in addition to
  // those that the plan declares.
  AxisNames declared_axes;
  bool auto_unmatched = false;  // as in ResolveOptions
  bool parity = false;          // as in ResolveOptions
  // For a part of a model, in which siblings of its experts are missing: the
  // results of expert_tensors for its parameters. Empty: no siblings are
  // missing.
  std::span<const ExpertTensor> experts = {};
};

// Converts a plan whose placements are those of `manifest`, in its order. The
// policy, strictness and declarations of the plan remain. An array that the
// plan replicates for its few elements (SP207) stays replicated, since a plan
// does not record the limit. A name that the new mesh lacks and nobody declares
// becomes SP201 of the new plan.
std::optional<Plan> convert_plan(const Manifest& manifest, const Plan& saved,
                                 const Mesh& mesh,
                                 const ConvertOptions& options,
                                 Diagnostics& diags);

}  // namespace shardplan
