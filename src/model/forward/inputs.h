// SPDX-License-Identifier: Apache-2.0
// What a forward pass reads, and the sizes by which it is given.
#pragma once

#include <span>
#include <string>
#include <utility>

#include "model/architecture/architecture.h"
#include "model/architecture/scope.h"
#include "model/forward/definition.h"
#include "model/forward/writer.h"

namespace shardplan {

// kPassSizes, as names of the scope.
void add_pass_sizes(const ForwardPass& pass, ValueScope& scope);

// Whether the model reads integers: tokens, whose number the pass says.
bool reads_tokens(const ForwardDefinition& model);

// False, with the reason reported (SP009), where a size has no value.
bool write_input(const InputRule& rule, ValueScope scope, ForwardWriter& out);

// Takes sizes of the pass from shapes of inputs: those that a dimension of an
// input is. What has another rank, or is no input of the architecture, says
// nothing.
void set_pass_sizes(const Architecture& architecture,
                    std::span<const std::pair<std::string, Shape>> inputs,
                    ForwardPass& pass);

}  // namespace shardplan
