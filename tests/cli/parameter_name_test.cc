// SPDX-License-Identifier: Apache-2.0
#include "cli/parameter_name.h"

#include <doctest/doctest.h>

#include "tests/support/builders.h"

namespace shardplan::cli {
namespace {

const Manifest kModel = testing::manifest({{"embed.w", "f32[4]"},
                                           {"layers.0.q", "f32[4]"},
                                           {"layers.1.q", "f32[4]"},
                                           {"head", "f32[4]"},
                                           {"head.bias", "f32[4]"}});

std::optional<size_t> find(const std::string& name, Diagnostics& diags) {
  const std::vector<uint32_t> kinds(kModel.size(), 0);
  return find_parameter(kModel,
                        fold(kinds, [](size_t i) { return kModel.name(i); }),
                        name, diags);
}

TEST_CASE("a parameter is named, or found by a pattern that finds one") {
  const struct {
    const char* name;
    size_t parameter;
  } rows[] = {{"layers.1.q", 2}, {"head", 3}, {"^emb", 0}, {R"(\.1\.)", 2}};
  for (const auto& row : rows) {
    CAPTURE(row.name);
    Diagnostics diags;
    CHECK(find(row.name, diags) == row.parameter);
    CHECK(diags.all().empty());
  }
}

TEST_CASE("what is no parameter gets a name that is near") {
  const struct {
    const char* name;
    const char* fact;
    const char* help;
  } rows[] = {
      {"layers", "as a pattern it is found in 2 names",
       "a parameter of that name's kind exists: `layers.0.q`"},
      {"haed", nullptr, "a parameter with a similar name exists: `head`"},
      {"q(", nullptr, nullptr}};
  for (const auto& row : rows) {
    CAPTURE(row.name);
    Diagnostics diags;
    CHECK_FALSE(find(row.name, diags));
    REQUIRE(diags.all().size() == 1);
    const Diagnostic& problem = diags.all()[0];
    CHECK(problem.code == Code::Usage);
    CHECK(problem.facts.size() == (row.fact != nullptr ? 1 : 0));
    if (row.fact != nullptr) CHECK(problem.facts.at(0) == row.fact);
    CHECK(problem.help.size() == (row.help != nullptr ? 1 : 0));
    if (row.help != nullptr) CHECK(problem.help.at(0) == row.help);
  }
}

}  // namespace
}  // namespace shardplan::cli
