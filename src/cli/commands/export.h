// SPDX-License-Identifier: Apache-2.0
// Flags that only `export` accepts.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace shardplan::cli {

struct Flag;

struct ExportRequest {
  std::optional<std::string> to;  // --to
};

const std::vector<Flag>& export_flags();

}  // namespace shardplan::cli
