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
// The same for people: what fits first, then by what the sweep compares.
// Without `expand` a row counts those beyond the first 40, and points that
// cannot run are left out.
Table sorted_points(const std::vector<SweepPoint>& points,
                    const std::vector<SweepMesh>& meshes, bool expand);
// How many points are left out, and why; empty where none is.
std::string left_out_text(const std::vector<SweepPoint>& points,
                          const std::vector<SweepMesh>& meshes);
// Those of frontier(): one table for people, one for programs, whose columns
// are those of points_table.
std::vector<Table> frontier_tables(const std::vector<SweepPoint>& points,
                                   const std::vector<SweepMesh>& meshes);

}  // namespace shardplan::cli
