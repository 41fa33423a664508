// SPDX-License-Identifier: Apache-2.0
#include "io/orbax_shapes.h"

#include <algorithm>
#include <memory>

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "tests/support/builders.h"

namespace shardplan {
namespace {

RecordedSharding recorded(const std::string& mesh, const std::string& spec) {
  RecordedSharding sharding;
  const Mesh parsed = testing::mesh(mesh);
  for (const Axis& axis : parsed.axes()) {
    sharding.mesh.push_back({axis.name, axis.size, {}, {}, {}});
  }
  sharding.spec = testing::spec(spec);
  return sharding;
}

std::string shapes(const Shape& written, const std::string& mesh,
                   const std::string& spec) {
  const auto counts = shard_counts(recorded(mesh, spec), written.size());
  if (!counts) return "none";
  std::string text;
  for (const Shape& shape : possible_shapes(written, *counts)) {
    text += shape_text(shape);
  }
  return text;
}

// Recorded from Orbax 0.12 on eight devices.
TEST_CASE("the shape that Orbax has cut is among the possible ones") {
  CHECK(shapes({8, 32}, "data=2,fsdp=4", "(data, fsdp), None") == "[64, 32]");
  CHECK(shapes({8, 32}, "data=2,fsdp=4", "fsdp, None") == "[64, 32][32, 32]");
  CHECK(shapes({8, 32}, "data=2,fsdp=4", "") == "[64, 32][8, 32]");
  CHECK(shapes({512, 1024}, "data=2,fsdp=4", "None, fsdp") ==
        "[1024, 4096][512, 4096]");
  // Six rows are not shared by eight replicas: one wrote them all.
  CHECK(shapes({6}, "data=2,fsdp=4", "") == "[48][6]");
  CHECK(shapes({}, "data=2,fsdp=4", "") == "[]");
  CHECK(shapes({0, 8}, "data=2,fsdp=4", "") == "[0, 8]");
}

TEST_CASE("what cannot be is none") {
  CHECK(shapes({8}, "tp=2", "tp, tp, tp") == "none");
  CHECK(shapes({INT64_MAX}, "tp=2", "tp").empty());
}

TEST_CASE("sizes of other arrays tell between possible shapes") {
  const std::vector<Shape> shapes = {{48}, {6}};
  CHECK(likeliest(shapes, {}) == Shape{48});
  CHECK(likeliest(shapes, {6, 7}) == Shape{6});
  CHECK(likeliest(shapes, {6, 48}) == Shape{48});
}

TEST_CASE("what replicas could have shared was not written by one alone") {
  const auto shared = [](const Shape& written) {
    std::string text;
    const ShardCounts counts{Shape(written.size(), 1), 8};
    for (const Shape& shape : shared_shapes(written, counts)) {
      text += shape_text(shape);
    }
    return text;
  };
  CHECK(shared({6}) == "[48][6]");
  CHECK(shared({3, 96}) == "[24, 96][3, 768]");
  CHECK(shared({3, 5}) == "[24, 5][3, 40][3, 5]");
  CHECK(is_open({6}, {{1}, 8}));
  CHECK_FALSE(is_open({16}, {{1}, 8}));
  CHECK_FALSE(is_open({6}, {{1}, 1}));
  CHECK_FALSE(is_open({}, {{}, 8}));
}

TEST_CASE("the shape with most support is taken, if it is one") {
  const std::vector<Shape> shapes = {{48, 5}, {6, 5}};
  const auto support = [](int64_t size) { return size == 6 ? 2 : 1; };
  CHECK(best_supported(shapes, support) == Shape{6, 5});
  CHECK_FALSE(best_supported(shapes, [](int64_t) { return 1; }).has_value());
  CHECK_FALSE(best_supported({}, support).has_value());
}

// replica_slices.py, calculate_replica_parallel_axis_and_local_shape.
TEST_CASE("whatever Orbax cuts, the whole shape is possible") {
  rc::check([] {
    const auto factor = [] { return *rc::gen::inRange<int64_t>(1, 9); };
    const int64_t replicas = factor();
    ShardCounts counts{{}, replicas};
    Shape whole;
    Shape written;
    for (int i = *rc::gen::inRange(0, 4); i > 0; --i) {
      counts.per_dim.push_back(factor());
      written.push_back(factor() * factor());
      whole.push_back(written.back() * counts.per_dim.back());
    }
    const auto cut =
        std::find_if(written.begin(), written.end(),
                     [&](int64_t size) { return size % replicas == 0; });
    if (cut != written.end()) *cut /= replicas;
    const auto possible = possible_shapes(written, counts);
    RC_ASSERT(std::count(possible.begin(), possible.end(), whole) == 1);
  });
}

TEST_CASE("zarr's own metadata tells shape and dtype") {
  const auto type = [](const std::string& text) -> std::string {
    const auto found = zarr_type(std::make_shared<SourceFile>(".zarray", text));
    return found ? type_text(*found) : "none";
  };
  CHECK(type(R"({"shape": [4, 8], "dtype": "bfloat16", "zarr_format": 2})") ==
        "bf16[4, 8]");
  CHECK(type(R"({"shape": [], "dtype": "<f4"})") == "f32[]");
  CHECK(type(R"({"shape": [2], "dtype": "|b1"})") == "bool[2]");
  CHECK(type(R"({"shape": [2], "dtype": "<f8"})") == "f64[2]");
  CHECK(type(R"({"shape": [2], "data_type": "int8", "node_type": "array"})") ==
        "i8[2]");
  CHECK(type(R"({"shape": [2], "dtype": "<U3"})") == "none");
  CHECK(type(R"({"shape": [-2], "dtype": "<f4"})") == "none");
  CHECK(type(R"({"shape": [2]})") == "none");
  CHECK(type("{") == "none");
}

}  // namespace
}  // namespace shardplan
