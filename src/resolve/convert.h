// SPDX-License-Identifier: Apache-2.0
// A plan on another mesh: what was requested is kept and corrected anew.
//
// Source of the task: eformer's convert_sharding_strategy. That one asks its
// auto_partition_spec for a new spec and takes the old mesh's split factor as
// the least size of an array; here the specs that rules asked for are placed
// again, and every departure is a correction.
#pragma once

#include <optional>

#include "base/diagnostic.h"
#include "core/manifest.h"
#include "core/mesh.h"
#include "core/plan.h"

namespace shardplan {

struct ConvertOptions {
  // Axes that specs may name though the new mesh lacks them, besides those that
  // the plan declares.
  AxisNames declared_axes;
  bool auto_unmatched = false;  // see ResolveOptions
  bool parity = false;          // likewise
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
