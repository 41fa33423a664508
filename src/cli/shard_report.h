// SPDX-License-Identifier: Apache-2.0
// `inspect --shard NAME`: which slice of one parameter lies on which device.
#pragma once

#include <optional>
#include <string>

#include "cli/commands.h"
#include "cli/session.h"
#include "report/report.h"

namespace shardplan::cli {

// A drawing for people and a row per device for programs. Empty when `name` is
// not of one parameter, or the mesh has more devices than can be listed
// (SP010). The report refers to the session.
std::optional<Report> shard_report(Context& context, const Session& session,
                                   const std::string& name);

}  // namespace shardplan::cli
