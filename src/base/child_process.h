// SPDX-License-Identifier: Apache-2.0
// Other programs on the machine we run on; see Host::start.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/host.h"

namespace shardplan {

// The program leads a session of its own, so it has no terminal to ask at, and
// all that it starts ends with it. Of our descriptors it has the three pipes
// alone; signals have their default effects. From now on SIGCHLD is not
// ignored, since exit codes would be lost.
std::unique_ptr<ChildProcess> start_real_program(
    const std::vector<std::string>& command,
    const std::vector<std::pair<std::string, std::string>>& environment,
    std::string& why);

// A program that waits for something that does not come, as for a pipe in place
// of a file: for so long, while we wait for it, nothing of it runs and it
// prints nothing. It is ended, with these words on its standard error.
inline constexpr int kMostIdleSeconds = 5;
inline constexpr std::string_view kWaitsInVain =
    "fatal: stopped after waiting for input that never came, such as a pipe in "
    "place of a file";
inline bool waits_in_vain(std::string_view errors) {
  return errors.starts_with(kWaitsInVain);
}

}  // namespace shardplan
