// SPDX-License-Identifier: Apache-2.0
// One parameter, as a user names it.
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

// The parameter of that name or, where there is none, the only one that the
// name is found in as a pattern. SP010 otherwise, with names that are near.
// `folding` is of the manifest's parameters.
std::optional<size_t> find_parameter(const Manifest& manifest,
                                     const Folding& folding,
                                     const std::string& name,
                                     Diagnostics& diags);

// `inspect --shard NAME`: which slice of one parameter lies on which device.

// A drawing for people and a row per device for programs. Empty when `name` is
// not of one parameter, or the mesh has more devices than can be listed
// (SP010). The report refers to the session.
std::optional<Report> shard_report(Context& context, const Session& session,
                                   const std::string& name);

// `resolve --why NAME`: the whole decision about one parameter.

// Every rule tried, the winner, each dimension, the final local shape. Empty
// when `name` is not of one parameter (cli/views/parameter_report.h). The
// report refers to the session.
std::optional<Report> why_report(Context& context, const Session& session,
                                 const std::string& name);

}  // namespace shardplan::cli
