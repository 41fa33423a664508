// SPDX-License-Identifier: Apache-2.0
// Stored sizes: what declarations make of a parameter's dimensions on a mesh.
#pragma once

#include <string_view>
#include <vector>

#include "core/declarations.h"
#include "core/mesh.h"
#include "core/plan.h"
#include "core/spec.h"
#include "resolve/unit_facts.h"

namespace shardplan {

// The dimensions of a parameter that are stored otherwise, where `spec` cuts
// it. Ascending; empty where nothing that is declared applies. Whether the
// stored tensor still fits 63 bits is not checked. `spec` names axes of the
// mesh only, at most one entry per dimension.
std::vector<StoredDim> stored_dims(std::string_view name,
                                   const TensorType& type,
                                   const PartitionSpec& spec, const Mesh& mesh,
                                   const Declarations& declared,
                                   const UnitFacts& known);

}  // namespace shardplan
