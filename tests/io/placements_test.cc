// SPDX-License-Identifier: Apache-2.0
#include "io/placements.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "tests/support/builders.h"
#include "tests/support/messages.h"

namespace shardplan {
namespace {

std::vector<AxisRequest> axes_of(const Mesh& mesh) {
  std::vector<AxisRequest> axes;
  for (const Axis& axis : mesh.axes()) {
    axes.push_back({axis.name, axis.size, {}, {}, {}});
  }
  return axes;
}

// The spec of placements on `dp=2,tp=4,pp=2`, or what is wrong with them.
std::string spec_from(const std::string& text) {
  const SourceFile source("p", text);
  const auto tokens = python_tokens(source);
  Diagnostics diags;
  size_t at = 0;
  const auto placements = parse_placements(tokens, at, diags);
  if (!placements) return testing::messages(diags);
  const auto spec =
      spec_of_placements(*placements, axes_of(testing::mesh("dp=2,tp=4,pp=2")),
                         {&source, 0, text.size()}, diags);
  if (!spec) return testing::messages(diags);
  CHECK(spec->dim_where.size() == spec->spec.dims.size());
  return spec_text(spec->spec) + (spec->from_last ? " from the last" : "");
}

TEST_CASE("placements per mesh dimension become axes per dimension") {
  struct Case {
    std::string text;
    std::string expected;
  };
  const Case kCases[] = {
      {"[Replicate(), Shard(0), R]", "P(tp)"},
      {"(Shard(1), Shard(dim=0), Shard(1),)", "P(tp, (dp, pp))"},
      {"[Shard(-2), Replicate(), Replicate()]", "P(dp, None) from the last"},
      {"[torch.distributed.tensor.Shard(1), R, S(1)]", "P(None, (dp, pp))"},
      {"[_StridedShard(0, split_factor=4), Shard(0), R]", "P((tp, dp))"},
      {"[_StridedShard(dim=0, sf=8), Shard(0), Shard(0)]", "P((tp, pp, dp))"},
      {"[_StridedShard(0, split_factor=4), Shard(0), Shard(0)]",
       "P((tp, dp, pp))"},
      {"[R, R, R]", "P()"},
      {"[Shard(0), R]",
       "SP002 p:1:1 there are 2 placements for 3 mesh "
       "dimensions"},
      {"[Shard(0), Shard(-1), R]",
       "SP014 p:1:1 dimensions are counted from the first and from the last"},
      {"[_StridedShard(0, split_factor=2), Shard(0), R]",
       "SP014 p:1:2 no order of axes is that of this _StridedShard"},
      {"[Partial(), R, R]", "SP014 p:1:2 a parameter cannot be Partial()"},
      {"[Shard(64), R, R]", "SP002 p:1:2 no tensor has dimension 64"},
      {"[Shard(), R, R]",
       "SP002 p:1:2 `Shard()` does not have the arguments of a placement"},
      {"[Shard(0, 1), R, R]", "SP002 p:1:11 this argument has no name"},
      {"[Shard(x=1), R, R]", "SP002 p:1:8 this is no argument of a placement"},
      {"[Shard(0) R]", "SP002 p:1:11 a comma or `]` is missing before this"},
      {"[Shard(99999999999999999999), R, R]",
       "SP002 p:1:8 a whole number is expected here"},
      {"[Shard(0), ", "SP002 p:1:12 a placement is missing here"},
      {"[Chart(0), R, R]", "SP002 p:1:2 `Chart` is no placement"},
      {"[_StridedShard(0, split_factor=0), R, R]",
       "SP002 p:1:2 a split factor is less than 1"},
  };
  for (const Case& c : kCases) {
    CAPTURE(c.text);
    CHECK(spec_from(c.text) == c.expected);
  }
}

// The rows that a device holds, cut as PyTorch cuts: a mesh dimension after the
// other, `_StridedShard` into split_factor times as many chunks, of which each
// device has every n-th.
std::vector<int64_t> rows_of(const std::vector<MeshPlacement>& placements,
                             const Mesh& mesh, int64_t rows, int64_t device) {
  std::vector<int64_t> held(static_cast<size_t>(rows));
  std::iota(held.begin(), held.end(), int64_t{0});
  const auto coordinates = mesh.coordinates(device);
  for (size_t i = 0; i < placements.size(); ++i) {
    if (placements[i].kind == MeshPlacementKind::Replicate) continue;
    const auto n = static_cast<size_t>(mesh.axes()[i].size);
    const auto factor = static_cast<size_t>(placements[i].split_factor);
    const size_t chunk = held.size() / (n * factor);
    std::vector<int64_t> kept;
    for (size_t part = static_cast<size_t>(coordinates[i]); part < n * factor;
         part += n) {
      for (size_t k = 0; k < chunk; ++k) kept.push_back(held[part * chunk + k]);
    }
    held = kept;
  }
  return held;
}

TEST_CASE("the spec of placements gives every device the same rows") {
  CHECK(rc::check("as PyTorch cuts", [] {
    std::vector<Axis> axes;
    int64_t devices = 1;
    const auto count = *rc::gen::inRange<size_t>(1, 5);
    for (size_t i = 0; i < count; ++i) {
      axes.push_back(
          {"a" + std::to_string(i), *rc::gen::inRange<int64_t>(1, 4)});
      devices *= axes.back().size;
    }
    const Mesh mesh(axes);
    std::vector<MeshPlacement> placements(count);
    for (MeshPlacement& placement : placements) {
      placement.kind = *rc::gen::element(MeshPlacementKind::Replicate,
                                         MeshPlacementKind::Shard,
                                         MeshPlacementKind::Strided);
      if (placement.kind == MeshPlacementKind::Strided) {
        placement.split_factor = *rc::gen::element<int64_t>(1, 2, 3, 4, 6, 9);
      }
    }
    Diagnostics diags;
    const auto placed =
        spec_of_placements(placements, axes_of(mesh), {}, diags);
    RC_ASSERT(placed.has_value() != diags.has_errors());
    if (!placed) return;
    const int64_t rows = 2 * devices * devices;
    const AxisNames cut =
        placed->spec.dims.empty() ? AxisNames() : placed->spec.dims[0];
    for (int64_t device = 0; device < devices; ++device) {
      const Slice slice = dimension_slice(mesh, cut, Cut::Chunked, rows,
                                          mesh.coordinates(device));
      const auto held = rows_of(placements, mesh, rows, device);
      RC_ASSERT(static_cast<int64_t>(held.size()) == slice.end - slice.begin);
      RC_ASSERT(held.front() == slice.begin);
      RC_ASSERT(held.back() == slice.end - 1);
    }
  }));
}

}  // namespace
}  // namespace shardplan
