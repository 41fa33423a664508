// SPDX-License-Identifier: Apache-2.0
// `simulate --expect FILE`: outputs that another program recorded, and the
// tokens that it ran on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "base/host.h"
#include "cli/input_ids.h"
#include "core/manifest.h"
#include "core/stored_tensor.h"
#include "graph/graph.h"
#include "sim/expected.h"
#include "sim/simulate.h"

namespace shardplan::cli {

struct ExpectedOutputs {
  std::string path;
  Manifest manifest;
  StoredTensors numbers;
};

// Empty, with the reason reported, when the file cannot be read.
std::optional<ExpectedOutputs> read_expected(const std::string& path,
                                             Host& host, Diagnostics& diags);

// Its tensor `input_ids` [sequences, tokens] of I32 or I64; no sequences where
// it has none such.
InputIds recorded_ids(const ExpectedOutputs& expected);

// How far the outputs are from it. Those of another program in float32 must
// agree (SP511); runs in lower precision are not judged. Empty, with the reason
// reported, when it holds no output of the graph.
std::optional<std::vector<ExpectedError>> check_expected(
    const ExpectedOutputs& expected, const Graph& graph,
    const Simulation& outcome, bool judge, Diagnostics& diags);

}  // namespace shardplan::cli
