// SPDX-License-Identifier: Apache-2.0
// The verdict of a `simulate` run, for other commands.
#pragma once

#include <optional>
#include <string>

#include "cli/commands.h"
#include "sim/simulate.h"

namespace shardplan::cli {

struct CheckedRun {
  Verdict verdict = Verdict::Ok;
  std::string text;  // "ok: sharded and unsharded agree to 12 digits"
};

// Runs the model, rules and mesh of the context as `simulate` does. Returns
// empty, with the reason reported, if they cannot be run.
std::optional<CheckedRun> checked_run(Context& context);

}  // namespace shardplan::cli
