// SPDX-License-Identifier: Apache-2.0
// One case of a vector file, written in a test.
#pragma once

#include <string>

#include "tests/conformance/runner/runner.h"

namespace shardplan::conformance {

// "passed", "deviates", or why it failed. `answer` holds `expected`, `error`
// and the like: {"expected": ["tp"]}.
inline std::string outcome(const char* function, const char* inputs,
                           const char* answer) {
  Json test = Json::parse(answer);
  test["id"] = "x";
  test["function"] = function;
  test["inputs"] = Json::parse(inputs);
  Results results;
  run_cases(Json::array({test}), results);
  const Tally& tally = results.by_function.at(function);
  if (tally.failed > 0) return results.failures;
  return tally.passed > 0 ? "passed" : "deviates";
}

}  // namespace shardplan::conformance
