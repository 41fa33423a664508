// SPDX-License-Identifier: Apache-2.0
// Trees of a vector as manifests.
#pragma once

#include <optional>

#include "base/diagnostic.h"
#include "conformance/vector_case.h"
#include "core/manifest.h"

namespace shardplan::conformance {

// Written as a nested manifest and read by the program's own reader, which
// sorts keys per level and joins paths. A leaf without a shape is a scalar.
std::optional<Manifest> decode_tree(const Json& tree, Diagnostics& diags);

}  // namespace shardplan::conformance
