// SPDX-License-Identifier: Apache-2.0
// follow_written_hooks() and tensor_parallelism_in(): whether a plan runs in
// the framework that it is exported to.
//
// A compiler runs every plan. The tensor-parallel styles of transformers and
// PyTorch, and the layers of Megatron-LM, run only plans that they can express,
// and styles not all of these: their hooks must fit the operations that the
// model runs between them.
#pragma once

#include <string>
#include <string_view>

#include "base/diagnostic.h"
#include "core/plan.h"
#include "model/forward/writer.h"
#include "model/model.h"

namespace shardplan {

// Reads a hook-based plan that was written for the model, and follows its
// hooks. SP020 reports where they stop or compute something else (a warning),
// or why that is unknown (a note). `plan` is the plan that was written.
void follow_written_hooks(const Model& model, const Plan& plan,
                          const std::string& text, const ForwardPass& pass,
                          Diagnostics& diags);

struct TensorParallelism {
  std::string problem;  // the reason if the framework cannot run it
  std::string unknown;  // the reason if that is unknown
};

// Returns what an export target (io/export.h) makes of the tensor parallelism
// of a plan that `plan` proposed. The plan's tensor axis is `tp`, or `etp` in a
// view of experts. Styles are checked for these axes alone, because frameworks
// handle other axes and whole experts outside of them.
TensorParallelism tensor_parallelism_in(std::string_view target,
                                        const Model& model, const Plan& plan);

}  // namespace shardplan
