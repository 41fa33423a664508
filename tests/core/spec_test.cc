// SPDX-License-Identifier: Apache-2.0
#include "core/spec.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include "core/plan.h"
#include "tests/support/builders.h"
#include "tests/support/generators.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

using testing::mesh;
using testing::spec;

std::vector<int64_t> rows_of(const Mesh& mesh, const AxisNames& axes, Cut cut,
                             int64_t size) {
  std::vector<int64_t> rows;
  for (int64_t device = 0; device < mesh.devices(); ++device) {
    const Slice slice =
        dimension_slice(mesh, axes, cut, size, mesh.coordinates(device));
    rows.push_back(slice.end - slice.begin);
  }
  return rows;
}

TEST_CASE("specs print as jax's, and the empty one differs from one null") {
  CHECK(spec_text(spec("")) == "P()");
  CHECK(spec_text(spec("None")) == "P(None)");
  CHECK(spec_text(spec("(fsdp, sp), None, tp")) == "P((fsdp, sp), None, tp)");
  CHECK(spec("") != spec("None"));
  CHECK(names_no_axis(spec("None, None")));
  CHECK_FALSE(names_no_axis(spec("None, tp")));
}

TEST_CASE("the first axis of a dimension is the most significant") {
  const Mesh m = mesh("dp=2,tp=3");
  CHECK(shard_index(m, {"dp", "tp"}, {1, 0}) == 3);
  CHECK(shard_index(m, {"tp", "dp"}, {1, 0}) == 1);
  CHECK(dimension_slice(m, {"dp", "tp"}, Cut::Even, 12, {1, 0}) == Slice{6, 8});
  CHECK(dimension_slice(m, {"tp", "dp"}, Cut::Even, 12, {1, 0}) == Slice{2, 4});
  CHECK(dimension_slice(m, {}, Cut::Even, 12, {1, 2}) == Slice{0, 12});
}

TEST_CASE("chunks are cut axis by axis as torch.chunk does") {
  const Mesh two_three = mesh("a=2,b=3");
  CHECK(rows_of(two_three, {"a", "b"}, Cut::Chunked, 10) ==
        std::vector<int64_t>{2, 2, 1, 2, 2, 1});
  const Mesh four = mesh("a=4");
  CHECK(rows_of(four, {"a"}, Cut::Chunked, 5) ==
        std::vector<int64_t>{2, 2, 1, 0});
  CHECK(rows_of(four, {"a"}, Cut::Chunked, 0) ==
        std::vector<int64_t>{0, 0, 0, 0});
  CHECK(rows_of(four, {"a"}, Cut::Chunked, 1) ==
        std::vector<int64_t>{1, 0, 0, 0});
  CHECK(shard_sizes(two_three, {"a", "b"}, Cut::Chunked, 10) ==
        std::vector<ShardSize>{{2, 4}, {1, 2}});
  CHECK(shard_sizes(four, {"a"}, Cut::Even, 5) ==
        std::vector<ShardSize>{{2, 4}});
}

TEST_CASE("sizes near 2^63 are cut without overflow") {
  const Mesh two = mesh("a=2");
  CHECK(dimension_slice(two, {"a"}, Cut::Chunked, INT64_MAX, {1}) ==
        Slice{int64_t{1} << 62, INT64_MAX});
  CHECK(dimension_slice(two, {"a"}, Cut::Even, INT64_MAX, {0}) ==
        Slice{0, int64_t{1} << 62});
  const Mesh huge = mesh("a=1048576,b=1048576");
  CHECK(dimension_slice(huge, {"a", "b"}, Cut::Chunked, INT64_MAX,
                        {1048575, 1048575})
            .end == INT64_MAX);
  CHECK(dimension_slice(huge, {"a", "b"}, Cut::Even, 3, {1048575, 1048575}) ==
        Slice{3, 3});
  CHECK(shard_sizes(huge, {"a", "b"}, Cut::Chunked, 3) ==
        std::vector<ShardSize>{{1, 3}, {0, (int64_t{1} << 40) - 3}});
}

TEST_CASE("a repeated axis whose product does not fit counts as huge") {
  const Mesh huge = mesh("a=1099511627776");
  CHECK(shard_count(huge, AxisNames{"a", "a"}) == INT64_MAX);
  CHECK(shard_count(huge, AxisNames{"a", "x"}) == int64_t{1} << 40);
}

TEST_CASE("all shards together are the tensor, each element R times") {
  CHECK(holds([] {
    const Mesh mesh = testing::draw_mesh();
    const Shape shape = testing::draw_shape(2);
    PartitionSpec spec = testing::draw_legal_spec(mesh, shape.size());
    spec.dims.resize(shape.size());
    const Cut cut = draw_of({Cut::Even, Cut::Chunked});
    std::map<std::vector<int64_t>, int64_t> copies;
    for (int64_t device = 0; device < mesh.devices(); ++device) {
      const auto at = mesh.coordinates(device);
      std::vector<Slice> slices;
      for (size_t dim = 0; dim < shape.size(); ++dim) {
        slices.push_back(
            dimension_slice(mesh, spec.dims[dim], cut, shape[dim], at));
      }
      slices.resize(2, Slice{0, 1});
      for (int64_t i = slices[0].begin; i < slices[0].end; ++i) {
        for (int64_t j = slices[1].begin; j < slices[1].end; ++j) {
          ++copies[{i, j}];
        }
      }
    }
    const int64_t elements = *element_count(shape);
    ENSURE(static_cast<int64_t>(copies.size()) == elements);
    for (const auto& [element, count] : copies) {
      ENSURE(count == mesh.devices() / shard_count(mesh, spec));
    }
  }));
}

