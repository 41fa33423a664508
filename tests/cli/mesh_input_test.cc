// SPDX-License-Identifier: Apache-2.0
#include "cli/mesh_input.h"

#include <memory>
#include <string>

#include <doctest/doctest.h>

namespace shardplan::cli {
namespace {

struct Given {
  const char* mesh;
  AxisNames axes;
  std::optional<int64_t> devices;
  std::optional<int64_t> slices;
};

std::optional<SlicedMesh> read(const Given& given, Diagnostics& diags) {
  Options options;
  options.axes = given.axes;
  options.slices = given.slices;
  return written_mesh(std::make_shared<SourceFile>("--mesh", given.mesh),
                      options, given.devices, diags);
}

TEST_CASE("sizes alone are named by --axes, in their order") {
  const struct {
    Given given;
    const char* mesh;
  } rows[] = {{{"2,4", {"dp", "tp"}, {}, {}}, "dp=2,tp=4"},
              {{" 2 , -1", {"dp", "tp"}, 8, {}}, "dp=2,tp=4"},
              {{"-1,4", {"dp", "tp"}, 8, {}}, "dp=2,tp=4"},
              {{"8", {"tp"}, {}, {}}, "tp=8"},
              // By name, the order of the text wins and --axes only declares.
              {{"tp:2,dp:4", {"dp", "tp"}, {}, {}}, "tp=2,dp=4"},
              {{"tp=2", {"dp", "tp"}, {}, {}}, "tp=2"}};
  for (const auto& row : rows) {
    CAPTURE(row.given.mesh);
    Diagnostics diags;
    const auto mesh = read(row.given, diags);
    CHECK(diags.all().empty());
    REQUIRE(mesh);
    CHECK(mesh_text(mesh->mesh) == row.mesh);
    CHECK_FALSE(mesh->slices);
  }
}

TEST_CASE("sizes and names that do not fit are both shown") {
  const struct {
    Given given;
    const char* message;
    std::vector<std::string> facts;
  } rows[] = {
      {{"2,4", {}, {}, {}},
       "the sizes have no names",
       {"there are 2 sizes: 2,4"}},
      {{"2,4", {"dp", "fsdp", "tp"}, {}, {}},
       "there are 2 sizes for 3 names",
       {"the sizes are 2,4", "`--axes` names `dp`, `fsdp` and `tp`"}},
      {{"2,x", {"dp", "tp"}, {}, {}}, "`x` is not the size of an axis", {}},
      {{"2,4,", {"dp", "tp"}, {}, {}},
       "there are 3 sizes for 2 names",
       {"the sizes are 2,4,", "`--axes` names `dp` and `tp`"}},
      {{"tp", {"tp"}, {}, {}}, "axis `tp` has no size", {}},
  };
  for (const auto& row : rows) {
    CAPTURE(row.given.mesh);
    Diagnostics diags;
    CHECK_FALSE(read(row.given, diags));
    REQUIRE(diags.all().size() == 1);
    CHECK(diags.all()[0].code == Code::InvalidMesh);
    CHECK(diags.all()[0].message == row.message);
    CHECK(diags.all()[0].facts == row.facts);
    REQUIRE_FALSE(diags.all()[0].labels.empty());
    CHECK(diags.all()[0].labels[0].where.file->name() == "--mesh");
  }
}

TEST_CASE("--slices cuts the first axis that it divides") {
  Diagnostics diags;
  const auto mesh = read({"dp=3,fsdp=8", {}, {}, 4}, diags);
  REQUIRE(mesh);
  CHECK(slices_text(mesh->mesh, *mesh->slices) == "4 slices (fsdp crosses 4)");
}

TEST_CASE("a mesh of rules has its sizes over slices") {
  RuleSet rules;
  rules.mesh = {{"data", 1, {}, {}, {}}, {"fsdp", -1, {}, {}, {}}};
  rules.dcn_mesh = {{"data", -1, {}, {}, {}}, {"fsdp", 1, {}, {}, {}}};
  Diagnostics diags;
  const auto mesh = mesh_of_rules(rules, 16, 2, diags);
  REQUIRE(mesh);
  CHECK(mesh_text(mesh->mesh) == "data=2,fsdp=8");
  CHECK(mesh->slices->crossed == std::vector<int64_t>{2, 1});
}

}  // namespace
}  // namespace shardplan::cli
