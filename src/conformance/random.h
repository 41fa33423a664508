// SPDX-License-Identifier: Apache-2.0
// The digest behind eformer's get_safe_hash_int.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/diagnostic.h"

namespace shardplan {

// The digest of a text as an integer, big-endian, in decimal. `algorithm` as
// Python's hashlib names it: md5, sha1, sha224 .. sha512, sha3_224 .. sha3_512,
// blake2b, blake2s. Refused (SP010): any other name, as eformer does; and the
// names of hashlib that give no digest of a text alone, such as shake_128.
std::optional<std::string> hash_as_integer(std::string_view text,
                                           std::string_view algorithm,
                                           Diagnostics& diags);

}  // namespace shardplan
