// SPDX-License-Identifier: Apache-2.0
// The tokens that a whole model is run on.
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

// Sequences of token numbers, all of one length.
using InputIds = std::vector<std::vector<int64_t>>;

// Whether these are tokens, and no path.
bool is_written_out(const std::string& text);

// `1,2,3;4,5,6`, or a file with a JSON or YAML list of lists, or of numbers for
// one sequence. Empty, with the reason reported (SP010, SP002), when it is
// neither, when sequences differ in length, or when one is empty.
InputIds read_input_ids(const std::string& written, Host& host,
                        Diagnostics& diags);

// A model as `simulate` runs it where no graph is given: recognised as one of a
// family, whose forward pass is known.

// Inputs that are given, by name.
using InputShapes = std::vector<std::pair<std::string, Shape>>;

// What is reported of the run.
struct RunSummary {
  std::string family;  // "llama"
  std::optional<bool>
      tied;  // whether head and embedding are one, if it is said
  std::optional<int64_t> only_layers;  // the first so many, as requested
  int64_t all_layers = 0;              // 0 where nothing says how many
  int64_t batch = 0;
  int64_t length = 0;         // 0 where no tokens are read
  int64_t target_length = 0;  // of a decoder; 0 where it is that length
  bool shrunk = false;
  bool shrunk_by_default = false;  // and nobody asked for it
};

// A model with its plan and the forward pass to run.
struct PlacedPass {
  Session session;
  GraphDescription description;
  std::optional<RunSummary> run = {};  // none: a graph file is the pass
  // The checkpoint's weights, if the run computes with them.
  std::optional<StoredTensors> weights = {};
};

// The checkpoint's weights. Empty if it has none, or if `--values` asks for
// other numbers.
std::optional<StoredTensors> weights_of(const Context& context,
                                        const Manifest& manifest);

// The pass where nobody gives its sizes: as small as it may be with a part of
// the batch, and of its tokens, on every device. `rules` may be null.
ForwardPass default_pass(Mode mode, const RuleSet* rules, const Mesh& mesh);

// Sizes of the run: those of `ids` and of inputs that are given, else --tokens.
// Empty, with the reason reported: no family recognises the model (SP016),
// sizes contradict one another (SP010, SP013, SP015).
// `file` is the text of the model, where it was read already; else null.
std::optional<PlacedPass> read_whole_model(Context& context,
                                           const SourcePtr& file,
                                           const InputIds& ids,
                                           const InputShapes& given);

}  // namespace shardplan::cli
