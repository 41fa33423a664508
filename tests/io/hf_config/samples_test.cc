// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <string>

#include <doctest/doctest.h>

#include "base/shipped.h"
#include "io/formats.h"
#include "model/architectures.h"

namespace shardplan {
namespace {

TEST_CASE("architectures with rules have small models, one per class") {
  const auto samples = family_samples();
  CHECK(samples.front().title == "llama");
  std::map<std::string, int> models;
  for (const Manifest& sample : samples) {
    CAPTURE(sample.title);
    ++models[sample.title];
    CHECK(sample.size() > 10);
    CHECK(sample.total_elements() < 1'000'000);
  }
  for (const std::string& name : shipped_names("models")) {
    CAPTURE(name);
    CHECK(static_cast<size_t>(models[name]) ==
          find_architecture(name)->classes.size());
  }
  CHECK(models["gemma3_text"] > 0);
}

}  // namespace
}  // namespace shardplan