TEST_CASE("local_shape and shard_sizes agree with every device's slice") {
  CHECK(holds([] {
    const Mesh mesh = testing::draw_mesh();
    const int64_t size = draw_in<int64_t>(0, 60);
    PartitionSpec spec = testing::draw_legal_spec(mesh, 1);
    spec.dims.resize(1);
    std::vector<int64_t> rows = rows_of(mesh, spec.dims[0], Cut::Chunked, size);
    ENSURE(local_shape({&mesh, spec, Cut::Chunked}, {size}) ==
           Shape{*std::max_element(rows.begin(), rows.end())});
    const int64_t replicas = mesh.devices() / shard_count(mesh, spec);
    std::map<int64_t, int64_t> counts;
    for (const int64_t r : rows) ++counts[r];
    const auto sizes = shard_sizes(mesh, spec.dims[0], Cut::Chunked, size);
    ENSURE(sizes.size() == counts.size());
    for (const ShardSize& s : sizes) {
      ENSURE(counts[s.rows] == s.count * replicas);
    }
    rows = rows_of(mesh, spec.dims[0], Cut::Even, size);
    ENSURE(local_shape({&mesh, spec, Cut::Even}, {size})[0] ==
           *std::max_element(rows.begin(), rows.end()));
  }));
}

using testing::type;

Placement placed(std::string_view type_text, std::string_view spec_text,
                 const Mesh& on, OnIndivisible policy) {
  Placement placement;
  placement.type = type(type_text);
  placement.spec = spec(spec_text);
  measure(placement, on, policy);
  return placement;
}

using Slices = std::vector<Slice>;

TEST_CASE("the first axis of a dimension is the most significant") {
  const Mesh on = mesh("dp=2,tp=3");
  const Placement one = placed("f32[12]", "(dp, tp)", on, OnIndivisible::Drop);
  const Placement other =
      placed("f32[12]", "(tp, dp)", on, OnIndivisible::Drop);
  const auto slice = [&](const Placement& p, int64_t device) {
    return held_slice(p, on, OnIndivisible::Drop, device).slices.at(0);
  };
  CHECK(slice(one, 1) == Slice{2, 4});
  CHECK(slice(other, 1) == Slice{4, 6});
  CHECK(slice(one, 3) == Slice{6, 8});
  CHECK(slice(other, 3) == Slice{2, 4});
  CHECK(held_slice(one, on, OnIndivisible::Drop, 5).coordinates ==
        std::vector<int64_t>{1, 2});
}

TEST_CASE("padding is what a shard stores beyond its rows") {
  const Mesh on = mesh("dp=2,tp=3");
  const Placement even = placed("f32[10]", "(dp, tp)", on, OnIndivisible::Pad);
  const DeviceSlices padded = device_slices(even, on, OnIndivisible::Pad);
  CHECK(padded.slices[0] ==
        Slices{{0, 2}, {2, 4}, {4, 6}, {6, 8}, {8, 10}, {10, 10}});
  CHECK(padded.padding[0] == std::vector<int64_t>{0, 0, 0, 0, 0, 2});
  const Placement chunked =
      placed("f32[10]", "(dp, tp)", on, OnIndivisible::Chunk);
  const DeviceSlices chunks = device_slices(chunked, on, OnIndivisible::Chunk);
  CHECK(chunks.slices[0] ==
        Slices{{0, 2}, {2, 4}, {4, 5}, {5, 7}, {7, 9}, {9, 10}});
  CHECK(chunks.padding[0] == std::vector<int64_t>(6, 0));
}

TEST_CASE("axes that no dimension names repeat every shard") {
  const Mesh on = mesh("dp=2,tp=2,sp=2");
  const DeviceSlices map =
      device_slices(placed("f32[4, 4]", "None, tp", on, OnIndivisible::Drop),
                    on, OnIndivisible::Drop);
  REQUIRE(map.devices.size() == 2);
  CHECK(map.devices[0] == std::vector<int64_t>{0, 1, 4, 5});
  CHECK(map.devices[map.number({0, 1})] == std::vector<int64_t>{2, 3, 6, 7});
}

TEST_CASE("a scalar is one shard that every device holds") {
  const Mesh on = mesh("tp=3");
  const DeviceSlices map = device_slices(
      placed("f32[]", "", on, OnIndivisible::Drop), on, OnIndivisible::Drop);
  REQUIRE(map.devices.size() == 1);
  CHECK(map.devices[0].size() == 3);
}

TEST_CASE("shards cover a tensor, each row of a dimension once") {
  CHECK(holds("cover", [] {
    const Mesh on = testing::draw_mesh();
    const auto policy = draw_of({OnIndivisible::Pad, OnIndivisible::Chunk});
    Placement placement;
    placement.type = {DType::F32, testing::draw_shape(3)};
    placement.spec = testing::draw_legal_spec(on, placement.type.shape.size());
    measure(placement, on, policy);
    const DeviceSlices map = device_slices(placement, on, policy);
    for (size_t dim = 0; dim < map.slices.size(); ++dim) {
      int64_t next = 0;
      for (size_t i = 0; i < map.slices[dim].size(); ++i) {
        const Slice& slice = map.slices[dim][i];
        ENSURE(slice.begin == next || slice.begin == slice.end);
        next = std::max(next, slice.end);
        ENSURE(slice.end - slice.begin + map.padding[dim][i] <=
               placement.local_shape[dim]);
      }
      ENSURE(next == placement.type.shape[dim]);
    }
    std::set<int64_t> devices;
    for (const auto& held : map.devices) {
      ENSURE(static_cast<int64_t>(held.size()) == placement.replicas);
      devices.insert(held.begin(), held.end());
    }
    ENSURE(static_cast<int64_t>(devices.size()) == on.devices());
  }));
}

}  // namespace

}  // namespace shardplan
