// SPDX-License-Identifier: Apache-2.0
// shardplan-conformance FILE...: 0 all passed, 1 some failed, 2 could not run.
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>

#include "conformance/runner.h"

namespace {

using shardplan::conformance::Json;

int run(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: shardplan-conformance FILE...\n";
    return 2;
  }
  shardplan::conformance::Results results;
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i]);
    const Json cases =
        file.is_open() ? Json::parse(file, nullptr, false) : Json();
    if (!file.is_open() || !cases.is_array()) {
      std::cerr << "error: `" << argv[i] << "` is not a JSON array of cases\n";
      return 2;
    }
    run_cases(cases, results);
  }
  std::cout << summary(results);
  return failed(results) > 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& problem) {
    std::cerr << "error: " << problem.what() << "\n";
    return 3;
  }
}
