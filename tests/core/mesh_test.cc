// SPDX-License-Identifier: Apache-2.0
#include "core/mesh.h"

#include <optional>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "tests/support/builders.h"
#include "tests/support/generators.h"
#include "tests/support/messages.h"

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

TEST_CASE("what is no mesh is SP007 at its place") {
  struct Row {
    const char* text;
    const char* message;
  };
  for (const Row& row : std::initializer_list<Row>{
           {"", "SP007 --mesh:1:1 an axis is missing here"},
           {"tp=2,", "SP007 --mesh:1:6 an axis is missing here"},
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
        "tp=4; SP205 --mesh:1:1 the mesh has 4 devices, not the 8 asked for");
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
  CHECK(rc::check([] {
    const Mesh mesh = *testing::gen::mesh();
    std::vector<int64_t> before;
    for (int64_t device = 0; device < mesh.devices(); ++device) {
      const std::vector<int64_t> at = mesh.coordinates(device);
      int64_t index = 0;
      for (size_t i = 0; i < at.size(); ++i) {
        RC_ASSERT(at[i] >= 0 && at[i] < mesh.axes()[i].size);
        index = index * mesh.axes()[i].size + at[i];
      }
      RC_ASSERT(index == device);
      RC_ASSERT(before < at);
      before = at;
    }
  }));
}

TEST_CASE("a printed mesh reads as itself") {
  CHECK(rc::check([] {
    const Mesh mesh = *testing::gen::mesh();
    RC_ASSERT(testing::mesh(mesh_text(mesh)) == mesh);
  }));
}

}  // namespace
}  // namespace shardplan
