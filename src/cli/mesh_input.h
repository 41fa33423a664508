// SPDX-License-Identifier: Apache-2.0
// The mesh of a run: from --mesh with --axes, --devices and --slices, or from
// the rules.
#pragma once

#include <cstdint>
#include <optional>

#include "base/diagnostic.h"
#include "base/source.h"
#include "cli/options.h"
#include "core/rules.h"
#include "core/slices.h"

namespace shardplan::cli {

// Reads `fsdp=4,tp=2`, or sizes alone, `4,2`, whose names are --axes, one for
// each. The diagnostics keep the text.
std::optional<SlicedMesh> written_mesh(const SourcePtr& text,
                                       const Options& options,
                                       std::optional<int64_t> devices,
                                       Diagnostics& diags);

// REQUIRES: the rules have a mesh.
std::optional<SlicedMesh> mesh_of_rules(const RuleSet& rules,
                                        std::optional<int64_t> devices,
                                        std::optional<int64_t> slices,
                                        Diagnostics& diags);

}  // namespace shardplan::cli
