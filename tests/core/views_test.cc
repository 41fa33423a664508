// SPDX-License-Identifier: Apache-2.0
#include "core/views.h"

#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/builders.h"
#include "tests/support/messages.h"
#include "tests/support/one_by_one.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

std::optional<ViewRequest> parsed(const std::string& text, Diagnostics& diags,
                                  std::vector<SourcePtr>& kept) {
  kept.push_back(std::make_shared<SourceFile>("--view", text));
  return parse_view_text(*kept.back(), diags);
}

// The mesh with these views, as flags have them.
Mesh viewed(const char* own, const std::vector<std::string>& views) {
  std::vector<SourcePtr> kept;
  Diagnostics diags;
  Mesh mesh = testing::mesh(own);
  for (const std::string& text : views) {
    const auto view = parsed(text, diags, kept);
    REQUIRE(view.has_value());
    auto with_view = add_view(mesh, *view, diags);
    REQUIRE(with_view.has_value());
    mesh = *std::move(with_view);
  }
  return mesh;
}

std::string refused(const char* own, const std::vector<std::string>& views) {
  std::vector<SourcePtr> kept;
  Diagnostics diags;
  Mesh mesh = testing::mesh(own);
  for (const std::string& text : views) {
    const auto view = parsed(text, diags, kept);
    if (!view) return testing::messages(diags);
    auto with_view = add_view(mesh, *view, diags);
    if (!with_view) return testing::messages(diags);
    mesh = *std::move(with_view);
  }
  return "";
}

TEST_CASE("a view is a name and axes, whose product is the mesh's") {
  const Mesh mesh = viewed("dp=4,tp=8", {"experts:ep=8,edp=-1"});
  CHECK(mesh.views() ==
        std::vector<MeshView>{{"experts", {{"ep", 8}, {"edp", 4}}}});
  CHECK(mesh.axes() == std::vector<Axis>{{"dp", 4}, {"tp", 8}});
  CHECK(mesh.devices() == 32);
  CHECK(mesh.all_axes().size() == 4);
  CHECK(mesh.size_of("ep") == 8);
  CHECK(mesh.has("experts", "ep"));
  CHECK_FALSE(mesh.has("", "ep"));
  CHECK(mesh.view_of({"ep", "edp"}) == "experts");
  CHECK(mesh.view_of({"tp"}) == "");
  CHECK_FALSE(mesh.view_of({"ep", "tp"}).has_value());
  const auto refuses = [](const std::vector<std::string>& views,
                          const char* part) {
    const std::string text = refused("dp=4,tp=8", views);
    CAPTURE(text);
    CHECK(text.starts_with("SP007"));
    CHECK(text.find(part) != text.npos);
  };
  refuses({"ep=8,edp=4"}, "is not a view");
  refuses({"a b:ep=8"}, "is not a view");
  refuses({""}, "is not a view");
  refuses({"experts:"}, "expected an axis");
  refuses({"experts:ep=8"}, "has 8 devices, but the mesh has 32");
  refuses({"experts:ep=3,edp=-1"}, "3");
  refuses({"experts:ep=8,ep=4"}, "appears twice");
  refuses({"experts:ep=8,edp=4", "experts:a=32"}, "is given twice");
  // The same name for other devices.
  refuses({"experts:tp=4,ep=8"}, "differs from the existing axis");
  refuses({"experts:tp=8,ep=4"}, "differs from the existing axis");
  refuses({"a:ep=8,x=4", "b:x=4,ep=8"}, "differs from the existing axis");
  // The same name for the same devices.
  CHECK(refused("dp=4,tp=8", {"experts:ep=4,tp=8"}).empty());
  CHECK(refused("pp=2,dp=4", {"a:pp=2,ep=4", "b:pp=2,x=2,y=2"}).empty());
}

TEST_CASE("sub-axes have the names that they have, or Shardy's form") {
  const auto axes_of = [](const char* own,
                          const std::vector<std::string>& views) {
    const auto parts = sub_axes(viewed(own, views));
    REQUIRE(parts.has_value());
    return axes_text(parts->axes());
  };
  CHECK(axes_of("dp=4,tp=8", {"experts:ep=8,edp=4"}) == "dp=4,tp:(1)2=2,edp=4");
  CHECK(axes_of("pp=2,dp=8", {"experts:pp=2,ep=2,edp=4"}) == "pp=2,ep=2,edp=4");
  CHECK(axes_of("dp=16", {"a:x=2,y=8", "b:u=4,v=4"}) == "x=2,dp:(2)2=2,v=4");
  CHECK(axes_of("dp=4,tp=2", {"experts:ep=8"}) == "dp=4,tp=2");
  CHECK(axes_of("dp=1", {"experts:ep=1"}) == "dp=1");
  // Devices 0, 1 | 2, 3 | 4, 5 and 0, 1, 2 | 3, 4, 5 have no common parts.
  CHECK_FALSE(sub_axes(viewed("dp=3,tp=2", {"e:ep=2,edp=3"})).has_value());
  // Without views it is the mesh.
  CHECK(sub_axes(testing::mesh("dp=3,tp=2")) == testing::mesh("dp=3,tp=2"));
}

// Where a device is along the axes of a list that these names are of.
std::vector<int64_t> places(const std::vector<Axis>& axes,
                            const AxisNames& names, int64_t device) {
  std::vector<int64_t> at;
  for (const AxisName& name : names) {
    at.push_back(testing::coordinate_of(axes, name, device));
  }
  return at;
}

