// SPDX-License-Identifier: Apache-2.0
// shardplan-conformance FILE...: 0 all passed, 1 some failed, 2 could not run.
#include <exception>

#include "base/real_host.h"
#include "conformance/runner.h"

int main(int argc, char** argv) {
  const auto host = shardplan::make_real_host();
  try {
    return shardplan::conformance::run({argv + 1, argv + argc}, *host);
  } catch (const std::exception& problem) {
    host->write(shardplan::Stream::Err,
                std::string("error: ") + problem.what() + "\n");
    return 3;
  }
}
