// SPDX-License-Identifier: Apache-2.0
// What `diff` alone takes.
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
  std::vector<std::string> names;      // --names: models, of rules alone
  std::vector<std::string> semantics;  // --semantics A,B: two, or none
  // Rules of one model: --before, --after.
  std::vector<std::string> before;
  std::vector<std::string> after;
};

const std::vector<Flag>& diff_flags();
// What makes a plan does not apply to saved ones or to rules alone (SP010).
// `given` are the flags of the command line.
void validate_diff(std::span<const Setting> given, const Options& options,
                   Diagnostics& diags);

}  // namespace shardplan::cli
