// SPDX-License-Identifier: Apache-2.0
// Whether a plan runs in the framework that it is written for.
//
// A compiler runs every plan. Styles of tensor parallelism (transformers,
// PyTorch) and the layers of Megatron-LM run those that they have words for,
// and styles not all of these: what their hooks do has to fit what the model
// does between them.
#pragma once

#include <string>
#include <string_view>

#include "base/diagnostic.h"
#include "core/plan.h"
#include "model/forward/writer.h"
#include "model/model.h"

namespace shardplan {

// Reads a plan of hooks that was written for the model and follows its hooks:
// SP020 reports where these stop or compute something else (a warning), or why
// that is not known (a note). `plan` is what was written.
void follow_written_hooks(const Model& model, const Plan& plan,
                          const std::string& text, const ForwardPass& pass,
                          Diagnostics& diags);

struct TensorParallelism {
  std::string problem;  // the reason if the framework cannot run it
  std::string unknown;  // the reason if that is unknown
};

// What an export target (io/export.h) makes of the tensor parallelism of a plan
// that `plan` proposes, whose axis is `tp`, or `etp` in a view of experts.
// Styles are asked about these axes alone: other axes, and experts that are
// dealt out, are run around them.
TensorParallelism tensor_parallelism_in(std::string_view target,
                                        const Model& model, const Plan& plan);

}  // namespace shardplan