TEST_CASE("axes of a view are told by a device's number, in every view") {
  CHECK(holds([] {
    const testing::ViewedAxes axes = testing::draw_viewed_axes(draw_bool());
    const Mesh mesh = axes.mesh();
    ENSURE(mesh.devices() == axes.devices());
    std::vector<std::string> names = {""};
    for (const MeshView& view : axes.views) names.push_back(view.name);
    for (int64_t device = 0; device < mesh.devices(); ++device) {
      const std::vector<int64_t> all = mesh.coordinates(device);
      ENSURE(all.size() == mesh.all_axes().size());
      for (const std::string& name : names) {
        ENSURE(mesh.axes_of(name) == axes.of(name));
        for (const Axis& axis : axes.of(name)) {
          const auto index = mesh.find(axis.name);
          ENSURE(index.has_value());
          const int64_t at =
              testing::coordinate_of(axes.of(name), axis.name, device);
          ENSURE(all[*index] == at);
          ENSURE(device / mesh.stride(*index) % axis.size == at);
        }
      }
    }
  }));
}

TEST_CASE("every axis of every view consists of sub-axes, device by device") {
  CHECK(holds([] {
    const testing::ViewedAxes axes = testing::draw_viewed_axes(draw_bool());
    const auto parts = sub_axes(axes.mesh());
    ENSURE(parts.has_value() == axes.have_parts());
    if (!parts) return;
    int64_t product = 1;
    for (const Axis& axis : parts->axes()) {
      product *= axis.size;
      ENSURE(axis.size > 1 || parts->axes().size() == 1);
    }
    ENSURE(product == axes.devices());
    // The coarsest: each boundary is one of an axis.
    int64_t before = 1;
    for (const Axis& axis : parts->axes()) {
      before *= axis.size;
      bool is_end = false;
      const auto look = [&](const std::vector<Axis>& list) {
        int64_t end = 1;
        for (const Axis& each : list)
          is_end = is_end || (end *= each.size) == before;
      };
      look(axes.own);
      for (const MeshView& view : axes.views) look(view.axes);
      ENSURE(is_end);
    }
    std::vector<const std::vector<Axis>*> lists = {&axes.own};
    for (const MeshView& view : axes.views) lists.push_back(&view.axes);
    for (const std::vector<Axis>* list : lists) {
      for (const Axis& axis : *list) {
        const AxisNames own = parts_of(*parts, axis.name);
        int64_t size = 1;
        for (const AxisName& part : own) size *= parts->size_of(part);
        ENSURE(size == axis.size);
        // Major to minor they are the digits of the axis's coordinate.
        std::map<int64_t, std::vector<int64_t>> digits;
        for (int64_t d = 0; d < axes.devices(); ++d) {
          const int64_t at = testing::coordinate_of(*list, axis.name, d);
          const std::vector<int64_t> of = places(parts->axes(), own, d);
          int64_t number = 0;
          for (size_t i = 0; i < own.size(); ++i) {
            number = number * parts->size_of(own[i]) + of[i];
          }
          ENSURE(number == at);
        }
        if (axis.size == 1) continue;
        // Parts become an axis again that stands for the same devices.
        const AxisNames joined = joined_axes(*parts, own);
        ENSURE(joined.size() == 1);
        ENSURE(parts_of(*parts, joined.front()) == own);
      }
    }
  }));
}

TEST_CASE("joined parts prefer an axis of the view that is asked for") {
  const auto parts = sub_axes(viewed("dp=4,tp=8", {"experts:ep=4,etp=8"}));
  REQUIRE(parts.has_value());
  const AxisNames own = parts_of(*parts, "ep");
  CHECK(joined_axes(*parts, own, "experts") == AxisNames{"ep"});
  CHECK(joined_axes(*parts, own) == AxisNames{"dp"});
  const auto cut = sub_axes(viewed("dp=4,tp=8", {"experts:ep=8,edp=4"}));
  REQUIRE(cut.has_value());
  CHECK(parts_of(*cut, "tp") == AxisNames{"tp:(1)2", "edp"});
  CHECK(parts_of(*cut, "ep") == AxisNames{"dp", "tp:(1)2"});
  CHECK(joined_axes(*cut, {"dp", "tp:(1)2", "edp"}) == AxisNames{"ep", "edp"});
  CHECK(joined_axes(*cut, {"tp:(1)2", "edp"}) == AxisNames{"tp"});
  CHECK(joined_axes(*cut, {"tp:(1)2"}) == AxisNames{"tp:(1)2"});
  CHECK(parts_of(*cut, "unknown").empty());
}

TEST_CASE("views stay over other axes of the mesh where they still fit") {
  const Mesh mesh = viewed("pp=2,dp=4,tp=2", {"experts:pp=2,ep=8"});
  const auto same = with_axes(mesh, {{"pp", 2}, {"dp", 2}, {"tp", 4}});
  REQUIRE(same.has_value());
  CHECK(same->views() == mesh.views());
  CHECK_FALSE(with_axes(mesh, {{"pp", 2}, {"dp", 4}, {"tp", 4}}).has_value());
  CHECK_FALSE(with_axes(mesh, {{"pp", 4}, {"dp", 2}, {"tp", 2}}).has_value());
}

}  // namespace
}  // namespace shardplan
