// SPDX-License-Identifier: Apache-2.0
// What `explain` alone takes: which product of matrices, or which schedule.
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
  SourcePtr matmul;                      // --matmul, as text named so
  std::optional<std::string> algorithm;  // --algorithm
  std::optional<std::string> kind;       // --kind
  std::optional<int64_t> ranks;          // --ranks
  std::optional<int64_t> inner;          // --inner
};

// --algorithm is a flag of `simulate`, too.
const std::vector<Flag>& explain_flags();
// Flags that mean nothing without another one (SP010).
void validate_explain(std::span<const Setting> given, const Options& options,
                      Diagnostics& diags);

}  // namespace shardplan::cli
