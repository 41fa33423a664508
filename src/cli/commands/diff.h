// SPDX-License-Identifier: Apache-2.0
// Flags that only `diff` accepts.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "gate/fail_on.h"

namespace shardplan::cli {

struct Flag;
struct Options;
struct Setting;

struct DiffRequest {
  bool exit_code = false;              // --exit-code
  std::optional<FailOn> fail_on;       // --fail-on
  std::vector<std::string> names;      // --names: models, to compare rules
  std::vector<std::string> semantics;  // --semantics A,B: two or none
  // The rules before and after, for one model: --before, --after.
  std::vector<std::string> before;
  std::vector<std::string> after;
};

const std::vector<Flag>& diff_flags();
// Reports flags that make a plan if saved plans or only rules are compared,
// since they do not apply there (SP010). `given` are the flags of the command
// line.
void validate_diff(std::span<const Setting> given, const Options& options,
                   Diagnostics& diags);

}  // namespace shardplan::cli
