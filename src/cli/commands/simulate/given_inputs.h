// SPDX-License-Identifier: Apache-2.0
// What other programs saved: `simulate --expect FILE`, outputs that one
// recorded, and the tokens that it ran on; `--input NAME=FILE`, numbers of a
// graph's inputs, in the place of drawn ones.
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

// Empty, with the reason reported, when the file cannot be read.
std::optional<ExpectedOutputs> read_expected(const std::string& path,
                                             Host& host, Diagnostics& diags);

// Its tensor `input_ids` [sequences, tokens] of I32 or I64; no sequences where
// it has none such.
InputIds recorded_ids(const ExpectedOutputs& expected);

// An input of the graph, and its numbers: those of a file, or integers, which
// are held as doubles.
struct GivenInput {
  ValueId value;  // of the graph
  std::optional<StoredTensor> stored;
  Tensor integers;
  std::string from;  // the file, or "--input-ids"
};

Tensor load(const GivenInput& input, Element element);

// Shapes of what --input and a recording give, `expected`, which may be null:
// by them a whole model has its sizes. Empty, with the reason reported, where a
// file cannot be read.
std::optional<InputShapes> given_shapes(Context& context,
                                        const ExpectedOutputs* expected);

// The inputs of a graph that are given: by --input; by `ids` where the graph
// has one input of integers; else by the name that a tensor of the recording
// has. Empty, with the reason reported (SP010, and what a file that cannot be
// read is): there is no such input, its tensor is not in the file, or has
// another shape or type, or integers beyond the limit. `expected` may be null.
// `apart`: the input that is given in another way, or "".
std::optional<std::vector<GivenInput>> read_given_inputs(
    Context& context, const Graph& graph, const InputIds& ids,
    const ExpectedOutputs* expected, const std::string& apart = "");

// Whether recorded outputs can be asked for: nothing may be drawn, neither
// parameters nor inputs. SP010 with what is.
bool can_expect_of_graph(Context& context, const Graph& graph,
                         const Manifest& manifest, ValueSource source,
                         const std::vector<GivenInput>& given);

}  // namespace shardplan::cli
