// SPDX-License-Identifier: Apache-2.0
// Plans of PyTorch's parallelize_module, as dictionaries in Python:
//
//   layer_plan = {"attention.wq": ColwiseParallel(),
//                 "attention.wo": RowwiseParallel(output_layouts=Shard(1))}
//
// A style places the parameters of a module; layouts of inputs and outputs
// place nothing. Keys are paths below the module that the plan is for: a whole
// model, or one of its layers. Source: PyTorch 2.9,
// torch/distributed/tensor/parallel/ api.py and style.py.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/rules.h"
#include "io/load.h"
#include "syntax/python.h"
#include "syntax/tokens.h"

namespace shardplan {

// Returns whether a text calls such a style somewhere.
bool has_parallel_styles(std::string_view text);

// Returns the dictionaries that have a style among their values.
std::vector<const PythonDict*> parallel_plans(
    std::span<const PythonToken> tokens, const std::vector<PythonDict>& dicts);

// Returns the pattern for a key of a plan or of placements, without anchors:
// fnmatch matches each part between dots.
std::string fnmatch_parts(std::string_view key);

// Refuses dictionaries that statements change after they are written; `help` is
// the advice. Returns false, with the reason reported, if there is a change.
bool check_unchanged(std::span<const PythonToken> tokens,
                     const std::vector<const PythonDict*>& dicts,
                     std::string_view help, ErrorLimit& errors);

// Appends the rules of the plans, or of the plan that `--table` names, and a
// catch-all that replicates everything else; hooks run these rules. Returns
// false, with the reason reported, on failure.
bool read_parallel_plans(std::span<const PythonToken> tokens,
                         const std::vector<const PythonDict*>& plans,
                         const RuleReading& reading, RuleSet& rules,
                         ErrorLimit& errors);

}  // namespace shardplan
