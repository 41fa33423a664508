// SPDX-License-Identifier: Apache-2.0
// Reads a native manifest from tokens into columns, in one pass.
//
// Every form of a native manifest is read here: the wrapper with `parameters`,
// `name` and `facts`, a bare map, a list of named entries, a nested tree. A
// flat manifest stays in the order of the file. Once anything is nested, every
// path is recorded, and at the end the manifest is sorted into tree order.
#pragma once

#include <optional>

#include "base/diagnostic.h"
#include "core/manifest.h"
#include "syntax/tokens.h"

namespace shardplan {

// Returns whether the outermost map has a key `parameters` that is not a tensor
// itself. Consumes tokens.
bool has_wrapper(TokenSource tokens);

// Returns nullopt when something was reported, or when the tokens ended with
// Error, which the caller reports. Manifest::find_duplicate finds equal names
// of two flat tensors.
std::optional<Manifest> read_native(TokenSource tokens, bool wrapped,
                                    Diagnostics& diags);

}  // namespace shardplan
