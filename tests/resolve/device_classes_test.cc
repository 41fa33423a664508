// SPDX-License-Identifier: Apache-2.0
#include "resolve/device_classes.h"

#include <map>
#include <vector>

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "tests/support/builders.h"
#include "tests/support/generators.h"

namespace shardplan {
namespace {

using testing::mesh;
using testing::spec;
namespace gen = testing::gen;

TEST_CASE("only coordinates at which a shard changes are breakpoints") {
  const Mesh devices = mesh("fsdp=4,tp=2");
  Breakpoints breakpoints;
  CHECK_FALSE(add_breakpoints(devices, {8, 6}, spec("fsdp, tp"), breakpoints));
  CHECK(breakpoints.empty());
  // torch.chunk(9, 4) is 3, 3, 3, 0.
  CHECK(add_breakpoints(devices, {9}, spec("fsdp"), breakpoints));
  CHECK(breakpoints == Breakpoints{{"fsdp", {3}}});
  // torch.chunk(6, 4) is 2, 2, 2, 0; (5, 4) is 2, 2, 1, 0.
  CHECK(add_breakpoints(devices, {5}, spec("fsdp"), breakpoints));
  CHECK(breakpoints == Breakpoints{{"fsdp", {2, 3}}});
}

TEST_CASE("too many classes are refused before they are made") {
  const Mesh devices = mesh("fsdp=4,tp=2");
  const Breakpoints breakpoints = {{"fsdp", {1, 2, 3}}, {"tp", {1}}};
  CHECK(coordinate_classes(devices, breakpoints, 8)->size() == 8);
  CHECK_FALSE(coordinate_classes(devices, breakpoints, 7));
}

TEST_CASE("classes store what devices one by one store") {
  CHECK(rc::check([] {
    const Mesh devices = *gen::mesh();
    std::vector<std::pair<TensorType, PartitionSpec>> tensors;
    Breakpoints breakpoints;
    for (int i = 0; i < 3; ++i) {
      const TensorType type = *gen::tensor_type();
      tensors.emplace_back(type, *gen::legal_spec(devices, type.shape.size()));
      add_breakpoints(devices, type.shape, tensors.back().second, breakpoints);
    }
    const auto bytes_at = [&](const std::vector<int64_t>& coordinates) {
      std::vector<int64_t> bytes;
      for (const auto& [type, cut] : tensors) {
        bytes.push_back(chunk_bytes(devices, type, cut, coordinates));
      }
      return bytes;
    };
    std::map<std::vector<int64_t>, int64_t> one_by_one;
    for (int64_t d = 0; d < devices.devices(); ++d) {
      ++one_by_one[bytes_at(devices.coordinates(d))];
    }
    std::map<std::vector<int64_t>, int64_t> by_class;
    const auto classes = coordinate_classes(devices, breakpoints, 1 << 20);
    RC_ASSERT(classes.has_value());
    for (const CoordinateClass& c : *classes) {
      by_class[bytes_at(c.coordinates)] += c.devices;
    }
    RC_ASSERT(by_class == one_by_one);
  }));
}

}  // namespace
}  // namespace shardplan
