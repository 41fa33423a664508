// SPDX-License-Identifier: Apache-2.0
#include "core/slices.h"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "tests/support/generators.h"

namespace shardplan {
namespace {

using Sizes = std::vector<int64_t>;

std::vector<AxisRequest> requests(const Sizes& sizes) {
  std::vector<AxisRequest> axes;
  for (size_t i = 0; i < sizes.size(); ++i) {
    axes.push_back({testing::gen::kAxisNames[i], sizes[i], {}, {}, {}});
  }
  return axes;
}

struct Case {
  Sizes ici;
  Sizes dcn;
  std::optional<int64_t> devices;
  std::optional<int64_t> slices;
};

std::optional<SlicedMesh> made(const Case& c, Diagnostics& diags) {
  return make_sliced_mesh(requests(c.ici), requests(c.dcn), c.devices, c.slices,
                          {}, diags);
}

TEST_CASE("sizes within slices and over them multiply, and -1 takes the rest") {
  const struct {
    Case given;
    std::string mesh;
    std::string slices;  // "": none
  } rows[] = {
      {{{4, 2}, {}, {}, {}}, "dp=4,fsdp=2", ""},
      {{{4, 2}, {2, 1}, {}, {}}, "dp=8,fsdp=2", "2 slices (dp crosses 2)"},
      {{{-1, 2}, {2, 1}, 32, {}}, "dp=16,fsdp=2", "2 slices (dp crosses 2)"},
      {{{4, 2}, {-1, 1}, {}, 3}, "dp=12,fsdp=2", "3 slices (dp crosses 3)"},
      {{{1, -1}, {-1, 2}, 64, 8},
       "dp=4,fsdp=16",
       "8 slices (dp crosses 4, fsdp crosses 2)"},
      // MaxText's own default: one slice unless it is told otherwise.
      {{{1, 8}, {-1, 1}, {}, {}}, "dp=1,fsdp=8", ""},
      {{{1, 8}, {1, 1}, {}, 1}, "dp=1,fsdp=8", "1 slice"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.mesh);
    Diagnostics diags;
    const auto result = made(row.given, diags);
    CHECK(diags.all().empty());
    REQUIRE(result);
    CHECK(mesh_text(result->mesh) == row.mesh);
    CHECK((result->slices ? slices_text(result->mesh, *result->slices) : "") ==
          row.slices);
  }
}

TEST_CASE("without sizes over slices the first axis that N divides is cut") {
  const struct {
    Sizes sizes;
    int64_t slices;
    Sizes crossed;
  } rows[] = {{{4, 2}, 2, {2, 1}},
              {{3, 2}, 2, {1, 2}},
              {{2, 8}, 4, {1, 4}},
              {{2, 8}, 1, {1, 1}}};
  for (const auto& row : rows) {
    Diagnostics diags;
    const auto result = made({row.sizes, {}, {}, row.slices}, diags);
    REQUIRE(result);
    CHECK(result->mesh.axes()[1].size == row.sizes[1]);
    REQUIRE(result->slices);
    CHECK(result->slices->crossed == row.crossed);
  }
}

TEST_CASE("what cannot be divided is told with its numbers") {
  const struct {
    Case given;
    Code code;
    const char* message;
    const char* fact;
  } rows[] = {
      {{{4, 2}, {}, {}, 3},
       Code::InvalidMesh,
       "no axis of the mesh can cross 3 slices",
       "the mesh has dp=4,fsdp=2, and the first axis that 3 divides would be "
       "cut"},
      {{{4, 2}, {2, -1}, {}, 3},
       Code::InvalidMesh,
       "the axes do not cross 3 slices",
       "without `fsdp` they cross 2; 3 mod 2 = 1"},
      {{{4, 2}, {2, 1}, {}, 4},
       Code::InvalidMesh,
       "the axes do not cross 4 slices",
       "they cross 2"},
      {{{-1, 2}, {2, 1}, 30, {}},
       Code::InvalidMesh,
       "no size of axis `dp` gives 30 devices in 2 slices",
       "the other axes have 2 devices in each of 2 slices; 30 mod 4 = 2"},
      {{{-1, 2}, {2, 1}, {}, {}},
       Code::InvalidMesh,
       "size -1 of axis `dp` needs the number of devices",
       nullptr},
      {{{2, 2}, {-1, -1}, {}, 2},
       Code::InvalidMesh,
       "only one axis may have size -1 over slices",
       nullptr},
      {{{-1, -1}, {2, 1}, 8, {}},
       Code::InvalidMesh,
       "only one axis may have size -1 within a slice",
       nullptr},
      {{{2, 2}, {0, 1}, {}, 2},
       Code::InvalidMesh,
       "axis `dp` has size 0 over slices",
       nullptr},
      {{{int64_t{1} << 39, 1}, {2, 2}, {}, {}},
       Code::InvalidMesh,
       "the mesh has too many devices",
       nullptr},
      {{{4, 2}, {2, 1}, 8, {}},
       Code::DeviceCountMismatch,
       "the mesh has 16 devices, not the 8 asked for",
       nullptr},
  };
  for (const auto& row : rows) {
    CAPTURE(row.message);
    Diagnostics diags;
    const auto result = made(row.given, diags);
    CHECK(result.has_value() == (row.code == Code::DeviceCountMismatch));
    REQUIRE(diags.all().size() == 1);
    const Diagnostic& problem = diags.all()[0];
    CHECK(problem.code == row.code);
    CHECK(problem.message == row.message);
    if (row.fact != nullptr) CHECK(problem.facts.at(0) == row.fact);
  }
}

TEST_CASE("slices are equal parts of the mesh") {
  CHECK(rc::check("devices = slices x devices of a slice", [] {
    const auto size = rc::gen::inRange<int64_t>(1, 6);
    const Sizes ici = *rc::gen::container<Sizes>(3, size);
    const Sizes dcn = *rc::gen::container<Sizes>(3, size);
    Diagnostics diags;
    const auto result = made({ici, dcn, {}, {}}, diags);
    RC_ASSERT(result.has_value());
    int64_t within = 1;
    for (size_t i = 0; i < 3; ++i) {
      within *= ici[i];
      RC_ASSERT(result->mesh.axes()[i].size == ici[i] * dcn[i]);
    }
    const int64_t slices = result->slices ? result->slices->count() : 1;
    RC_ASSERT(result->mesh.devices() == within * slices);
  }));
}

}  // namespace
}  // namespace shardplan
