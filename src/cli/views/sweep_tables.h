// SPDX-License-Identifier: Apache-2.0
// The parts of the report of `shardplan sweep`.
#pragma once

#include <string>
#include <vector>

#include "memory/sweep.h"
#include "report/report.h"

namespace shardplan::cli {

// "l40s with 45.0 GiB, batch 4, context 32,768": what all points have in common
// and their tables leave out; may be empty.
std::string common_text(const std::vector<SweepPoint>& points,
                        const std::vector<SweepMesh>& meshes);

// "batch 14 or context 61,440": with what the first device is full; empty when
// nothing is. REQUIRES: a limit.
std::string breaks_text(const WorkloadHeadroom& workload_headroom);

// Every point as computed, for programs.
Table points_table(const std::vector<SweepPoint>& points,
                   const std::vector<SweepMesh>& meshes);
// The same for people: what fits first, then by devices and bytes; at most
// `limit` rows and one that counts the rest.
Table sorted_points(const std::vector<SweepPoint>& points,
                    const std::vector<SweepMesh>& meshes, size_t limit);
// Those of frontier(): one table for people, one for programs, whose columns
// are those of points_table.
std::vector<Table> frontier_tables(const std::vector<SweepPoint>& points,
                                   const std::vector<SweepMesh>& meshes);

}  // namespace shardplan::cli
