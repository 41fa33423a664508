// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include "tests/support/builders.h"
#include "tests/support/generators.h"
#include "tests/support/memory_host.h"
#include "tests/support/property.h"

namespace shardplan::testing {
namespace {

TEST_CASE("paths in memory are normalised") {
  MemoryHost host;
  const struct {
    const char* path;
    const char* expected;
  } rows[] = {
      {"a/b", "a/b"},   {"./a//b/", "a/b"},
      {"a/../b", "b"},  {".", ""},
      {"/project", ""}, {"/project/a", "a"},
      {"../x", "/x"},   {"/projects/a", "/projects/a"},
      {"../..", "/"},   {"../project/a", "a"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.path);
    CHECK(host.normal(row.path) == row.expected);
  }
}

TEST_CASE("a memory host keeps files only once they are committed") {
  MemoryHost host;
  std::string why;
  host.create_file("gone", why)->write("text");
  const auto kept = host.create_file("kept", why);
  CHECK(kept->write("text"));
  CHECK(kept->commit());
  CHECK(host.files.size() == 1);
  CHECK(host.files["kept"] == "text");
  host.file_capacity = 3;
  CHECK_FALSE(host.create_file("full", why)->write("text"));
}

TEST_CASE("a memory host lists parents of its files") {
  MemoryHost host;
  host.files["a/b/c"] = "";
  host.files["a/d"] = "";
  host.files["a.txt"] = "";
  CHECK(host.list_directory("a") == std::vector<std::string>{"b", "d"});
  CHECK(host.list_directory("") == std::vector<std::string>{"a", "a.txt"});
  CHECK(host.file_info("a/b")->directory);
  CHECK_FALSE(host.file_info("a/c").has_value());
}

TEST_CASE("builders read the short forms") {
  CHECK(mesh("fsdp=4,tp=2").devices() == 8);
  CHECK(spec("").dims.empty());
  CHECK(spec("None").dims == std::vector<AxisNames>{{}});
  CHECK(spec("(fsdp, sp), None, tp").dims ==
        std::vector<AxisNames>{{"fsdp", "sp"}, {}, {"tp"}});
  CHECK(type("bf16[2, 3]") == TensorType{DType::BF16, {2, 3}});
  CHECK(type("f32[]").shape.empty());
  CHECK_THROWS(mesh("fsdp=0"));
  CHECK_THROWS(type("bf17[2]"));
  CHECK(manifest({{"a", "f32[2]"}, {"b", "i8[3]"}}).total_bytes() == 11);
}

TEST_CASE("built rules point into their text") {
  const RuleSet set = rules({{"a.*", ""}, {"b", "(fsdp, sp), None"}}, {"sp"});
  CHECK(set.rules[1].where.text() == "b");
  CHECK(set.rules[1].spec_where.text() == "(fsdp, sp), None");
  CHECK(set.rules[1].dim_where[1].text() == "None");
  CHECK(set.rules[0].spec_where.text().empty());
}

TEST_CASE("generated specs name each axis of the mesh at most once") {
  CHECK(holds("legal_spec is legal", [] {
    const Mesh mesh = draw_mesh();
    const PartitionSpec spec = draw_legal_spec(mesh, 3);
    ENSURE(spec.dims.size() <= 3u);
    std::vector<std::string> used;
    for (const AxisNames& names : spec.dims) {
      for (const AxisName& name : names) {
        ENSURE(mesh.find(name).has_value());
        used.push_back(name);
      }
    }
    std::sort(used.begin(), used.end());
    ENSURE(std::adjacent_find(used.begin(), used.end()) == used.end());
  }));
}

TEST_CASE("generated manifests are sound") {
  CHECK(holds("names are unique, totals add up", [] {
    const Manifest manifest = draw_manifest();
    ENSURE(!manifest.find_duplicate().has_value());
    int64_t bytes = 0;
    for (size_t i = 0; i < manifest.size(); ++i) {
      bytes += manifest.type(i).bytes();
    }
    ENSURE(bytes == manifest.total_bytes());
  }));
}

}  // namespace
}  // namespace shardplan::testing
