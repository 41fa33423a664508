// SPDX-License-Identifier: Apache-2.0
// Flags that only `inspect` accepts.
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

struct InspectRequest {
  std::optional<std::string> shard;  // --shard NAME
};

const std::vector<Flag>& inspect_flags();
// Reports flags that make a plan without --shard, where they have no effect
// (SP010). `given` are the flags of the command line.
void validate_inspect(std::span<const Setting> given, const Options& options,
                      Diagnostics& diags);

}  // namespace shardplan::cli
