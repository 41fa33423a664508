// SPDX-License-Identifier: Apache-2.0
// The policy `chunk` held against PyTorch: tests/data/torch/dtensor.json has
// the shape and the offset of DTensor's shard on every rank
// (tests/data/record_torch_padding.py).
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "core/mesh.h"
#include "core/spec.h"
#include "tests/support/resolved.h"

namespace shardplan {
namespace {

using nlohmann::json;

// Mesh axes a0, a1, ..; axis i shards tensor dimension dims[i]. Axes that
// share a dimension cut it in mesh order, as DTensor does.
PartitionSpec spec_over(const json& dims, size_t rank) {
  PartitionSpec spec;
  spec.dims.resize(rank);
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis].is_null()) continue;
    spec.dims[dims[axis].get<size_t>()].push_back("a" + std::to_string(axis));
  }
  return spec;
}

TEST_CASE("chunked shards lie where DTensor has them, on every rank") {
  const json record =
      testing::read_json(testing::data_path("torch/dtensor.json"));
  for (const json& row : record.at("rows")) {
    CAPTURE(row.dump());
    std::vector<Axis> axes;
    for (const json& size : row.at("mesh")) {
      axes.push_back({"a" + std::to_string(axes.size()), size});
    }
    const Mesh mesh(axes);
    const auto shape = row.at("shape").get<Shape>();
    const PartitionSpec spec = spec_over(row.at("dims"), shape.size());
    REQUIRE(row.at("ranks").size() == static_cast<size_t>(mesh.devices()));
    for (int64_t device = 0; device < mesh.devices(); ++device) {
      CAPTURE(device);
      const json& found = row.at("ranks")[static_cast<size_t>(device)];
      for (size_t d = 0; d < shape.size(); ++d) {
        CAPTURE(d);
        const Slice slice = dimension_slice(mesh, spec.dims[d], Cut::Chunked,
                                            shape[d], mesh.coordinates(device));
        const int64_t rows = found[0][d];
        CHECK(slice.end - slice.begin == rows);
        // Where an empty shard begins means nothing.
        if (rows > 0) CHECK(slice.begin == found[1][d].get<int64_t>());
      }
    }
  }
}

}  // namespace
}  // namespace shardplan
