// SPDX-License-Identifier: Apache-2.0
// Topologies as tables, for `shardplan list topologies`.
#pragma once

#include <vector>

#include "io/topologies.h"
#include "report/report.h"

namespace shardplan::cli {

// Returns families of TPUs, machines and plain accelerators, each with an
// example.
std::vector<Table> topology_overview();
// Returns what one topology name means, and where its numbers come from.
std::vector<Table> topology_details(const NamedTopology& topology);

}  // namespace shardplan::cli
