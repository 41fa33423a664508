// SPDX-License-Identifier: Apache-2.0
// Reports about one parameter that a user names.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/diagnostic.h"
#include "cli/commands.h"
#include "core/fold.h"
#include "core/manifest.h"
#include "report/report.h"
#include "session/session.h"

namespace shardplan::cli {

// Returns the parameter of that name or, if there is none, the only parameter
// in whose name the pattern `name` is found. Otherwise reports SP010 with
// similar names.
//
// REQUIRES: `folding` was computed from the manifest's parameters.
std::optional<size_t> find_parameter(const Manifest& manifest,
                                     const Folding& folding,
                                     const std::string& name,
                                     Diagnostics& diags);

// `inspect --shard NAME`: which slice of one parameter each device holds.

// Returns a drawing for people and a row per device for programs. Returns empty
// if `name` is not one parameter, or the mesh has more devices than can be
// listed (SP010). The report refers to the session.
std::optional<Report> shard_report(Context& context, const Session& session,
                                   const std::string& name);

// `resolve --why NAME`: how the sharding of one parameter was decided.

// Returns every rule tried, the rule that decides, each dimension, and the
// final local shape. Returns empty if `name` is not one parameter (see
// find_parameter). The report refers to the session.
std::optional<Report> why_report(Context& context, const Session& session,
                                 const std::string& name);

}  // namespace shardplan::cli
