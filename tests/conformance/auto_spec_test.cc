// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/conformance/cases.h"

namespace shardplan::conformance {
namespace {

std::string auto_outcome(const char* names, const char* least,
                         const char* answer) {
  const std::string inputs =
      R"({"shape": [8, 8], "mesh": "fsdp=4,tp=2", "reverse": false, "names": )" +
      std::string(names) + R"(, "min_sharding_size": )" + least + "}";
  return outcome("auto_partition_spec", inputs.c_str(), answer);
}

TEST_CASE("sizes may be fractions, and no size is the number of devices") {
  CHECK(auto_outcome("null", "null", R"({"expected": ["fsdp", "tp"]})") ==
        "passed");
  CHECK(auto_outcome("null", "64.5", R"({"expected": []})") == "passed");
}

TEST_CASE("a name that the mesh lacks is refused") {
  CHECK(auto_outcome(R"(["zz"])", "null",
                     R"({"error": {"type": "KeyError", "message": "'zz'"}})") ==
        "passed");
}

TEST_CASE("names that overlap deviate: an axis shards one dimension") {
  CHECK(auto_outcome(R"([["fsdp", "tp"], "tp"])", "1",
                     R"({"expected": [["fsdp", "tp"], "tp"]})") == "deviates");
}

}  // namespace
}  // namespace shardplan::conformance
