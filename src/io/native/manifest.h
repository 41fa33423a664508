// SPDX-License-Identifier: Apache-2.0
// Reading a native manifest: from tokens to columns in one pass.
//
// All its shapes are read here: the wrapper with `parameters`, `name` and
// `facts`, a bare map, a list of named entries, a nested tree. A flat manifest
// keeps the order of the file; once anything is nested, every path is recorded
// and the manifest is put in the order of the tree at the end.
#pragma once

#include <optional>

#include "base/diagnostic.h"
#include "core/manifest.h"
#include "syntax/tokens.h"

namespace shardplan {

// Whether the outermost map has a key `parameters` that is not a tensor itself.
// Consumes tokens.
bool has_wrapper(TokenSource tokens);

// Empty when something was reported, or when the tokens ended with Error, which
// is the caller's to report. Equal names of two flat tensors are left to
// Manifest::find_duplicate.
std::optional<Manifest> read_native(TokenSource tokens, bool wrapped,
                                    Diagnostics& diags);

}  // namespace shardplan
