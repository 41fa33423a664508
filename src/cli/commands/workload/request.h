// SPDX-License-Identifier: Apache-2.0
// The flags of a training step that determine its activations.
#pragma once

#include <vector>

#include "session/memory_request.h"

namespace shardplan::cli {

struct Flag;

const std::vector<Flag>& workload_flags();

}  // namespace shardplan::cli
