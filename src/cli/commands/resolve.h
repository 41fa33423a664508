// SPDX-License-Identifier: Apache-2.0
// Flags that only `resolve` accepts.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/diagnostic.h"

namespace shardplan::cli {

struct Flag;
struct Options;
struct Setting;

struct ResolveRequest {
  std::optional<std::string> why;  // --why NAME
};

const std::vector<Flag>& resolve_flags();
// Reports --why if the answer is to be a plan (SP010).
void validate_resolve(std::span<const Setting> given, const Options& options,
                      Diagnostics& diags);

}  // namespace shardplan::cli
