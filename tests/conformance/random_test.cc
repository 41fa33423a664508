// SPDX-License-Identifier: Apache-2.0

#include "tests/conformance/runner/random.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

#include <doctest/doctest.h>

#include "tests/conformance/cases.h"
#include "tests/support/messages.h"
#include "tests/support/source_dir.h"

namespace shardplan::conformance {
namespace {

constexpr const char* kInit = "jax.nn.initializers";

TEST_CASE("random numbers are compared exactly where they are bits") {
  CHECK(outcome("jax.random.PRNGKey", R"({"seed": -1})",
                R"({"expected": [0, 4294967295]})") == "passed");
  CHECK(outcome("jax.random.PRNGKey", R"({"seed": -1})",
                R"({"expected": [0, 4294967294]})") != "passed");
  CHECK(outcome("jax.random.uniform",
                R"({"key": {"seed": 0}, "shape": [1], "minval": 2,
                    "maxval": 2})",
                R"({"expected": [1073741824]})") == "passed");
}

TEST_CASE("an initialiser that needs fans refuses a vector, as JAX does") {
  const char* error = R"({"error": {"type": "ValueError", "message":
      "Can't compute input and output sizes"}})";
  const char* of_vector =
      R"({"init": "lecun_normal", "key": {"seed": 0}, "shape": [6]})";
  CHECK(outcome(kInit, of_vector, error) == "passed");
  CHECK(outcome(kInit, of_vector, R"({"expected": [0]})") != "passed");
  CHECK(outcome(kInit, R"({"init": "ones", "key": {"seed": 0}, "shape": [1]})",
                error) != "passed");
}

// Floats of one sign in the order of their bits.
int64_t ordered(double x) {
  const auto bits = std::bit_cast<int32_t>(static_cast<float>(x));
  return bits < 0 ? -static_cast<int64_t>(bits & 0x7FFFFFFF) : bits;
}

TEST_CASE("how far floats are from JAX's is reported") {
  std::ifstream file(source_dir() / "tests/vectors/jax_random.json");
  std::map<int64_t, int64_t> counts;
  for (const Json& test : Json::parse(file)) {
    const auto all = functions();
    const auto function = std::find_if(
        all.begin(), all.end(),
        [&](const Function& f) { return f.name == test.at("function"); });
    REQUIRE(function != all.end());
    if (function->agree == nullptr || !test.contains("expected")) continue;
    const Json ours = function->answer(test.at("inputs")).value;
    const Json& theirs = test.at("expected");
    REQUIRE(ours.size() == theirs.size());
    for (size_t i = 0; i < ours.size(); ++i) {
      ++counts[std::abs(ordered(ours[i].get<double>()) -
                        ordered(theirs[i].get<double>()))];
    }
  }
  std::string text = "units in the last place from JAX: number of floats:";
  int64_t total = 0;
  for (const auto& [units, count] : counts) {
    text += " " + std::to_string(units) + ": " + std::to_string(count) + ",";
    total += count;
  }
  text.back() = '.';
  CHECK(total > 10'000);
  MESSAGE(text);
}

}  // namespace

}  // namespace shardplan::conformance

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
