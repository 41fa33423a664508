// SPDX-License-Identifier: Apache-2.0
#include "core/mesh.h"

#include <optional>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/builders.h"
#include "tests/support/generators.h"
#include "tests/support/messages.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

using testing::messages;

// The mesh as text, or the messages.
std::string read(const std::string& text,
                 std::optional<int64_t> devices = std::nullopt) {
  Diagnostics diags;
  const SourceFile source("--mesh", text);
  const auto axes = parse_mesh_text(source, diags);
  if (!axes) return messages(diags);
  const auto mesh = make_mesh(*axes, devices, {&source, 0, text.size()}, diags);
  if (!mesh) return messages(diags);
  return mesh_text(*mesh) + (diags.all().empty() ? "" : "; ") + messages(diags);
}

TEST_CASE("meshes are read with either sign, and -1 is the rest") {
  CHECK(read("fsdp=8,tp=4") == "fsdp=8,tp=4");
  CHECK(read("fsdp:8,tp:4") == "fsdp=8,tp=4");
  CHECK(read("a.b-c=1") == "a.b-c=1");
  CHECK(read("fsdp=-1,tp=4", 32) == "fsdp=8,tp=4");
  CHECK(read("fsdp=-1", 1) == "fsdp=1");
  CHECK(read("x=1099511627776") == "x=1099511627776");
  CHECK(read("x=-1", int64_t{1} << 40) == "x=1099511627776");
}

TEST_CASE("what is not a mesh is SP007 at its place") {
  struct Row {
    const char* text;
    const char* message;
  };
  for (const Row& row : std::initializer_list<Row>{
           {"", "SP007 --mesh:1:1 expected an axis here"},
           {"tp=2,", "SP007 --mesh:1:6 expected an axis here"},
           {"tp", "SP007 --mesh:1:1 axis `tp` has no size"},
           {"2=tp", "SP007 --mesh:1:1 `2` is not an axis name"},
           {"tp =2", "SP007 --mesh:1:1 `tp ` is not an axis name"},
           {"tp=2, sp=2", "SP007 --mesh:1:6 ` sp` is not an axis name"},
           {"tp=2x", "SP007 --mesh:1:4 `2x` is not the size of an axis"},
           {"tp=+2", "SP007 --mesh:1:4 `+2` is not the size of an axis"},
           {"tp=9223372036854775808",
            "SP007 --mesh:1:4 `9223372036854775808` is not the size of an "
            "axis"},
           {"tp=0", "SP007 --mesh:1:4 axis `tp` has size 0"},
           {"tp=-2", "SP007 --mesh:1:4 axis `tp` has size -2"},
           {"tp=2,tp=2", "SP007 --mesh:1:6 axis `tp` appears twice"},
           {"a=-1,b=-1", "SP007 --mesh:1:8 only one axis may have size -1"},
           {"a=-1",
            "SP007 --mesh:1:3 size -1 of axis `a` needs the number of devices"},
           {"a=1099511627777",
            "SP007 --mesh:1:1 the mesh has too many devices"},
           {"a=4294967296,b=4294967296",
            "SP007 --mesh:1:1 the mesh has too many devices"}}) {
    CAPTURE(row.text);
    CHECK(read(row.text) == row.message);
  }
  CHECK(read("a=-1,b=3", 8) ==
        "SP007 --mesh:1:3 no size of axis `a` gives 8 devices");
  CHECK(read("a=-1,b=3", 0) ==
        "SP007 --mesh:1:3 no size of axis `a` gives 0 devices");
  CHECK(read("a=-1,b=3", (int64_t{1} << 41) * 3) ==
        "SP007 --mesh:1:1 the mesh has too many devices");
}

TEST_CASE("a full mesh of another size than --devices is SP205") {
  CHECK(read("tp=4", 8) ==
        "tp=4; SP205 --mesh:1:1 the mesh has 4 devices, not the requested 8");
  CHECK(read("tp=4", 4) == "tp=4");
}

TEST_CASE("an axis that the mesh lacks has size 1") {
  const Mesh mesh = testing::mesh("fsdp=4,tp=2");
  CHECK(mesh.devices() == 8);
  CHECK(mesh.find("tp") == 1);
  CHECK_FALSE(mesh.find("sp").has_value());
  CHECK(mesh.size_of("sp") == 1);
  CHECK(mesh.coordinates(3) == std::vector<int64_t>{1, 1});
}

TEST_CASE("devices and coordinates are a bijection, row-major") {
  CHECK(holds([] {
    const Mesh mesh = testing::draw_mesh();
    std::vector<int64_t> before;
    for (int64_t device = 0; device < mesh.devices(); ++device) {
      const std::vector<int64_t> at = mesh.coordinates(device);
      int64_t index = 0;
      for (size_t i = 0; i < at.size(); ++i) {
        ENSURE(at[i] >= 0 && at[i] < mesh.axes()[i].size);
        index = index * mesh.axes()[i].size + at[i];
      }
      ENSURE(index == device);
      ENSURE(before < at);
      before = at;
    }
  }));
}

TEST_CASE("a printed mesh reads as itself") {
  CHECK(holds([] {
    const Mesh mesh = testing::draw_mesh();
    ENSURE(testing::mesh(mesh_text(mesh)) == mesh);
  }));
}

// "dp=2,tp=-1", or the messages.
std::string requests_text(const std::optional<std::vector<AxisRequest>>& axes,
                          const Diagnostics& diags) {
  if (!axes) return testing::messages(diags);
  std::string text;
  for (const AxisRequest& axis : *axes) {
    text +=
        (text.empty() ? "" : ",") + axis.name + "=" + std::to_string(axis.size);
  }
  return text;
}

