// SPDX-License-Identifier: Apache-2.0
// What the flags of single commands ask for. (plan, simulate and sweep declare
// theirs in their folders.)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/source.h"
#include "gate/fail_on.h"

namespace shardplan::cli {

struct CheckRequest {
  bool fix = false;   // --fix
  bool diff = false;  // --fix --diff
};

struct DiffRequest {
  bool exit_code = false;              // --exit-code
  std::optional<FailOn> fail_on;       // --fail-on
  std::vector<std::string> names;      // --names: models, to compare rules
  std::vector<std::string> semantics;  // --semantics A,B: two or none
  // The rules before and after, for one model: --before, --after.
  std::vector<std::string> before;
  std::vector<std::string> after;
};

struct ExplainRequest {
  SourcePtr matmul;                      // --matmul; also the source's name
  std::optional<std::string> algorithm;  // --algorithm
  std::optional<std::string> kind;       // --kind
  std::optional<int64_t> ranks;          // --ranks
  std::optional<int64_t> inner;          // --inner
};

struct ExportRequest {
  std::optional<std::string> to;  // --to
};

struct GateRequest {
  std::optional<std::string> baseline;      // --baseline, a path
  std::optional<std::string> new_baseline;  // --write-baseline, a path
  std::vector<std::string> targets;         // --target
};

struct InspectRequest {
  std::optional<std::string> shard;  // --shard NAME
};

struct ResolveRequest {
  std::optional<std::string> why;  // --why NAME
};

}  // namespace shardplan::cli
