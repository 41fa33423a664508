// SPDX-License-Identifier: Apache-2.0
// Packs data for a page: compressed, in letters that HTML does not interpret.
#pragma once

#include <string>
#include <string_view>

namespace shardplan {

// Returns the text compressed by zlib (RFC 1950), which browsers open with
// `DecompressionStream("deflate")`, in base64.
std::string packed(std::string_view text);

// Returns "sha256-...", with which a page's security policy names its script.
std::string script_hash(std::string_view script);

}  // namespace shardplan
