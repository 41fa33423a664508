// SPDX-License-Identifier: Apache-2.0
#include "io/hf_config/samples.h"

#include <doctest/doctest.h>

#include "io/hf_config/model_type.h"

namespace shardplan {
namespace {

TEST_CASE("every family has a small model with layers") {
  const auto samples = family_samples();
  REQUIRE(samples.size() == hf_model_types().size());
  for (size_t i = 0; i < samples.size(); ++i) {
    CAPTURE(samples[i].title);
    CHECK(samples[i].title == hf_model_types()[i].model_type);
    CHECK(samples[i].size() > 10);
    CHECK(samples[i].total_elements() < 1'000'000);
  }
}

}  // namespace
}  // namespace shardplan
