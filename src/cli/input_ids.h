// SPDX-License-Identifier: Apache-2.0
// The tokens that a whole model is run on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "base/host.h"

namespace shardplan::cli {

// Sequences of token numbers, all of one length.
using InputIds = std::vector<std::vector<int64_t>>;

// Whether these are tokens, and no path.
bool is_written_out(const std::string& text);

// `1,2,3;4,5,6`, or a file with a JSON or YAML list of lists, or of numbers for
// one sequence. Empty, with the reason reported (SP010, SP002), when it is
// neither, when sequences differ in length, or when one is empty.
InputIds read_input_ids(const std::string& written, Host& host,
                        Diagnostics& diags);

}  // namespace shardplan::cli
