// SPDX-License-Identifier: Apache-2.0
#include "conformance/safe_hash.h"

#include <string>

#include <doctest/doctest.h>

#include "tests/support/messages.h"

namespace shardplan {
namespace {

std::string hashed(const char* text, const char* algorithm) {
  Diagnostics diags;
  return hash_as_integer(text, algorithm, diags)
      .value_or(testing::messages(diags));
}

TEST_CASE("a digest is one big-endian integer") {
  // md5("") and sha256("hello world"), as Python prints them.
  CHECK(hashed("", "md5") == "281949768489412648962353822266799178366");
  CHECK(hashed("hello world", "sha256") ==
        "83814198383102558219731078260892729932246618004265700685467928187377"
        "105751529");
  CHECK(hashed("é", "sha1") ==
        "1090902142825928497408163543459973913054226483005");
}

TEST_CASE("an algorithm that is unknown, or needs more than a text, is named") {
  CHECK(hashed("x", "sha3-256") == "SP010 `sha3-256` is not a hash algorithm");
  CHECK(hashed("x", "MD5") == "SP010 `MD5` is not a hash algorithm");
  CHECK(hashed("x", "") == "SP010 `` is not a hash algorithm");
  CHECK(hashed("x", "shake_128") ==
        "SP010 `shake_128` gives no digest of a text alone");
  Diagnostics diags;
  hash_as_integer("x", "sha25", diags);
  CHECK(diags.all().front().help.front().find("`sha256`") != std::string::npos);
}

}  // namespace
}  // namespace shardplan
