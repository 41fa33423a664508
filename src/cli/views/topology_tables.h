// SPDX-License-Identifier: Apache-2.0
// Topologies as tables, for `shardplan list topologies`.
#pragma once

#include <vector>

#include "io/topologies.h"
#include "report/report.h"

namespace shardplan::cli {

// Families of TPUs, machines and plain accelerators, each with an example.
std::vector<Table> topology_overview();
// What one name says, and where its numbers are from.
std::vector<Table> topology_details(const NamedTopology& topology);

}  // namespace shardplan::cli
