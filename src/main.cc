// SPDX-License-Identifier: Apache-2.0
// The entry point on a real machine. Everything else is in cli::run.
#include <memory>
#include <string>
#include <vector>

#include "base/real_host.h"
#include "cli/commands.h"

int main(int count, char** words) {
  const std::unique_ptr<shardplan::Host> host = shardplan::make_real_host();
  // Some callers pass no arguments at all, not even the program's name.
  const std::vector<std::string> arguments(words + (count > 0 ? 1 : 0),
                                           words + count);
  return shardplan::cli::run(arguments, *host);
}
