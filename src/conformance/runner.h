// SPDX-License-Identifier: Apache-2.0
// Trees of a vector as manifests.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "base/host.h"
#include "conformance/vector_case.h"
#include "core/manifest.h"

namespace shardplan::conformance {

// Written as a nested manifest and read by the program's own reader, which
// sorts keys per level and joins paths. A leaf without a shape is a scalar.
std::optional<Manifest> decode_tree(const Json& tree, Diagnostics& diags);

// Runs vector files and counts: per function passed, failed, deviates.

struct Tally {
  int64_t passed = 0;
  int64_t failed = 0;
  int64_t deviates = 0;
};

struct Results {
  std::map<std::string, Tally> by_function;
  std::string failures;  // a paragraph each: id, expected, got
};

// Adds the cases of one file, a JSON array. A case that is not well-formed, or
// whose function is unknown, has failed.
void run_cases(const Json& cases, Results& results);

// The table, the failures, and as the last line `N passed, N failed`.
std::string summary(const Results& results);
int64_t failed(const Results& results);

// The whole program over files: 0 all passed, 1 some failed, 2 could not run.
int run(const std::vector<std::string>& files, Host& host);

}  // namespace shardplan::conformance
