// SPDX-License-Identifier: Apache-2.0
// Tables and texts that the reports of check, resolve and analyze share.
//
// Tables refer to the session: it must outlive the report.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "report/report.h"
#include "session/session.h"

namespace shardplan::cli {

// Returns the summary of resolve, check and analyze (contract section 4). The
// fingerprint hashes every name, so only formats that show it compute it.
std::vector<std::pair<std::string, Cell>> summary_of(const Context& context,
                                                     const Session& session);

// Returns one row per parameter, for programs.
Table placements_table(const Session& session);
// Returns the views of a mesh as text that follows its axes: ", experts
// ep=8,edp=4".
std::string views_text(const Mesh& mesh);
// Returns one row per correction of a parameter, for programs.
Table corrections_table(const Session& session);
// Returns one row per rule, for programs.
Table rules_table(const Session& session);
// Returns the folded placements for people; every placement with `expand`.
Table folded_placements(const Session& session, bool expand);

// Returns "15.0 GiB", or "16060522496 bytes" if `exact`.
std::string size_text(int64_t bytes, bool exact);
// Returns "llama.json: 291 parameters, 15.0 GiB    mesh fsdp=16 tp=8: 128
// devices", and " in 2 slices (fsdp crosses 2)" if the slices are known.
// `exact`: the size in bytes.
std::string headline_of(const Session& session, bool exact);
// Returns "293.7 MiB per device; efficiency 89.3 %: ...".
std::string efficiency_line(const Session& session);
// Return what a correction did, "dropped `fsdp`", and why, "4096 is not
// divisible by fsdp=3 (SP203)". `--why` and `analyze` share these texts.
std::string dropped_text(const Correction& correction);
std::string correction_reason(const Correction& correction);
// Returns "~ corrected: 2 dimensions are not divisible by their axes (SP203)".
std::vector<std::string> correction_notes(const Session& session);

// Adds the topology that --topology was understood as: to the summary, and as
// the first note.
void add_topology(const Context& context, Report& report);

// Returns the available part of a plan whose report cannot be finished, for
// programs.
Report plan_report(const Context& context, const Session& session);

// Effects of --declare (core/rules.h), empty without declarations. This table
// has a row per dimension that is stored with another size, for programs.
Table declared_table(const Session& session);
// Appends the table and its notes to a report if anything is declared.
void add_declared(const Session& session, Report& report);

}  // namespace shardplan::cli
