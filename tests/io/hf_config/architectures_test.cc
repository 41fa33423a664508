// SPDX-License-Identifier: Apache-2.0
// Every architecture against what `save_pretrained` of transformers wrote
// (tests/data/architectures.jsonl).
#include <fstream>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "tests/support/hf_config.h"

namespace shardplan {
namespace {

using testing::Json;

TEST_CASE("architectures: names and shapes are those that were saved") {
  std::ifstream stream(testing::data_path("architectures.jsonl"));
  REQUIRE(stream);
  std::set<std::string> types;
  size_t agree = 0;
  size_t refused = 0;
  for (std::string line; std::getline(stream, line);) {
    const Json row = Json::parse(line);
    const Json& config = row.at("config");
    CAPTURE(row.at("case").get<std::string>());
    CAPTURE(config.at("model_type").get<std::string>());
    const auto result = testing::synthesize(config);
    if (row.contains("refused")) {
      // Refused for a reason, until it is described.
      CHECK_FALSE(result->manifest);
      CHECK(result->problem().starts_with("SP0"));
      ++refused;
      continue;
    }
    CAPTURE(result->problem());
    REQUIRE(result->manifest);
    CHECK(testing::starred_tensors(*result->manifest) ==
          testing::starred_tensors(row.at("tensors")));
    types.insert(config.at("model_type").get<std::string>());
    ++agree;
  }
  CHECK(agree > 1000);
  CHECK(refused < 120);
  CHECK(types.size() > 100);
}

}  // namespace
}  // namespace shardplan
