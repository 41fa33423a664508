// SPDX-License-Identifier: Apache-2.0
// `shardplan diff OLD.yaml NEW.yaml`: how each rule and label changed and which
// rules take over names from others, without a model (rule_diff.cc) or with one
// (model_diff.cc).
#pragma once

#include <array>
#include <string>
#include <vector>

#include "base/source.h"
#include "cli/commands.h"

namespace shardplan::cli {

// An argument of `diff`, and its text if it is a file.
struct RuleSide {
  std::string path;  // or "@name"
  SourcePtr file;    // null for a shipped set or a folder
};

// Returns false, with the reason reported (SP010), if several paths are `-`.
bool is_stdin_read_once(const std::vector<std::string>& paths,
                        Diagnostics& diags);

Exit diff_rules(Context& context, const std::array<RuleSide, 2>& sides);

// `diff MODEL --before OLD --after NEW`: reports the effect of changed rules on
// a model on a mesh, as a gate with one target would.
//
// REQUIRES: both sides are given.
Exit diff_model(Context& context);

}  // namespace shardplan::cli
