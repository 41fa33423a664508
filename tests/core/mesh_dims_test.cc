// SPDX-License-Identifier: Apache-2.0
#include "core/mesh_dims.h"

#include <string>

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "tests/support/messages.h"

namespace shardplan {
namespace {

// "dp=2,tp=-1", or the messages.
std::string axes_text(const std::optional<std::vector<AxisRequest>>& axes,
                      const Diagnostics& diags) {
  if (!axes) return testing::messages(diags);
  std::string text;
  for (const AxisRequest& axis : *axes) {
    text +=
        (text.empty() ? "" : ",") + axis.name + "=" + std::to_string(axis.size);
  }
  return text;
}

std::string read(const std::string& text,
                 const AxisNames& names = {"dp", "tp"}) {
  Diagnostics diags;
  const SourceFile source("--mesh", text);
  return axes_text(parse_mesh_dims(source, names, diags), diags);
}

TEST_CASE("sizes belong to the names in order, or by name in the text's") {
  CHECK(read("2,4") == "dp=2,tp=4");
  CHECK(read("dp:2,tp:4") == "dp=2,tp=4");
  CHECK(read("tp:4,dp:2") == "tp=4,dp=2");
  CHECK(read(" 2 ,\t-1") == "dp=2,tp=-1");
  CHECK(read("dp: 2,tp:-1 ") == "dp=2,tp=-1");
  CHECK(read("+2,1_000") == "dp=2,tp=1000");
}

TEST_CASE("any negative size is the rest") {
  CHECK(read("-7,2") == "dp=-1,tp=2");
  CHECK(read("dp:-7,tp:2") == "dp=-1,tp=2");
  Diagnostics diags;
  const int64_t dims[] = {-3, 1};
  CHECK(axes_text(axes_of_dims(dims, {"a", "b"}, {}, diags), diags) ==
        "a=-1,b=1");
}

TEST_CASE("what is no mesh is SP007 at its place") {
  struct Row {
    const char* text;
    const char* message;
  };
  for (const Row& row : std::initializer_list<Row>{
           {"2", "SP007 --mesh:1:1 there are 1 sizes for 2 axes"},
           {"2,4,1", "SP007 --mesh:1:1 there are 3 sizes for 2 axes"},
           {"", "SP007 --mesh:1:1 `` is not the size of an axis"},
           {"2,x", "SP007 --mesh:1:3 `x` is not the size of an axis"},
           {"2,4-", "SP007 --mesh:1:3 `4-` is not the size of an axis"},
           {"2,1__0", "SP007 --mesh:1:3 `1__0` is not the size of an axis"},
           {"2,_1", "SP007 --mesh:1:3 `_1` is not the size of an axis"},
           {"2,1_", "SP007 --mesh:1:3 `1_` is not the size of an axis"},
           {"2,-", "SP007 --mesh:1:3 `-` is not the size of an axis"},
           {"2,9223372036854775808",
            "SP007 --mesh:1:3 `9223372036854775808` is not the size of an "
            "axis"},
           {"dp:2,xx:4", "SP007 --mesh:1:6 `xx` is not one of the axes"},
           {" dp:2,tp:4", "SP007 --mesh:1:1 ` dp` is not one of the axes"},
           {"dp:2,4", "SP007 --mesh:1:6 `4` is not one of the axes"},
           {"dp:2,tp:3:4", "SP007 --mesh:1:9 `3:4` is not the size of an axis"},
           {"dp:2,dp:4", "SP007 --mesh:1:1 axis `tp` has no size"},
           {"dp:2,dp:2,tp:2", "SP007 --mesh:1:1 there are 3 sizes for 2 axes"},
       }) {
    CAPTURE(row.text);
    CHECK(read(row.text) == row.message);
  }
}

TEST_CASE("any text is read or refused, and nothing else happens") {
  CHECK(rc::check([] {
    const auto text = *rc::gen::container<std::string>(
        rc::gen::element('d', 'p', 't', ':', ',', '-', '+', '_', '1', ' '));
    Diagnostics diags;
    const SourceFile source("--mesh", text);
    const auto axes = parse_mesh_dims(source, {"dp", "tp"}, diags);
    RC_ASSERT(axes.has_value() != diags.has_errors());
    if (axes) RC_ASSERT(axes->size() == 2U);
  }));
}

}  // namespace
}  // namespace shardplan
