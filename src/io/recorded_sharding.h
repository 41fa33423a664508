// SPDX-License-Identifier: Apache-2.0
// Shardings that another program has recorded: array by array, a mesh and a
// PartitionSpec, as JAX's NamedSharding has them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/source.h"
#include "core/mesh.h"
#include "core/rules.h"
#include "core/spec.h"

namespace shardplan {

struct RecordedSharding {
  std::string name;
  Span where;                     // of the name
  std::vector<AxisRequest> mesh;  // empty: on one device
  Span mesh_where;
  PartitionSpec spec;
  Span spec_where;
};

// The mesh that all are on. Where they differ the first counts, and SP007 warns
// of the others.
struct RecordedMesh {
  std::vector<AxisRequest> axes;  // empty: there is none
  Span where;
};
RecordedMesh common_mesh(const std::vector<RecordedSharding>& shardings,
                         Diagnostics& diags);

// Whether the meshes have the same axes of the same sizes.
bool same_axes(const std::vector<AxisRequest>& a,
               const std::vector<AxisRequest>& b);

// "fsdp=16,tensor=1"
std::string axes_text(const std::vector<AxisRequest>& mesh);

// A pattern for that name whether its components are joined with `/` or `.`,
// with or without the `value` that Flax NNX puts last.
std::string recorded_pattern(std::string_view name);

// Makes a rule of each sharding of a parameter, or of each sharding when none
// is of a parameter; a note says how many were left out.
void add_recorded_rules(const std::vector<RecordedSharding>& shardings,
                        RuleSet& rules, Diagnostics& diags);

// Which arrays of a saved training state are parameters.

enum class StatePart : uint8_t {
  Parameter,
  Counter,    // the step, and keys and counters of random numbers
  Optimizer,  // moments and the like, which `--optimizer` computes
};

// Told by the name's components, cut at `/` or `.`: those below `opt_state` or
// `optimizer` are the optimizer's, `step` and what is below `rngs` count
// something, everything else is a parameter.
StatePart state_part(std::string_view name);

}  // namespace shardplan
