// SPDX-License-Identifier: Apache-2.0
#include "io/text_escape.h"

#include <doctest/doctest.h>

namespace shardplan {
namespace {

TEST_CASE("what cannot be shown is escaped by the shortest number") {
  CHECK(text_escape(U'a').empty());
  CHECK(text_escape(U'\u20ac').empty());
  CHECK(text_escape(U'"') == "\\\"");
  CHECK(text_escape(U'\\') == "\\\\");
  CHECK(text_escape(U'\n') == "\\x0a");
  CHECK(text_escape(U'\u202e') == "\\u202e");
  CHECK(text_escape(U'\U000e0001') == "\\U000e0001");
}

}  // namespace
}  // namespace shardplan
