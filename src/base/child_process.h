// SPDX-License-Identifier: Apache-2.0
// Programs that the real host starts; see Host::start.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/host.h"

namespace shardplan {

// Starts a program as the leader of its own session, so it has no terminal to
// prompt on, and everything that it starts ends with it. It inherits only the
// three pipes from our descriptors, and signals have their default effects.
// Stops this process from ignoring SIGCHLD, since exit codes would otherwise be
// lost.
std::unique_ptr<ChildProcess> start_real_program(
    const std::vector<std::string>& command,
    const std::vector<std::pair<std::string, std::string>>& environment,
    std::string& why);

// The time after which a program is stopped because it waits for input that
// does not come, for example from a pipe in place of a file: we wait for it,
// none of its processes runs, and it prints nothing. kStalledMessage is then
// its standard error.
inline constexpr int kMostIdleSeconds = 5;
inline constexpr std::string_view kStalledMessage =
    "fatal: stopped after waiting for input that never came, such as a pipe in "
    "place of a file";
inline bool is_stalled(std::string_view errors) {
  return errors.starts_with(kStalledMessage);
}

}  // namespace shardplan
