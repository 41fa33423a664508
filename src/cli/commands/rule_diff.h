// SPDX-License-Identifier: Apache-2.0
// `shardplan diff OLD.yaml NEW.yaml`: what became of each rule and label, and
// which rules took over, without a model (rule_diff.cc) or with one
// (model_diff.cc).
#pragma once

#include <array>
#include <string>

#include "base/source.h"
#include "cli/commands.h"

namespace shardplan::cli {

// An argument, and its text where it is a file.
struct RuleSide {
  std::string path;  // or "@name"
  SourcePtr file;    // null: of a shipped set or a folder
};

Exit diff_rules(Context& context, const std::array<RuleSide, 2>& sides);

// `diff MODEL --before OLD --after NEW`: what a change of rules does to a model
// on a mesh, as a gate of one target would tell. REQUIRES: both were given.
Exit diff_model(Context& context);

}  // namespace shardplan::cli
