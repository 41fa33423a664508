// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

#include <doctest/doctest.h>

#include "tests/conformance/runner/vector_case.h"
#include "tests/support/source_dir.h"

namespace shardplan::conformance {
namespace {

// How many deviations apply to one rule over one leaf.
int64_t deviating(const char* pattern, const char* name, const Json& shape) {
  const Json inputs = {
      {"rules", Json::array({Json::array({pattern, Json::array()})})},
      {"tree", {{name, {{"$shape", shape}}}}}};
  const auto all = deviations();
  return std::count_if(all.begin(), all.end(), [&](const Deviation& deviation) {
    return deviation.function == "match_partition_rules" &&
           deviation.applies(inputs);
  });
}

TEST_CASE(
    "a deviation is recognised from the inputs alone, and not too readily") {
  CHECK(deviating("layers/\\d+/w$", "layers/0/w", {4}) == 0);
  CHECK(deviating("(?!a)w", "w", {4}) == 1);
  CHECK(deviating("a++b", "w", {4}) == 1);
  CHECK(deviating("(w", "w", {4}) == 1);
  CHECK(deviating("\\bw\\b", "w", {4}) == 0);
  CHECK(deviating("\\bw\\b", "größe", {4}) == 1);
  CHECK(deviating("w", "w", {int64_t{1} << 32, int64_t{1} << 32}) == 1);
}

TEST_CASE("every deviation has a reason and stands in docs/parity.md") {
  std::ifstream file(source_dir() / "docs/parity.md");
  const std::string page((std::istreambuf_iterator<char>(file)), {});
  for (const Deviation& deviation : deviations()) {
    CAPTURE(deviation.condition);
    CHECK_FALSE(deviation.reason.empty());
    // The page quotes the beginning of each condition.
    const std::string start(deviation.condition.substr(0, 7));
    CHECK(page.find(start) != std::string::npos);
  }
}

}  // namespace
}  // namespace shardplan::conformance
