// SPDX-License-Identifier: Apache-2.0
// The config.json of a model.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/diagnostic.h"
#include "base/host.h"
#include "syntax/document.h"

namespace shardplan {

// Of the model at `path`: itself where it is a config.json, else the one that
// stands beside the weights; null where there is none. Empty when it is no map,
// or cannot be read, which is reported.
std::optional<std::shared_ptr<const Document>> find_config(
    const std::string& path, Host& host, Diagnostics& diags);

// How many experts a token goes to, by the names that configs have for it.
std::optional<int64_t> experts_per_token(const Document& config);

}  // namespace shardplan
