// SPDX-License-Identifier: Apache-2.0
// Resolving: manifest x rules x mesh -> plan.
//
// Strict mode, as eformer's match_partition_rules: scalars get the empty spec
// without asking the rules, arrays below `min_size` elements get it after the
// match, and a spec is cut to the rank. Otherwise the first rule found decides
// with its spec verbatim. What no rule decides is placed by its logical axes,
// where the manifest gives them and there are logical rules. Then names become
// mesh axes (resolve/meaning.h), and every spec is corrected for the mesh.
#pragma once

#include <cstdint>
#include <optional>

#include "base/diagnostic.h"
#include "core/manifest.h"
#include "core/mesh.h"
#include "core/plan.h"
#include "core/rules.h"
#include "resolve/match.h"
#include "resolve/meaning.h"
#include "resolve/unit_facts.h"

namespace shardplan {

struct ResolveOptions {
  int64_t min_size = 0;  // elements; arrays with fewer are replicated
  OnIndivisible on_indivisible = OnIndivisible::Drop;
  bool strict = true;
  int jobs = 1;
  Declarations declarations = {};
  NameReading names = {};
  // Arrays that no rule is found in are placed by their size (auto_spec.h).
  bool auto_unmatched = false;
  // As the originals do it: a declared axis that the mesh lacks is an unknown
  // one (SP201), not one of size 1.
  bool parity = false;
};

// Only a pattern that cannot be compiled (SP105), or a tensor that as declared
// exceeds 63 bits (SP007), prevents a plan; what else is wrong is found in the
// plan itself (resolve/lint.h).
std::optional<Plan> resolve(const Manifest& manifest, const RuleSet& rules,
                            const Mesh& mesh, const ResolveOptions& options,
                            Diagnostics& diags);

// The same in two steps: names are matched once for any number of meshes.
std::optional<Matches> match_rules(const Manifest& manifest,
                                   const RuleSet& rules,
                                   const ResolveOptions& options,
                                   Diagnostics& diags);
std::optional<Plan> resolve(const Manifest& manifest, const RuleSet& rules,
                            const Matches& matches, const Mesh& mesh,
                            const ResolveOptions& options, Diagnostics& diags);
// The same for a part of a model whose facts are known (resolve/unit_facts.h).
std::optional<Plan> resolve(const Manifest& manifest, const RuleSet& rules,
                            const Matches& matches, const Mesh& mesh,
                            const ResolveOptions& options,
                            const UnitFacts& known, Diagnostics& diags);

// The spec that a rule gives to a tensor, before correction: what
// match_partition_rules returns for it.
PartitionSpec matched_spec(const PartitionSpec& rule, const Shape& shape,
                           const ResolveOptions& options);

// The mesh axes that the specs of a plan name: those of its rules as written,
// and those that its parameters were asked to have; each once, in that order.
AxisNames axes_in_specs(const Plan& plan);

}  // namespace shardplan