std::string read_dims(const std::string& text,
                      const AxisNames& names = {"dp", "tp"}) {
  Diagnostics diags;
  const SourceFile source("--mesh", text);
  return requests_text(parse_mesh_dims(source, names, diags), diags);
}

TEST_CASE("sizes belong to the names in order, or by name in the text's") {
  CHECK(read_dims("2,4") == "dp=2,tp=4");
  CHECK(read_dims("dp:2,tp:4") == "dp=2,tp=4");
  CHECK(read_dims("tp:4,dp:2") == "tp=4,dp=2");
  CHECK(read_dims(" 2 ,\t-1") == "dp=2,tp=-1");
  CHECK(read_dims("dp: 2,tp:-1 ") == "dp=2,tp=-1");
  CHECK(read_dims("+2,1_000") == "dp=2,tp=1000");
}

TEST_CASE("any negative size is the rest") {
  CHECK(read_dims("-7,2") == "dp=-1,tp=2");
  CHECK(read_dims("dp:-7,tp:2") == "dp=-1,tp=2");
  Diagnostics diags;
  const int64_t dims[] = {-3, 1};
  CHECK(requests_text(axes_of_dims(dims, {"a", "b"}, {}, diags), diags) ==
        "a=-1,b=1");
}

TEST_CASE("what is not a mesh is SP007 at its place") {
  struct Row {
    const char* text;
    const char* message;
  };
  for (const Row& row : std::initializer_list<Row>{
           {"2", "SP007 --mesh:1:1 there are 1 sizes for 2 axes"},
           {"2,4,1", "SP007 --mesh:1:1 there are 3 sizes for 2 axes"},
           {"", "SP007 --mesh:1:1 `` is not the size of an axis"},
           {"2,x", "SP007 --mesh:1:3 `x` is not the size of an axis"},
           {"2,4-", "SP007 --mesh:1:3 `4-` is not the size of an axis"},
           {"2,1__0", "SP007 --mesh:1:3 `1__0` is not the size of an axis"},
           {"2,_1", "SP007 --mesh:1:3 `_1` is not the size of an axis"},
           {"2,1_", "SP007 --mesh:1:3 `1_` is not the size of an axis"},
           {"2,-", "SP007 --mesh:1:3 `-` is not the size of an axis"},
           {"2,9223372036854775808",
            "SP007 --mesh:1:3 `9223372036854775808` is not the size of an "
            "axis"},
           {"dp:2,xx:4", "SP007 --mesh:1:6 `xx` is not one of the axes"},
           {" dp:2,tp:4", "SP007 --mesh:1:1 ` dp` is not one of the axes"},
           {"dp:2,4", "SP007 --mesh:1:6 `4` is not one of the axes"},
           {"dp:2,tp:3:4", "SP007 --mesh:1:9 `3:4` is not the size of an axis"},
           {"dp:2,dp:4", "SP007 --mesh:1:1 axis `tp` has no size"},
           {"dp:2,dp:2,tp:2", "SP007 --mesh:1:1 there are 3 sizes for 2 axes"},
       }) {
    CAPTURE(row.text);
    CHECK(read_dims(row.text) == row.message);
  }
}

TEST_CASE("any text is read or refused, and nothing else happens") {
  CHECK(holds([] {
    const auto text = draw_text("dpt:,-+_1 ");
    Diagnostics diags;
    const SourceFile source("--mesh", text);
    const auto axes = parse_mesh_dims(source, {"dp", "tp"}, diags);
    ENSURE(axes.has_value() != diags.has_errors());
    if (axes) ENSURE(axes->size() == 2U);
  }));
}

using Sizes = std::vector<int64_t>;

std::vector<AxisRequest> requests(const Sizes& sizes) {
  std::vector<AxisRequest> axes;
  for (size_t i = 0; i < sizes.size(); ++i) {
    axes.push_back({testing::kAxisNames[i], sizes[i], {}, {}, {}});
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

TEST_CASE("what cannot be divided is reported with its numbers") {
  const struct {
    Case given;
    Code code;
    const char* message;
    const char* fact;
  } rows[] = {
      {{{4, 2}, {}, {}, 3},
       Code::InvalidMesh,
       "no mesh axis can span 3 slices",
       "the mesh is dp=4,fsdp=2; the first axis divisible by 3 would span the "
       "slices"},
      {{{4, 2}, {2, -1}, {}, 3},
       Code::InvalidMesh,
       "the sizes over slices do not multiply to 3 slices",
       "without `fsdp` they multiply to 2; 3 mod 2 = 1"},
      {{{4, 2}, {2, 1}, {}, 4},
       Code::InvalidMesh,
       "the sizes over slices do not multiply to 4 slices",
       "they multiply to 2"},
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
       "the mesh has 16 devices, not the requested 8",
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
  CHECK(holds("devices = slices x devices of a slice", [] {
    const auto size = [] { return draw_in<int64_t>(1, 6); };
    const Sizes ici = {size(), size(), size()};
    const Sizes dcn = {size(), size(), size()};
    Diagnostics diags;
    const auto result = made({ici, dcn, {}, {}}, diags);
    ENSURE(result.has_value());
    int64_t within = 1;
    for (size_t i = 0; i < 3; ++i) {
      within *= ici[i];
      ENSURE(result->mesh.axes()[i].size == ici[i] * dcn[i]);
    }
    const int64_t slices = result->slices ? result->slices->count() : 1;
    ENSURE(result->mesh.devices() == within * slices);
  }));
}

}  // namespace

}  // namespace shardplan
