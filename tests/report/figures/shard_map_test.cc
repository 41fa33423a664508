// SPDX-License-Identifier: Apache-2.0
#include "report/figures/shard_map.h"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/text.h"
#include "tests/support/builders.h"
#include "tests/support/generators.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

DeviceSlices map_of(std::string_view type, std::string_view spec,
                    std::string_view mesh,
                    OnIndivisible policy = OnIndivisible::Drop) {
  const Mesh on = testing::mesh(mesh);
  Placement placement;
  placement.type = testing::type(type);
  placement.spec = testing::spec(spec);
  measure(placement, on, policy);
  return device_slices(placement, on, policy);
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text = "\n";
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

TEST_CASE("two dimensions are rows and columns of boxes") {
  CHECK(
      joined(draw_shards(map_of("f32[32, 16]", "fsdp, tp", "dp=2,fsdp=2,tp=2"),
                         80, false)) == R"(
        0:8    8:16
      ┌──────┬──────┐
 0:16 │ 0,4  │ 1,5  │
      ├──────┼──────┤
16:32 │ 2,6  │ 3,7  │
      └──────┴──────┘
)");
}

TEST_CASE("one dimension is a row, and a scalar one box") {
  CHECK(joined(
            draw_shards(map_of("f32[9]", "tp", "dp=2,tp=4", OnIndivisible::Pad),
                        80, false)) == R"(
    0:3        3:6        6:9      9:9 (+3)
┌──────────┬──────────┬──────────┬──────────┐
│   0,4    │   1,5    │   2,6    │   3,7    │
└──────────┴──────────┴──────────┴──────────┘
)");
  CHECK(joined(draw_shards(map_of("f32[]", "", "tp=8"), 80, false)) == R"(
┌─────┐
│ 0-7 │
└─────┘
)");
}

TEST_CASE("of more dimensions the last two that are cut are drawn") {
  const DeviceSlices map =
      map_of("f32[4, 6, 8, 2]", "ep, fsdp, tp, None", "ep=2,fsdp=2,tp=2");
  const DrawnDims dims = drawn_dims(map);
  CHECK(dims.row == 1);
  CHECK(dims.column == 2);
  CHECK(joined(draw_shards(map, 80, false)) == R"(
dimension 0 = 0:2
      0:4   4:8
    ┌─────┬─────┐
0:3 │  0  │  1  │
    ├─────┼─────┤
3:6 │  2  │  3  │
    └─────┴─────┘

dimension 0 = 2:4
      0:4   4:8
    ┌─────┬─────┐
0:3 │  4  │  5  │
    ├─────┼─────┤
3:6 │  6  │  7  │
    └─────┴─────┘
)");
  const DrawnDims first = drawn_dims(map_of("f32[4, 6, 8]", "tp", "tp=2"));
  CHECK(first.row == 0);
  CHECK(first.column == 2);
}

TEST_CASE("what is left out is counted") {
  const DeviceSlices map = map_of("f32[640, 640]", "fsdp, tp", "fsdp=64,tp=64");
  const auto lines = draw_shards(map, 60, false);
  CHECK(lines.back() ==
        "49 of 64 rows and 60 of 64 columns of boxes are left out; "
        "`--expand` draws all");
  const DeviceSlices deep =
      map_of("f32[8, 8, 8]", "ep, fsdp, tp", "ep=8,fsdp=2,tp=2");
  CHECK(draw_shards(deep, 80, false).back() ==
        "4 of 8 such grids are left out; `--expand` draws all");
  const auto all = joined(draw_shards(deep, 80, true));
  CHECK(all.find("dimension 0 = 7:8") != std::string::npos);
  CHECK(all.find("left out") == std::string::npos);
}

TEST_CASE("ids are listed as far as there is room") {
  const struct {
    std::vector<int64_t> devices;
    int width;
    const char* text;
  } rows[] = {{{5}, 0, "5"},
              {{0, 4}, 0, "0,4"},
              {{0, 1, 2, 3}, 3, "0-3"},
              {{0, 1, 4}, 20, "0,1,4"},
              {{0, 4, 8, 12, 16, 20}, 40, "0,4,8,12,16,20"},
              {{0, 4, 8, 12, 16, 20}, 12, "0,4,8,.. (6)"},
              {{0, 4, 8, 12, 16, 20}, 0, "0,.. (6)"}};
  for (const auto& row : rows) {
    CAPTURE(row.text);
    CHECK(device_list_text(row.devices, row.width) == row.text);
  }
}

TEST_CASE("with --expand every device is in some box, within the width") {
  CHECK(holds("all devices", [] {
    const Mesh on = testing::draw_mesh();
    Placement placement;
    placement.type = {DType::F32, testing::draw_shape(4)};
    placement.spec = testing::draw_legal_spec(on, placement.type.shape.size());
    measure(placement, on, OnIndivisible::Chunk);
    const DeviceSlices map = device_slices(placement, on, OnIndivisible::Chunk);
    const int width = draw_in(40, 160);
    const auto lines = draw_shards(map, width, true);
    // Boxes have one line each, between lines of rules.
    size_t boxes = 0;
    for (const std::string& line : lines) {
      ENSURE(display_width(line) <= width);
      for (size_t at = line.find("│"); at != std::string::npos;
           at = line.find("│", at + 1)) {
        ++boxes;
      }
      if (line.find("│") != std::string::npos) --boxes;
    }
    ENSURE(boxes == map.devices.size());
  }));
}

}  // namespace
}  // namespace shardplan
