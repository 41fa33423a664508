// SPDX-License-Identifier: Apache-2.0
// Flags that only `explain` accepts: which matrix product or which schedule to
// explain.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "base/source.h"

namespace shardplan::cli {

struct Flag;
struct Options;
struct Setting;

struct ExplainRequest {
  SourcePtr matmul;                      // --matmul; also the source's name
  std::optional<std::string> algorithm;  // --algorithm
  std::optional<std::string> kind;       // --kind
  std::optional<int64_t> ranks;          // --ranks
  std::optional<int64_t> inner;          // --inner
};

// --algorithm is also a flag of `simulate`.
const std::vector<Flag>& explain_flags();
// Reports flags that have no meaning without another flag (SP010).
void validate_explain(std::span<const Setting> given, const Options& options,
                      Diagnostics& diags);

}  // namespace shardplan::cli
