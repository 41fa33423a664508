// SPDX-License-Identifier: Apache-2.0
// The numbers of safetensors files, mapped and never read as a whole.
#pragma once

#include <optional>
#include <string>

#include "base/diagnostic.h"
#include "base/host.h"
#include "core/manifest.h"

namespace shardplan {

// Whether the model at `path` is a checkpoint that holds numbers: safetensors
// whose data is there. Reports nothing.
bool has_weights(const std::string& path, Host& host);

// One tensor per parameter of `manifest`, which was read from `path`: a file,
// a directory, an index. SP001, SP002, SP008 as when the manifest was read;
// SP008 where the data of a parameter is absent.
std::optional<StoredTensors> open_weights(const std::string& path,
                                          const Manifest& manifest, Host& host,
                                          Diagnostics& diags);

}  // namespace shardplan
