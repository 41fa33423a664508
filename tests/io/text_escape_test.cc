// SPDX-License-Identifier: Apache-2.0
#include "io/text_escape.h"

#include <cstdint>

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
  for (char32_t code = 0x10000; code < 0x110000; ++code) {
    if (!text_escape(code).empty()) FAIL(static_cast<uint32_t>(code));
  }
}

}  // namespace
}  // namespace shardplan
