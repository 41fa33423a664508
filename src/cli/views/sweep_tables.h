// SPDX-License-Identifier: Apache-2.0
// Tables and texts in the report of `shardplan sweep`.
#pragma once

#include <string>
#include <vector>

#include "memory/sweep.h"
#include "report/report.h"

namespace shardplan::cli {

// Returns what all points have in common, which their tables omit: "l40s with
// 45.0 GiB, batch 4, context 32,768"; may be empty.
std::string common_text(const std::vector<SweepPoint>& points,
                        const std::vector<SweepMesh>& meshes);

// Returns the workload at which the first device is full: "batch 14 or context
// 61,440"; empty if no workload fills one.
//
// REQUIRES: a limit.
std::string breaks_text(const WorkloadHeadroom& workload_headroom);

// Returns every point as computed, for programs.
Table points_table(const std::vector<SweepPoint>& points,
                   const std::vector<SweepMesh>& meshes);
// Returns the points for people: those that fit first, then in the order of the
// sweep's objective. Without `expand`, a row counts the points beyond the first
// 40, and points that cannot run are omitted.
Table sorted_points(const std::vector<SweepPoint>& points,
                    const std::vector<SweepMesh>& meshes, bool expand);
// Returns how many points are omitted and why; empty if none is.
std::string left_out_text(const std::vector<SweepPoint>& points,
                          const std::vector<SweepMesh>& meshes);
// Returns the points of frontier(): one table for people and one for programs
// with the columns of points_table.
std::vector<Table> frontier_tables(const std::vector<SweepPoint>& points,
                                   const std::vector<SweepMesh>& meshes);

// Returns the memory of the best points, and their times if these are known.
std::vector<Figure> sweep_figures(const std::vector<SweepPoint>& points,
                                  const std::vector<SweepMesh>& meshes);

}  // namespace shardplan::cli
