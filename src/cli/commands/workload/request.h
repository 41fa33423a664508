// SPDX-License-Identifier: Apache-2.0
// How a training step is done: what decides its activations.
#pragma once

#include <vector>

#include "session/memory_request.h"

namespace shardplan::cli {

struct Flag;

const std::vector<Flag>& workload_flags();

}  // namespace shardplan::cli
