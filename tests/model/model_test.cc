// SPDX-License-Identifier: Apache-2.0
#include "model/model.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <doctest/doctest.h>

#include "base/parallel.h"
#include "model/units.h"
#include "tests/support/builders.h"
#include "tests/support/hf_config.h"
#include "tests/support/messages.h"
#include "tests/support/whole_model.h"

namespace shardplan {
namespace {

Model model_of(const testing::Json& config) {
  auto synthesis = testing::synthesize(config);
  Manifest manifest = synthesis->good();
  manifest.config = testing::parsed_config(config);
  return Model(std::move(manifest));
}

TEST_CASE("model: threads that ask at once find the same") {
  const Model model = model_of(testing::small_config("llama"));
  std::array<const void*, 8> forward{};
  std::array<const void*, 8> folding{};
  std::array<const void*, 8> units{};
  parallel_for(8, 4, [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    forward[at] = model.forward();
    units[at] = &model.units();
    folding[at] = &model.folding();
  });
  for (size_t i = 0; i < forward.size(); ++i) {
    CHECK(forward[i] == model.forward());
    CHECK(folding[i] == &model.folding());
    CHECK(units[i] == &model.units());
  }
  REQUIRE(model.forward() != nullptr);
  CHECK(model.forward()->architecture->name == "llama");
}

TEST_CASE("model: copies share what is found, and moving leaves it in place") {
  Model model = model_of(testing::small_config("qwen3"));
  const Model copy = model;
  const ForwardDefinition* const forward = copy.forward();
  CHECK(model.forward() == forward);
  const Model moved = std::move(model);
  CHECK(moved.forward() == forward);
  CHECK(&moved.folding() == &copy.folding());
}

TEST_CASE("model: units do not depend on how parameters were folded") {
  for (const char* type : {"llama", "mixtral", "deepseek_v3"}) {
    CAPTURE(type);
    const Model model = model_of(testing::small_config(type));
    const UnitFacts by_type = unit_facts(model.manifest, model.folding());
    std::vector<uint32_t> apart(model.manifest.size());
    for (uint32_t i = 0; i < apart.size(); ++i) apart[i] = i;
    const UnitFacts& units = model.units(fold(apart, model.manifest));
    CHECK(units.facts.heads == by_type.facts.heads);
    CHECK(units.facts.kv_heads == by_type.facts.kv_heads);
    CHECK(units.facts.head_dim == by_type.facts.head_dim);
    CHECK(units.why == by_type.why);
  }
}

TEST_CASE("model: why no forward pass is known is kept, as each reports it") {
  Manifest manifest;
  manifest.add("a.b", testing::type("f32[2]"), {});
  const Model model(std::move(manifest));
  CHECK(model.forward() == nullptr);
  REQUIRE(model.recognised().has_errors());
  for (int i = 0; i < 2; ++i) {
    Diagnostics diags;
    model.report_recognised(diags);
    CHECK(testing::messages(diags) == testing::messages(model.recognised()));
  }
}

TEST_CASE("model: notes of recognising are reported as is asked") {
  testing::Json config = testing::small_config("llama");
  auto synthesis = testing::synthesize(config);
  Manifest manifest = synthesis->good();
  manifest.facts.from = FactsFrom::Manifest;
  manifest.config = nullptr;
  const Model model(std::move(manifest));
  REQUIRE(model.forward() != nullptr);
  Diagnostics plain;
  model.report_recognised(plain);
  REQUIRE(plain.all().size() == 1);
  CHECK(plain.all().front().severity == Severity::Note);
  Diagnostics denied;
  denied.set_severity(Code::MissingFacts, Severity::Error);
  model.report_recognised(denied);
  CHECK(denied.all().front().severity == Severity::Error);
  CHECK(denied.all().front().facts == plain.all().front().facts);
  Diagnostics allowed;
  allowed.set_severity(Code::MissingFacts, Severity::Off);
  model.report_recognised(allowed);
  CHECK(allowed.all().empty());
  CHECK(allowed.allowed() == 1);
}

}  // namespace
}  // namespace shardplan
