// SPDX-License-Identifier: Apache-2.0
// The parts of reports that check, resolve and analyze share.
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

// Contract section 4: the summary of resolve, check and analyze. The
// fingerprint hashes every name, so it is left to formats that show it.
std::vector<std::pair<std::string, Cell>> summary_of(const Context& context,
                                                     const Session& session);

// One row per parameter, for programs.
Table placements_table(const Session& session);
// ", experts ep=8,edp=4" for what stands behind the axes of a mesh.
std::string views_text(const Mesh& mesh);
// One row per correction of a parameter, for programs.
Table corrections_table(const Session& session);
// One row per rule, for programs.
Table rules_table(const Session& session);
// Folded placements for people; one by one with `expand`.
Table folded_placements(const Session& session, bool expand);

// "15.0 GiB"; "16060522496 bytes" where it is exact.
std::string size_text(int64_t bytes, bool exact);
// "llama.json: 291 parameters, 15.0 GiB    mesh fsdp=16 tp=8: 128 devices", and
// " in 2 slices (fsdp crosses 2)" where these are known.
// `exact`: the size in bytes.
std::string headline_of(const Session& session, bool exact);
// "293.7 MiB per device; efficiency 89.3 %: ..."
std::string efficiency_line(const Session& session);
// What a correction did, "dropped `fsdp`", and why, "4096 is not divisible by
// fsdp=3 (SP203)". One text for `--why` and `analyze`.
std::string dropped_text(const Correction& correction);
std::string correction_reason(const Correction& correction);
// "~ corrected: 2 dimensions are not divisible by their axes (SP203)"
std::vector<std::string> correction_notes(const Session& session);

// What --topology was understood as: in the summary, and the first note.
void add_topology(const Context& context, Report& report);

// Of a plan whose report cannot be finished: what there is for programs.
Report plan_report(const Context& context, const Session& session,
                   const std::string& command);

int64_t correction_count(const Session& session);

// What is declared (core/rules.h), where it is; all are empty without.
// A row per dimension that is stored differently, for programs.
Table declared_table(const Session& session);
// Appends the table and its notes to a report, where something is declared.
void add_declared(const Session& session, Report& report);

}  // namespace shardplan::cli
