// SPDX-License-Identifier: Apache-2.0
#include "io/hlo_sharding.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "tests/support/generators.h"
#include "tests/support/messages.h"

namespace shardplan {
namespace {

// The specs of shardings on the axes a, b, .. of the sizes found.
std::string specs_text(const std::vector<std::string>& texts) {
  Diagnostics diags;
  const SourceFile source("m", "sharding");
  std::vector<HloSharding> shardings;
  for (const std::string& text : texts) {
    const auto sharding = parse_hlo_sharding(text, {&source, 0, 8}, diags);
    if (!sharding) return testing::messages(diags);
    shardings.push_back(*sharding);
  }
  const auto sizes = axis_sizes_of(shardings, diags);
  if (!sizes) return testing::messages(diags);
  std::vector<Axis> mesh;
  std::string all;
  for (const int64_t size : *sizes) {
    mesh.push_back(
        {std::string(1, static_cast<char>('a' + mesh.size())), size});
    all += mesh.back().name + "=" + std::to_string(size) + " ";
  }
  for (const HloSharding& sharding : shardings) {
    all += spec_text(spec_of(sharding, mesh));
  }
  return all;
}

TEST_CASE("tiles become the axes that they are made of") {
  struct Case {
    std::vector<std::string> texts;
    std::string expected;
  };
  const Case kCases[] = {
      {{"{replicated}"}, "P()"},
      {{"{devices=[4,2]<=[8]}"}, "a=4 b=2 P(a, b)"},
      {{"{devices=[2,4]<=[4,2]T(1,0)}"}, "a=4 b=2 P(b, a)"},
      {{"{devices=[2,4]<=[4,2]T(1,0) last_tile_dim_replicate}"},
       "a=4 b=2 P(b)"},
      {{"{devices=[2,4]<=[8] last_tile_dims={replicated}}"}, "a=2 b=4 P(a)"},
      {{"{devices=[8,1]<=[8] metadata={op_name=\"x}\"}}"}, "a=8 P(a, None)"},
      {{"{devices=[8]<=[8]}", "{devices=[2,4]<=[8]}"},
       "a=2 b=4 P((a, b))P(a, b)"},
      {{"{devices=[2,2]0,1,2,3}"}, "a=2 b=2 P(a, b)"},
      {{"{devices=[2,2]0,2,1,3}"},
       "SP014 m:1:1 devices are listed in an order of their own"},
      {{"{maximal device=0}"}, "SP014 m:1:1 a tensor lies on one device only"},
      {{"{manual}"}, "SP014 m:1:1 this sharding does not say where values lie"},
      {{"{{replicated}}"},
       "SP014 m:1:1 a tuple of shardings is given to one tensor"},
      {{"{devices=[2,4]<=[8] last_tile_dims={manual}}"},
       "SP014 m:1:1 dimensions of devices are more than replicated"},
      {{"{devices=[4]<=[8]}"},
       "SP002 m:1:1 the tiles and the devices of a sharding do not agree"},
      {{"{devices=[4,2]<=[4,2]T(1,1)}"},
       "SP002 m:1:1 the tiles and the devices of a sharding do not agree"},
      {{"{devices=[0]<=[0]}"},
       "SP002 m:1:1 the tiles and the devices of a sharding do not agree"},
      {{"{devices=[2,3]<=[3,2]T(1,0)}", "{devices=[2,3]<=[6]}"},
       "SP014 m:1:1 no mesh has axes for this sharding and those before it"},
      {{"{devices=[2,3]<=[3,2]}"},
       "SP014 m:1:1 tiles do not correspond to axes of a mesh"},
      {{"{devices=[4]<=[4]}", "{devices=[8]<=[8]}"},
       "SP014 m:1:1 shardings are over different numbers of devices"},
      {{"devices=[4]<=[4]"}, "SP002 m:1:1 this is no sharding of XLA"},
      {{"{devices=[4]<=[4]"}, "SP002 m:1:1 this is no sharding of XLA"},
      {{"{devices=[4,]<=[4]}"}, "a=4 P(a)"},
      {{"\b\3"}, "SP002 m:1:1 this is no sharding of XLA"},
  };
  for (const Case& c : kCases) {
    CAPTURE(c.texts.front());
    CHECK(specs_text(c.texts) == c.expected);
  }
}

std::string list(const std::vector<int64_t>& numbers) {
  std::string text;
  for (const int64_t number : numbers) {
    text += (text.empty() ? "" : ",") + std::to_string(number);
  }
  return text;
}

// The sharding of a spec, with every axis of the mesh a dimension of devices.
std::string hlo_of(const PartitionSpec& spec, size_t rank, const Mesh& mesh) {
  std::vector<int64_t> tiles(rank, 1);
  std::vector<int64_t> order;
  std::vector<int64_t> rest;
  for (size_t dim = 0; dim < spec.dims.size(); ++dim) {
    for (const AxisName& axis : spec.dims[dim]) {
      order.push_back(static_cast<int64_t>(*mesh.find(axis)));
      tiles[dim] *= mesh.size_of(axis);
    }
  }
  std::vector<int64_t> sizes;
  int64_t replicas = 1;
  for (size_t i = 0; i < mesh.axes().size(); ++i) {
    sizes.push_back(mesh.axes()[i].size);
    const auto number = static_cast<int64_t>(i);
    if (std::find(order.begin(), order.end(), number) == order.end()) {
      rest.push_back(number);
      replicas *= mesh.axes()[i].size;
    }
  }
  order.insert(order.end(), rest.begin(), rest.end());
  tiles.push_back(replicas);
  return "{devices=[" + list(tiles) + "]<=[" + list(sizes) + "]T(" +
         list(order) + ") last_tile_dim_replicate}";
}

TEST_CASE("the sharding of a spec has the spec's slices on every device") {
  CHECK(rc::check("specs survive", [] {
    const Mesh mesh = *testing::gen::mesh();
    constexpr size_t kRank = 3;
    const PartitionSpec spec = *testing::gen::legal_spec(mesh, kRank);
    Diagnostics diags;
    std::vector<HloSharding> shardings;
    shardings.push_back(
        *parse_hlo_sharding(hlo_of(spec, kRank, mesh), {}, diags));
    const auto sizes = axis_sizes_of(shardings, diags);
    RC_ASSERT(sizes.has_value());
    std::vector<Axis> axes;
    for (const int64_t size : *sizes) {
      axes.push_back({"x" + std::to_string(axes.size()), size});
    }
    PartitionSpec found = spec_of(shardings.front(), axes);
    if (axes.empty()) axes.push_back({"x", 1});
    const Mesh again(axes);
    RC_ASSERT(again.devices() == mesh.devices());
    found.dims.resize(kRank);
    for (size_t dim = 0; dim < kRank; ++dim) {
      const AxisNames wanted =
          dim < spec.dims.size() ? spec.dims[dim] : AxisNames();
      for (int64_t device = 0; device < mesh.devices(); ++device) {
        RC_ASSERT(
            shard_index(mesh, wanted, mesh.coordinates(device)) ==
            shard_index(again, found.dims[dim], again.coordinates(device)));
      }
    }
  }));
}

}  // namespace
}  // namespace shardplan
