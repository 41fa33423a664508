// SPDX-License-Identifier: Apache-2.0
#include "io/shardy_sharding.h"

#include <string>

#include <doctest/doctest.h>

#include "tests/support/messages.h"

namespace shardplan {
namespace {

std::string sharding_text(const std::string& text) {
  const SourceFile source("m", text);
  MlirCursor cursor(source);
  Diagnostics diags;
  const auto sharding = parse_shardy_sharding(cursor, diags);
  if (!sharding) return testing::messages(diags);
  CHECK(cursor.done());
  CHECK(sharding->dim_where.size() == sharding->spec.dims.size());
  std::string all = sharding->mesh_name + " " + spec_text(sharding->spec);
  for (const AxisName& axis : sharding->replicated) all += " R" + axis;
  if (sharding->open_beside_axes) all += " open";
  if (sharding->priorities) all += " priorities";
  if (sharding->inlined) {
    for (const AxisRequest& axis : sharding->inlined->axes) {
      all += " " + axis.name + "=" + std::to_string(axis.size);
    }
  }
  return all;
}

TEST_CASE("shardings are read as Shardy prints them") {
  struct Case {
    std::string text;
    std::string expected;
  };
  const Case kCases[] = {
      {"#sdy.sharding<@mesh, [{\"a\"}, {\"b\", \"c\"}]>", "mesh P(a, (b, c))"},
      {"#sdy.sharding<@\"my mesh\", []>", "my mesh P()"},
      {"#sdy.sharding<@m, [{}, {\"b\", ?}], replicated={\"a\", \"c\"}>",
       "m P(None, b) Ra Rc open"},
      {"#sdy.sharding<@m, [{?}, {\"b\"}p1]>", "m P(?, b) priorities"},
      {"#sdy.sharding<mesh<[\"x\"=2, \"y\"=4]>, [{\"x\"}]>", " P(x) x=2 y=4"},
      {"#sdy.sharding<@m, [{\"a\":(1)2}]>",
       "SP014 m:1:21 a part of axis `a` is used"},
      {"#sdy.sharding<@m, [{}], unreduced={\"a\"}>",
       "SP014 m:1:25 an argument is unreduced"},
      {"#sdy.sharding<@m, [{}], other={\"a\"}>",
       "SP002 m:1:25 `other` is no part of a sharding"},
      {"#sdy.sharding_per_value<[<@m, [{}]>]>",
       "SP002 m:1:1 this is no sharding of one tensor"},
      {"#sdy.sharding<[{}]>", "SP002 m:1:15 a mesh is missing here"},
      {"#sdy.sharding<@m [{}]>", "SP002 m:1:18 `,` is missing here"},
      {"#sdy.sharding<@m, [{a}]>",
       "SP002 m:1:21 the name of an axis is missing here"},
      {"#sdy.sharding<@m, [{\"a\" \"b\"}]>",
       "SP002 m:1:25 `,` is missing here"},
      {"#sdy.sharding<@m, [{\"a\"}", "SP002 m:1:25 `,` is missing here"},
      {"#sdy.sharding<mesh<[\"x\"]>, []>",
       "SP002 m:1:24 an axis is missing here"},
      {"#sdy.sharding<mesh<[\"x\"=a]>, []>",
       "SP002 m:1:25 the size of an axis is missing here"},
  };
  for (const Case& c : kCases) {
    CAPTURE(c.text);
    CHECK(sharding_text(c.text) == c.expected);
  }
}

TEST_CASE("meshes have axes, and may list their devices") {
  const auto mesh = [](const std::string& text) {
    const SourceFile source("m", text);
    MlirCursor cursor(source);
    Diagnostics diags;
    const auto read = parse_shardy_mesh(cursor, diags);
    if (!read) return testing::messages(diags);
    std::string all = read->has_device_ids ? "ids" : "";
    for (const AxisRequest& axis : read->axes) {
      all += " " + axis.name + "=" + std::to_string(axis.size);
    }
    return all;
  };
  CHECK(mesh("<[\"a\"=2, \"b\"=1]>") == " a=2 b=1");
  CHECK(mesh("<[], device_ids=[0]>") == "ids");
  CHECK(mesh("<[\"a\"=2], device_ids=[1, 0]>") == "ids a=2");
  CHECK(mesh("[\"a\"=2]") == "SP002 m:1:1 this is no mesh");
  CHECK(mesh("<[\"a\"=2 \"b\"=2]>") == "SP002 m:1:9 `,` is missing here");
  CHECK(mesh("<[\"a\"=2], ids>") == "SP002 m:1:11 `>` is missing here");
  CHECK(mesh("<[\"a\"=2]") == "SP002 m:1:9 `>` is missing here");
}

}  // namespace
}  // namespace shardplan
