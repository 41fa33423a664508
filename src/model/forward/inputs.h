// SPDX-License-Identifier: Apache-2.0
// The inputs of a forward pass, and the sizes that their shapes depend on.
#pragma once

#include <span>
#include <string>
#include <utility>

#include "model/architecture/architecture.h"
#include "model/architecture/scope.h"
#include "model/forward/definition.h"
#include "model/forward/writer.h"

namespace shardplan {

// Adds the values of kPassSizes to the scope.
void add_pass_sizes(const ForwardPass& pass, ValueScope& scope);

// Returns whether the model reads integers: tokens, whose number the pass
// determines.
bool reads_tokens(const ForwardDefinition& model);

// Writes an input of the model. Returns false, with the reason reported
// (SP009), if a size has no value.
bool write_input(const InputRule& rule, ValueScope scope, ForwardWriter& out);

// Sets the sizes of the pass from the shapes of inputs, if a dimension of an
// input is just that size. Ignores inputs that have another rank or are unknown
// to the architecture.
void set_pass_sizes(const Architecture& architecture,
                    std::span<const std::pair<std::string, Shape>> inputs,
                    ForwardPass& pass);

}  // namespace shardplan
