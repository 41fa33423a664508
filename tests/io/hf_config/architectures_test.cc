// SPDX-License-Identifier: Apache-2.0
// Every architecture against what `save_pretrained` of transformers wrote
// (tests/data/architectures.jsonl).
#include <fstream>
#include <map>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "core/fold.h"
#include "tests/support/hf_config.h"

namespace shardplan {
namespace {

using testing::Json;
using Folded = std::map<std::pair<std::string, Shape>, int64_t>;

// Every number in it is a `*`.
std::string without_digits(std::string_view name) {
  std::string folded;
  for (const char c : name) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit) folded += c;
    if (digit && !folded.ends_with('*')) folded += '*';
  }
  return folded;
}

Folded fold(const Manifest& manifest) {
  Folded counts;
  for (size_t i = 0; i < manifest.size(); ++i) {
    ++counts[{without_digits(manifest.name(i)), manifest.type(i).shape}];
  }
  for (const auto& buffer : manifest.buffers()) {
    ++counts[{without_digits(buffer.name), buffer.type.shape}];
  }
  return counts;
}

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
    Folded expected;
    for (const Json& tensor : row.at("tensors")) {
      expected[{tensor.at(0).get<std::string>(), tensor.at(1).get<Shape>()}] +=
          tensor.at(2).get<int64_t>();
    }
    CHECK(fold(*result->manifest) == expected);
    types.insert(config.at("model_type").get<std::string>());
    ++agree;
  }
  CHECK(agree > 1000);
  CHECK(refused < 120);
  CHECK(types.size() > 100);
}

}  // namespace
}  // namespace shardplan
