// SPDX-License-Identifier: Apache-2.0
// Rotary positions against what transformers computed of the same configs
// (tests/data/rope.jsonl, record_rope.py).
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "model/rotary/rope.h"
#include "tests/support/hf_config.h"
#include "tests/support/messages.h"
#include "tests/support/op_samples.h"
#include "tests/support/whole_model.h"

namespace shardplan {
namespace {

using testing::Json;

// Of every position: heads in which the first of every pair is 1 and the second
// 0 become cosines and sines.
std::vector<double> turned(const Attributes& attributes, int64_t length,
                           int64_t head_dim, int64_t rotated) {
  const bool interleaved = attributes.contains("interleaved");
  std::vector<double> ones;
  for (int64_t i = 0; i < length * head_dim; ++i) {
    const int64_t at = i % head_dim;
    const bool first = interleaved ? at % 2 == 0 : at < rotated / 2;
    ones.push_back(first && at < rotated ? 1 : 0);
  }
  const Tensor x = make_tensor(Element::F64, {1, length, head_dim}, ones);
  return values_of(testing::run("rope", {x}, attributes, Arithmetic::F64));
}

double largest_difference(const Json& line, bool interleaved) {
  const Json& config = line["config"];
  CAPTURE(line.dump().substr(0, 500));
  Diagnostics diags;
  const auto document = testing::parsed_config(config);
  ConfigReader reader(document->root(), "", diags);
  const bool has_part = line["part"];
  const RopeConfig rope =
      read_rope(reader, line["kind"].get<std::string>(), has_part, diags);
  CAPTURE(testing::messages(diags));
  REQUIRE_FALSE(diags.has_errors());
  RopeUse use;
  use.theta = 10000;
  use.head_dim = line["head_dim"];
  // A GLM's class has 0.5.
  const double usual = config["model_type"] == "glm" ? 0.5 : 1;
  use.part = config.value("partial_rotary_factor", usual);
  use.interleaved = interleaved;
  use.length = line["length"];
  std::string why;
  const auto given = rope_attributes(rope, use, why);
  REQUIRE_MESSAGE(given, why);
  const Attributes attributes(given->begin(), given->end());
  const auto pairs = static_cast<int64_t>(line["cos"][0].size());
  const std::vector<double> values =
      turned(attributes, use.length, use.head_dim, 2 * pairs);
  double largest = 0;
  for (size_t i = 0; i < line["positions"].size(); ++i) {
    const auto position = line["positions"][i].get<int64_t>();
    for (int64_t pair = 0; pair < pairs; ++pair) {
      const auto n = static_cast<size_t>(pair);
      const int64_t row = position * use.head_dim;
      const int64_t first = row + (interleaved ? 2 * pair : pair);
      const int64_t second = first + (interleaved ? 1 : pairs);
      const auto at = [&](int64_t index) {
        return values[static_cast<size_t>(index)];
      };
      largest = std::max(largest,
                         std::abs(at(first) - line["cos"][i][n].get<double>()));
      largest = std::max(
          largest, std::abs(at(second) - line["sin"][i][n].get<double>()));
    }
  }
  return largest;
}

TEST_CASE("recorded rotary positions") {
  std::ifstream stream(testing::data_path("rope.jsonl"));
  std::string text;
  int count = 0;
  while (std::getline(stream, text)) {
    const Json line = Json::parse(text);
    CAPTURE(text.substr(0, 400));
    // float32 counts angles up to 99.
    CHECK(largest_difference(line, false) < 1e-5);
    CHECK(largest_difference(line, true) < 1e-5);
    ++count;
  }
  CHECK(count > 40);
}

RopeConfig rope_of(const Json& config) {
  Diagnostics diags;
  const auto document = testing::parsed_config(config);
  ConfigReader reader(document->root(), "", diags);
  const RopeConfig rope = read_rope(reader, "", true, diags);
  REQUIRE_FALSE(diags.has_errors());
  return rope;
}

TEST_CASE(
    "factors of longrope are as many as frequencies, unless sizes have "
    "shrunk") {
  const RopeConfig rope = rope_of({{"max_position_embeddings", 64},
                                   {"original_max_position_embeddings", 16},
                                   {"rope_scaling",
                                    {{"type", "longrope"},
                                     {"short_factor", {1, 2, 3}},
                                     {"long_factor", {2, 3, 4}}}}});
  RopeUse use;
  use.theta = 100;
  use.length = 8;
  std::string why;
  for (const int64_t head_dim : {4, 8}) {
    use.head_dim = head_dim;
    CHECK_FALSE(rope_attributes(rope, use, why));
    CHECK(why == "longrope has 3 factors for " + std::to_string(head_dim / 2) +
                     " frequencies");
  }
  use.head_dim = 4;
  use.is_small = true;
  const auto small = rope_attributes(rope, use, why);
  REQUIRE(small);
  for (const auto& [name, value] : *small) {
    if (name != "frequencies") continue;
    const auto& all = std::get<std::vector<double>>(value);
    REQUIRE(all.size() == 2);
    CHECK(all[0] == doctest::Approx(1));
    CHECK(all[1] == doctest::Approx(0.05));
  }
  use.head_dim = 8;
  CHECK_FALSE(rope_attributes(rope, use, why));
}

TEST_CASE("heads that cannot be rotated as the config says are refused") {
  const auto why_not = [](const Json& config, int64_t head_dim, double part) {
    RopeUse use;
    use.theta = 10000;
    use.head_dim = head_dim;
    use.part = part;
    use.length = 100;
    std::string why;
    CHECK_FALSE(rope_attributes(rope_of(config), use, why));
    return why;
  };
  const Json dynamic = {{"max_position_embeddings", 64},
                        {"rope_scaling", {{"type", "dynamic"}, {"factor", 2}}}};
  CHECK(why_not(dynamic, 2, 1) ==
        "rope scaling `dynamic` of 2 values has no finite frequencies");
  CHECK(why_not(Json::object(), 7, 1) ==
        "a head of 7 cannot be rotated: pairs need an even size");
  CHECK(why_not(Json::object(), 8, 0.1) == "no part of a head of 8 is rotated");
  const Json yarn = {{"max_position_embeddings", 64},
                     {"rope_scaling", {{"type", "yarn"}, {"factor", 2}}}};
  CHECK(why_not(yarn, 10, 0.5) ==
        "rope scaling `yarn` of 5 values, an odd number");
}

}  // namespace
}  // namespace shardplan
