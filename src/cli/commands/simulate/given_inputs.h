// SPDX-License-Identifier: Apache-2.0
// Reads data that other programs saved: `simulate --expect FILE` reads recorded
// outputs and the tokens they were computed from; `--input NAME=FILE` reads
// values of a graph's inputs, which replace random ones.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/commands/simulate/model.h"
#include "core/manifest.h"
#include "graph/graph.h"
#include "graph/tensor.h"
#include "sim/values.h"

namespace shardplan::cli {

struct ExpectedOutputs {
  std::string path;
  Manifest manifest;
  StoredTensors numbers;
};

// Returns empty, with the reason reported, if the file cannot be read.
std::optional<ExpectedOutputs> read_expected(const std::string& path,
                                             Host& host, Diagnostics& diags);

// Returns the recording's tensor `input_ids` [sequences, tokens] of I32 or I64;
// no sequences if it has no such tensor.
InputIds recorded_ids(const ExpectedOutputs& expected);

// An input of the graph with its numbers: from a file, or integers stored as
// doubles.
struct GivenInput {
  ValueId value;  // in the graph
  std::optional<StoredTensor> stored;
  Tensor integers;
  std::string from;  // the file, or "--input-ids"
};

Tensor load(const GivenInput& input, Element element);

// Returns the shapes of the inputs that --input and the recording `expected`
// (may be null) contain; they determine the sizes of a whole model. Returns
// empty, with the reason reported, if a file cannot be read.
std::optional<InputShapes> given_shapes(Context& context,
                                        const ExpectedOutputs* expected);

// Returns the inputs of a graph that are not drawn at random. They come from
// --input; from `ids` if the graph has exactly one input of integers; else from
// the recording's tensor of the same name. Returns empty, with the reason
// reported (SP010, or the error of a file that cannot be read), if there is no
// such input, its tensor is not in the file, has another shape or dtype, or
// contains integers beyond the limit. `expected` may be null. `given_elsewhere`
// names the input that is given in another way, or is "".
std::optional<std::vector<GivenInput>> read_given_inputs(
    Context& context, const Graph& graph, const InputIds& ids,
    const ExpectedOutputs* expected, const std::string& given_elsewhere = "");

// Returns whether outputs can be compared with recorded ones, which requires
// that neither parameters nor inputs are drawn. Otherwise reports what is drawn
// (SP010).
bool can_expect_of_graph(Context& context, const Graph& graph,
                         const Manifest& manifest, ValueSource source,
                         const std::vector<GivenInput>& given);

}  // namespace shardplan::cli
