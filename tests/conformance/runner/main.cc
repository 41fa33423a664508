// SPDX-License-Identifier: Apache-2.0
// shardplan-conformance FILE...: exits with 0 if all cases passed, 1 if some
// failed, 2 if it could not run.
#include <exception>

#include "base/real_host.h"
#include "tests/conformance/runner/runner.h"

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
