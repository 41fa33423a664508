// SPDX-License-Identifier: Apache-2.0
// Runs conformance vectors: decodes the cases of vector files, compares our
// answers with the expected ones, and counts the results.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "base/host.h"
#include "tests/conformance/runner/vector_case.h"
#include "core/manifest.h"

namespace shardplan::conformance {

// Converts the tree of a vector to a manifest: writes it as a nested manifest
// and reads that with the program's own reader, which sorts keys per level and
// joins paths. A leaf without a shape is a scalar.
std::optional<Manifest> decode_tree(const Json& tree, Diagnostics& diags);

// Results of vector files: per function, the number of cases that passed,
// failed or deviate.

struct Tally {
  int64_t passed = 0;
  int64_t failed = 0;
  int64_t deviates = 0;
};

struct Results {
  std::map<std::string, Tally> by_function;
  std::string failures;  // a paragraph each: id, expected, actual
};

// Adds the results of one file, a JSON array. A case that is malformed or whose
// function is unknown fails.
void run_cases(const Json& cases, Results& results);

// Returns the table, the failures, and the last line `N passed, N failed`.
std::string summary(const Results& results);
int64_t failed(const Results& results);

// Runs all files: 0 all passed, 1 some failed, 2 could not run.
int run(const std::vector<std::string>& files, Host& host);

}  // namespace shardplan::conformance
