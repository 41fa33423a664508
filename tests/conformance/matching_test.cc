// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "conformance/vector_case.h"

namespace shardplan::conformance {
namespace {

Answer matched(const char* rules, const char* min_size, bool strict = true) {
  return match_partition_rules(
      {{"rules", Json::parse(rules)},
       {"tree",
        {{"w", {{"$shape", {4, 4}}}}, {"s", {{"$shape", Json::array()}}}}},
       {"min_size", Json::parse(min_size)},
       {"strict", strict}});
}

TEST_CASE("the size limit is left out, a number, a fraction or the default") {
  const char* rules = R"([["w", ["tp", null, "x"]]])";
  const Json cut = Json::parse(R"([["s", []], ["w", ["tp", null]]])");
  const Json small = Json::parse(R"([["s", []], ["w", []]])");
  CHECK(matched(rules, R"("default")").value == cut);
  CHECK(matched(rules, "16").value == cut);
  CHECK(matched(rules, "16.5").value == small);
  CHECK(matched(rules, "null").value == small);
}

TEST_CASE("an unmatched leaf is refused by name, as eformer does") {
  const Json error = {{"type", "ValueError"},
                      {"message", "Partition rule not found for param: s"}};
  const Answer answer = matched(R"([["w", []]])", "0", false);
  CHECK(is_same_match_error(answer, error));
  const Json other = {{"type", "ValueError"},
                      {"message", "Partition rule not found for param: w"}};
  CHECK_FALSE(is_same_match_error(answer, other));
}

TEST_CASE("broken patterns and missing specs are refused") {
  CHECK(matched(R"([["(", []]])", "0").refused == Code::UnsupportedPattern);
  CHECK(matched(R"([["w", null]])", "0").refused == Code::MalformedDocument);
}

}  // namespace
}  // namespace shardplan::conformance
