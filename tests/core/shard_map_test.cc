// SPDX-License-Identifier: Apache-2.0
#include "core/shard_map.h"

#include <algorithm>
#include <set>

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "tests/support/builders.h"
#include "tests/support/generators.h"

namespace shardplan {
namespace {

using testing::mesh;
using testing::spec;
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
  const ShardMap padded = shard_map(even, on, OnIndivisible::Pad);
  CHECK(padded.slices[0] ==
        Slices{{0, 2}, {2, 4}, {4, 6}, {6, 8}, {8, 10}, {10, 10}});
  CHECK(padded.padding[0] == std::vector<int64_t>{0, 0, 0, 0, 0, 2});
  const Placement chunked =
      placed("f32[10]", "(dp, tp)", on, OnIndivisible::Chunk);
  const ShardMap chunks = shard_map(chunked, on, OnIndivisible::Chunk);
  CHECK(chunks.slices[0] ==
        Slices{{0, 2}, {2, 4}, {4, 5}, {5, 7}, {7, 9}, {9, 10}});
  CHECK(chunks.padding[0] == std::vector<int64_t>(6, 0));
}

TEST_CASE("axes that no dimension names repeat every shard") {
  const Mesh on = mesh("dp=2,tp=2,sp=2");
  const ShardMap map =
      shard_map(placed("f32[4, 4]", "None, tp", on, OnIndivisible::Drop), on,
                OnIndivisible::Drop);
  REQUIRE(map.devices.size() == 2);
  CHECK(map.devices[0] == std::vector<int64_t>{0, 1, 4, 5});
  CHECK(map.devices[map.number({0, 1})] == std::vector<int64_t>{2, 3, 6, 7});
}

TEST_CASE("a scalar is one shard that every device holds") {
  const Mesh on = mesh("tp=3");
  const ShardMap map = shard_map(placed("f32[]", "", on, OnIndivisible::Drop),
                                 on, OnIndivisible::Drop);
  REQUIRE(map.devices.size() == 1);
  CHECK(map.devices[0].size() == 3);
}

TEST_CASE("shards cover a tensor, each row of a dimension once") {
  CHECK(rc::check("cover", [] {
    const Mesh on = *testing::gen::mesh();
    const auto policy =
        *rc::gen::element(OnIndivisible::Pad, OnIndivisible::Chunk);
    Placement placement;
    placement.type = {DType::F32, *testing::gen::shape(3)};
    placement.spec = *testing::gen::legal_spec(on, placement.type.shape.size());
    measure(placement, on, policy);
    const ShardMap map = shard_map(placement, on, policy);
    for (size_t dim = 0; dim < map.slices.size(); ++dim) {
      int64_t next = 0;
      for (size_t i = 0; i < map.slices[dim].size(); ++i) {
        const Slice& slice = map.slices[dim][i];
        RC_ASSERT(slice.begin == next || slice.begin == slice.end);
        next = std::max(next, slice.end);
        RC_ASSERT(slice.end - slice.begin + map.padding[dim][i] <=
                  placement.local_shape[dim]);
      }
      RC_ASSERT(next == placement.type.shape[dim]);
    }
    std::set<int64_t> devices;
    for (const auto& held : map.devices) {
      RC_ASSERT(static_cast<int64_t>(held.size()) == placement.replicas);
      devices.insert(held.begin(), held.end());
    }
    RC_ASSERT(static_cast<int64_t>(devices.size()) == on.devices());
  }));
}

}  // namespace
}  // namespace shardplan
