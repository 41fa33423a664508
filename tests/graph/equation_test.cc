// SPDX-License-Identifier: Apache-2.0
#include "graph/equation.h"

#include <string>

#include <doctest/doctest.h>

#include "tests/support/messages.h"

namespace shardplan {
namespace {

// The equation as text, or the messages.
std::string read(const std::string& text) {
  Diagnostics diags;
  const auto equation = parse_equation(text, {}, diags);
  return equation ? equation_text(*equation) : testing::messages(diags);
}

TEST_CASE("equations print as they are read, without blanks") {
  CHECK(read("bse,em->bsm") == "bse,em->bsm");
  CHECK(read(" bqhd , bkhd -> bhqk ") == "bqhd,bkhd->bhqk");
  CHECK(read("ab,AB->aB") == "ab,AB->aB");
  CHECK(read(",a->") == ",a->");
  CHECK(read(",->") == ",->");
}

TEST_CASE("what is no equation is SP015") {
  CHECK(read("ab,bc") == "SP015 equation `ab,bc` has no `->`");
  CHECK(read("") == "SP015 equation `` has no `->`");
  CHECK(read("ab->ba") == "SP015 equation `ab->ba` has one operand");
  CHECK(read("a,b,c->a") ==
        "SP015 equation `a,b,c->a` has `,` where a letter belongs");
  CHECK(read("...a,a->a") ==
        "SP015 equation `...a,a->a` has `.` where a letter belongs");
  CHECK(read("ä,b->b") ==
        "SP015 equation `ä,b->b` has `ä` where a letter belongs");
  CHECK(read("a\n,b->b") ==
        "SP015 equation `a\\n,b->b` has `\\n` where a letter belongs");
  CHECK(read("a,b->a->b") ==
        "SP015 equation `a,b->a->b` has `-` where a letter belongs");
  CHECK(read("aba,b->a") == "SP015 equation `aba,b->a` has `a` twice in `aba`");
  CHECK(read("a,b->aa") == "SP015 equation `a,b->aa` has `a` twice in `aa`");
  CHECK(read("a,b->c") ==
        "SP015 equation `a,b->c` has `c` in the result alone");
}

TEST_CASE("letters of the result come first") {
  Diagnostics diags;
  CHECK(letters_of(*parse_equation("bse,em->bsm", {}, diags)) == "bsme");
  CHECK(letters_of(*parse_equation("ab,cd->", {}, diags)) == "abcd");
}

}  // namespace
}  // namespace shardplan
