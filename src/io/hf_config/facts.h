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

// How many experts a token goes to, by the names that configs have for it.
std::optional<int64_t> experts_per_token(const Document& config);

}  // namespace shardplan
