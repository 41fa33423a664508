// SPDX-License-Identifier: Apache-2.0
#include "io/mlir_cursor.h"

#include <doctest/doctest.h>
#include <rapidcheck.h>

namespace shardplan {
namespace {

TEST_CASE("words, numbers, strings and symbols are read, blanks passed over") {
  const SourceFile source(
      "m", "  func.func // why\n @main(%a: 12) \"a\\22\\n\\\\\" @\"b c\" ab");
  MlirCursor cursor(source);
  CHECK_FALSE(cursor.accept("func"));
  CHECK(cursor.accept("func.func"));
  CHECK(cursor.symbol() == "main");
  CHECK(cursor.accept("("));
  CHECK(cursor.accept("%"));
  CHECK(cursor.word() == "a");
  CHECK_FALSE(cursor.integer());
  CHECK(cursor.accept(":"));
  CHECK(cursor.here().text() == "12");
  CHECK(cursor.integer() == 12);
  CHECK(cursor.accept(")"));
  const uint64_t begin = cursor.at();
  CHECK(cursor.string() == "a\"\n\\");
  CHECK(cursor.span_from(begin).text() == "\"a\\22\\n\\\\\"");
  CHECK(cursor.symbol() == "b c");
  CHECK_FALSE(cursor.string());
  CHECK(cursor.word() == "ab");
  CHECK(cursor.done());
  CHECK(cursor.peek() == '\0');
}

TEST_CASE("values are passed over with their brackets and strings") {
  const SourceFile source("m", "#a<[{\"}\", ?}], (d0) -> (d0)>, b } c");
  MlirCursor cursor(source);
  CHECK(cursor.skip_to(",}"));
  CHECK(cursor.accept(","));
  CHECK(cursor.word() == "b");
  CHECK(cursor.skip_to("}"));
  CHECK(cursor.accept("}"));
  CHECK_FALSE(cursor.skip_to("}"));
}

TEST_CASE("a cursor ends on any text") {
  CHECK(rc::check("bounded", [] {
    const auto text = *rc::gen::container<std::string>(rc::gen::element(
        '"', '\\', '(', ')', '<', '>', '-', 'a', '1', ' ', '@', '\n', '/'));
    const SourceFile source("m", text);
    MlirCursor cursor(source);
    for (size_t steps = 0; !cursor.done(); ++steps) {
      RC_ASSERT(steps <= text.size());
      const uint64_t before = cursor.at();
      cursor.string();
      cursor.symbol();
      cursor.word();
      if (cursor.at() == before) cursor.skip_one();
      RC_ASSERT(cursor.at() > before);
    }
    MlirCursor again(source);
    again.skip_to(",");
    RC_ASSERT(again.at() <= text.size() + 1);
  }));
}

}  // namespace
}  // namespace shardplan
