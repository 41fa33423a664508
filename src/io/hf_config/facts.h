// SPDX-License-Identifier: Apache-2.0
// What a config.json says of a model's forward pass.
#pragma once

#include <optional>
#include <string>

#include "base/diagnostic.h"
#include "base/host.h"
#include "core/facts.h"
#include "syntax/document.h"

namespace shardplan {

// Keys of transformers' configuration classes, whatever the model type; of a
// model with parts, its text_config. What is ill-typed is SP002; out of range,
// or a kind of rope scaling or a switch that no model type here follows, is
// SP009.
std::optional<ModelConfig> read_model_config(const Node& config,
                                             Diagnostics& diags);

// Of the model at `path`: itself where it is a config.json, else the one that
// stands beside the weights. A default ModelConfig where there is none; empty
// when it is wrong.
std::optional<ModelConfig> find_model_config(const std::string& path,
                                             Host& host, Diagnostics& diags);

}  // namespace shardplan
