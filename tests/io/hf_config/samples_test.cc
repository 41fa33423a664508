// SPDX-License-Identifier: Apache-2.0
#include "io/hf_config/samples.h"

#include <doctest/doctest.h>

#include "model/architectures.h"

namespace shardplan {
namespace {

TEST_CASE("every class of an architecture has a small model with layers") {
  const auto samples = family_samples();
  size_t expected = 0;
  for (const std::string& name : architecture_names()) {
    const auto all = find_architecture(name);
    if (!all->model_types.empty()) expected += all->classes.size();
  }
  CHECK(samples.size() == expected);
  for (const Manifest& sample : samples) {
    CAPTURE(sample.title);
    CHECK_FALSE(sample.title.empty());
    CHECK(sample.size() > 10);
    CHECK(sample.total_elements() < 1'000'000);
  }
}

}  // namespace
}  // namespace shardplan
