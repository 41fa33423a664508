// SPDX-License-Identifier: Apache-2.0
// The keys of a hardware profile, from a tree of nodes (io/hardware.h).
#pragma once

#include <optional>

#include "base/diagnostic.h"
#include "core/hardware.h"
#include "io/document.h"

namespace shardplan {

// Reports everything that is wrong, not only the first.
std::optional<HardwareProfile> read_hardware_node(const Node& root,
                                                  Diagnostics& diags);

}  // namespace shardplan
