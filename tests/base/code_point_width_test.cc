// SPDX-License-Identifier: Apache-2.0
#include "base/code_point_width.h"

#include <doctest/doctest.h>

namespace shardplan {

TEST_CASE("a code point takes the columns that Unicode gives it") {
  struct Case {
    char32_t code_point;
    int width;
  };
  constexpr Case kCases[] = {
      {U'a', 1},     {U' ', 1},    {U'~', 1},    {U'\n', 0},   {0x1B, 0},
      {0x7F, 0},     {0x9F, 0},    {0xA0, 1},    {0xAD, 1},    {U'é', 1},
      {0x300, 0},    {0x36F, 0},   {0x370, 1},   {U'×', 1},    {U'…', 1},
      {U'█', 1},     {0x10FF, 1},  {0x1100, 2},  {0x1160, 0},  {0x200B, 0},
      {0x200D, 0},   {0xFE0F, 0},  {U'日', 2},   {U'가', 2},   {0xFF21, 2},
      {0xFF61, 1},   {0x1F600, 2}, {0x1F680, 2}, {0x20000, 2}, {0x2FFFD, 2},
      {0x10FFFF, 1}, {0xFFFD, 1},
  };
  for (const Case& test : kCases) {
    CAPTURE(static_cast<unsigned>(test.code_point));
    CHECK(code_point_width(test.code_point) == test.width);
  }
}

}  // namespace shardplan
