// SPDX-License-Identifier: Apache-2.0
// Prepares the run of a whole model: its tokens, sizes, plan and forward pass.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/diagnostic.h"
#include "base/host.h"
#include "cli/commands.h"
#include "core/graph_description.h"
#include "core/mesh.h"
#include "core/partition_axis.h"
#include "core/rules.h"
#include "model/forward/writer.h"
#include "session/session.h"

namespace shardplan::cli {

// Token ids of several sequences of equal length.
using InputIds = std::vector<std::vector<int64_t>>;

// Returns whether the text lists tokens and is not a path.
bool is_written_out(const std::string& text);

// Reads `1,2,3;4,5,6`, or a file with a JSON or YAML list of lists, or a list
// of numbers for one sequence. Returns empty, with the reason reported (SP010,
// SP002), if it is neither, if sequences differ in length, or if one is empty.
InputIds read_input_ids(const std::string& written, Host& host,
                        Diagnostics& diags);

// A model that `simulate` runs without a graph file, because it is recognised
// as one of a family whose forward pass is known.

// The shapes of given inputs, by name.
using InputShapes = std::vector<std::pair<std::string, Shape>>;

// The sizes and family of the run, for the report.
struct RunSummary {
  std::string family;  // "llama"
  std::optional<bool>
      tied;  // whether head and embedding are tied, if it is known
  std::optional<int64_t> only_layers;  // only the first layers run
  int64_t all_layers = 0;              // 0 if the number is not known
  int64_t batch = 0;
  int64_t length = 0;         // 0 if no tokens are read
  int64_t target_length = 0;  // of a decoder; 0: the same as `length`
  bool shrunk = false;
  bool shrunk_by_default = false;  // shrunk without --shrink
};

// A model with its plan and the forward pass to run.
struct PlacedPass {
  Session session;
  GraphDescription description;
  std::optional<RunSummary> run = {};  // empty: a graph file is the pass
  // The checkpoint's weights, if the run computes with them.
  std::optional<StoredTensors> weights = {};
};

// Returns the checkpoint's weights. Returns empty if it has none, or if
// `--values` requests other numbers.
std::optional<StoredTensors> weights_of(const Context& context,
                                        const Manifest& manifest);

// Returns the default sizes of a pass: the smallest with which every device has
// a part of the batch and of the tokens. `rules` may be null.
ForwardPass default_pass(Mode mode, const RuleSet* rules, const Mesh& mesh);

// Reads a model and determines the sizes of the run: those of `ids` and of
// given inputs, else --tokens. Returns empty, with the reason reported, if no
// family recognises the model (SP016) or sizes contradict one another (SP010,
// SP013, SP015). `file` is the model's text if it was already read, else null.
std::optional<PlacedPass> read_whole_model(Context& context,
                                           const SourcePtr& file,
                                           const InputIds& ids,
                                           const InputShapes& given);

}  // namespace shardplan::cli
