// SPDX-License-Identifier: Apache-2.0
// Stored sizes: what declarations make of a parameter's dimensions on a mesh.
#pragma once

#include <cstdint>
#include <optional>
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

// The dimensions of a parameter that are stored differently, where `spec` cuts
// it. Ascending; empty where nothing that is declared applies. Whether the
// stored tensor still fits 63 bits is not checked. `spec` names axes of the
// mesh only, at most one entry per dimension.
std::vector<StoredDim> stored_dims(std::string_view name,
                                   const TensorType& type,
                                   const PartitionSpec& spec, const Mesh& mesh,
                                   const Declarations& declared,
                                   const UnitFacts& known);

// Resolving: manifest x rules x mesh -> plan.
//
// Strict mode, as eformer's match_partition_rules: scalars get the empty spec
// without asking the rules, arrays below `min_size` elements get it after the
// match, and a spec is cut to the rank. Otherwise the first rule found decides
// with its spec verbatim. What no rule decides is placed by its logical axes,
// where the manifest gives them and there are logical rules. Then names become
// mesh axes (resolve/name_resolution.h), and every spec is corrected for the
// mesh.

struct ResolveOptions {
  int64_t min_size = 0;  // elements; arrays with fewer are replicated
  OnIndivisible on_indivisible = OnIndivisible::Drop;
  bool strict = true;
  int jobs = 1;
  Declarations declarations = {};
  NameReading names = {};
  // Arrays that no rule matches are placed by their size (correct.h).
  bool auto_unmatched = false;
  // As the originals do it: a declared axis that the mesh lacks is an unknown
  // one (SP201), not one of size 1.
  bool parity = false;
};

// Only a pattern that cannot be compiled (SP105), or a tensor that as declared
// exceeds 63 bits (SP007), prevents a plan; what else is wrong is found in the
// plan itself (findings/findings.h).
std::optional<Plan> resolve(const Manifest& manifest, const RuleSet& rules,
                            const Mesh& mesh, const ResolveOptions& options,
                            Diagnostics& diags);

// The same in steps: names are searched once for any number of meshes.

// SP105 where a pattern cannot be compiled, or where these rules take too long
// to be searched for.
std::optional<FoundSets> find_rules(const Manifest& manifest,
                                    const RuleSet& rules,
                                    const ResolveOptions& options,
                                    Diagnostics& diags);
// By what was found so.
Matches matches_of(const FoundSets& found, const Manifest& manifest,
                   const RuleSet& rules, const ResolveOptions& options);
// Both.
std::optional<Matches> match_rules(const Manifest& manifest,
                                   const RuleSet& rules,
                                   const ResolveOptions& options,
                                   Diagnostics& diags);
std::optional<Plan> resolve(const Manifest& manifest, const RuleSet& rules,
                            const Matches& matches, const Mesh& mesh,
                            const ResolveOptions& options, Diagnostics& diags);
// The same for a part of a model whose facts are known (model/units.h).
std::optional<Plan> resolve(const Manifest& manifest, const RuleSet& rules,
                            const Matches& matches, const Mesh& mesh,
                            const ResolveOptions& options,
                            const UnitFacts& known, Diagnostics& diags);

// The mesh axes that the specs of a plan name: those of its rules as written,
// and those that its parameters were asked to have; each once, in that order.
AxisNames axes_in_specs(const Plan& plan);

// A plan on another mesh: what was requested is kept and corrected anew.
//
// Source of the task: eformer's convert_sharding_strategy. That one asks its
// auto_partition_spec for a new spec and takes the old mesh's split factor as
// the least size of an array; here the specs that rules asked for are placed
// again, and every departure is a correction.

struct ConvertOptions {
  // Axes that specs may name though the new mesh lacks them, besides those that
  // the plan declares.
  AxisNames declared_axes;
  bool auto_unmatched = false;  // see ResolveOptions
  bool parity = false;          // likewise
  // Of a part of a model, in whose names siblings are missing: what
  // expert_tensors says of its parameters. Empty: they are all there.
  std::span<const ExpertTensor> experts = {};
};

// `saved` places the parameters of `manifest`, in its order. Policy, strictness
// and declarations stay those of the plan; an array that it replicated for its
// few elements (SP207) stays so, since a plan does not tell the limit. A name
// that the new mesh lacks and nobody declares is SP201 of the new plan.
std::optional<Plan> convert_plan(const Manifest& manifest, const Plan& saved,
                                 const Mesh& mesh,
                                 const ConvertOptions& options,
                                 Diagnostics& diags);

}  // namespace shardplan
