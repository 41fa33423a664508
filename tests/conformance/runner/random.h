// SPDX-License-Identifier: Apache-2.0
// The digest used by eformer's get_safe_hash_int.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/diagnostic.h"

namespace shardplan {

// Returns the digest of a text as a big-endian integer, in decimal. `algorithm`
// is a name of Python's hashlib: md5, sha1, sha224 .. sha512, sha3_224 ..
// sha3_512, blake2b, blake2s. Reports SP010 for any other name, as eformer
// does, and for names of hashlib that do not digest a text alone, such as
// shake_128.
std::optional<std::string> hash_as_integer(std::string_view text,
                                           std::string_view algorithm,
                                           Diagnostics& diags);

}  // namespace shardplan
