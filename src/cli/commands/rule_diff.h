// SPDX-License-Identifier: Apache-2.0
// `shardplan diff OLD.yaml NEW.yaml`: what became of each rule and label, and
// which rules took over, without a model.
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

}  // namespace shardplan::cli
