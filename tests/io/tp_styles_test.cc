// SPDX-License-Identifier: Apache-2.0
#include "io/tp_styles.h"

#include <set>

#include <doctest/doctest.h>

namespace shardplan {
namespace {

TEST_CASE("styles are found by name, each once") {
  std::set<std::string_view> names;
  for (const TpStyle& style : tp_styles()) {
    CAPTURE(style.name);
    CHECK(names.insert(style.name).second);
    CHECK(find_tp_style(style.name) == &style);
    // A bias has one dimension.
    CHECK(style.bias != TpCut::SecondLast);
  }
  CHECK(find_tp_style("colwise")->weight == TpCut::SecondLast);
  CHECK(find_tp_style("rowwise")->bias == TpCut::Whole);
  CHECK(find_tp_style("Colwise") == nullptr);
}

}  // namespace
}  // namespace shardplan
