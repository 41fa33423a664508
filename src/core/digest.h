// SPDX-License-Identifier: Apache-2.0
// Hashes of texts: SHA-256 for fingerprints, and eformer's get_safe_hash_int.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/diagnostic.h"

namespace shardplan {

// SHA-256 of a text that is given piece by piece.
class Sha256 {
 public:
  Sha256();
  ~Sha256();

  void update(std::string_view text);
  // In hex, lower case. Call once.
  std::string hex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// The digest of a text as an integer, big-endian, in decimal. `algorithm` as
// Python's hashlib names it: md5, sha1, sha224 .. sha512, sha3_224 .. sha3_512,
// blake2b, blake2s. Refused (SP010): any other name, as eformer does; and the
// names of hashlib that give no digest of a text alone, such as shake_128.
//
// A function for those who link the library: no command needs it, only the
// conformance runner calls it.
std::optional<std::string> hash_as_integer(std::string_view text,
                                           std::string_view algorithm,
                                           Diagnostics& diags);

}  // namespace shardplan
