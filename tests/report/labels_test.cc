// SPDX-License-Identifier: Apache-2.0
#include "report/labels.h"

#include <doctest/doctest.h>

namespace shardplan {

TEST_CASE("a place counts lines and code points from one") {
  const SourceFile file("f", "ab\né层x\r\nlast");
  struct Case {
    Span where;
    int64_t line, column, end_column;
  };
  const std::vector<Case> cases = {
      {{&file, 0, 2}, 1, 1, 3},
      {{&file, 1, 1}, 1, 2, 2},
      {{&file, 3, 8}, 2, 1, 3},
      {{&file, 5, 9}, 2, 2, 4},
      {{&file, 11, 15}, 3, 1, 5},
      {{&file, 1, 15}, 1, 2, 3},    // several lines: to the end of the first
      {{&file, 5, 15}, 2, 2, 4},    // not counting its carriage return
      {{&file, 15, 15}, 3, 5, 5},   // behind the last character
      {{&file, 99, 120}, 3, 5, 5},  // past the end
  };
  for (const Case& test : cases) {
    CAPTURE(test.where.begin);
    CAPTURE(test.where.end);
    const Place place = place_of(test.where);
    CHECK(place.line == test.line);
    CHECK(place.column == test.column);
    CHECK(place.end_column == test.end_column);
  }
}

TEST_CASE("the main label is the first that has a place") {
  const SourceFile file("f", "text");
  Diagnostic diagnostic;
  CHECK(main_label(diagnostic) == nullptr);
  diagnostic.labels = {{{}, "nowhere"}};
  CHECK(main_label(diagnostic) == nullptr);
  diagnostic.labels.push_back({{&file, 0, 4}, "here"});
  REQUIRE(main_label(diagnostic) != nullptr);
  CHECK(main_label(diagnostic)->text == "here");
}

TEST_CASE("a flag is told from a file by its name") {
  CHECK(is_flag(SourceFile("--mesh", "")));
  CHECK_FALSE(is_flag(SourceFile("mesh.yaml", "")));
  CHECK_FALSE(is_flag(SourceFile("-", "")));
}

}  // namespace shardplan
