// SPDX-License-Identifier: Apache-2.0
// `resolve --why NAME`: the whole decision about one parameter.
#pragma once

#include <optional>
#include <string>

#include "cli/commands.h"
#include "cli/session.h"
#include "report/report.h"

namespace shardplan::cli {

// Every rule tried, the winner, each dimension, the final local shape. Empty
// when `name` is not of one parameter (cli/parameter_name.h). The report refers
// to the session.
std::optional<Report> why_report(Context& context, const Session& session,
                                 const std::string& name);

}  // namespace shardplan::cli
