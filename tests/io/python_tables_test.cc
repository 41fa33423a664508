// SPDX-License-Identifier: Apache-2.0
#include "io/python_tables.h"

#include <string>

#include <doctest/doctest.h>

namespace shardplan {
namespace {

std::string found(const std::string& text) {
  const SourceFile source("rules.py", text);
  const auto tokens = python_tokens(source);
  std::string all;
  for (const PythonTable& table : find_python_tables(tokens)) {
    all += table.name;
    all += table.kind == PythonTable::Kind::Rules ? ":rules " : ":logical ";
  }
  return all;
}

TEST_CASE("tables are called after their variable, class and function") {
  CHECK(found("rules = ((\"a\", P()),)\n") == "rules:rules ");
  CHECK(found("class Llama:\n    def rules(self):\n"
              "        return ((\"a\", PS()),)\n") == "Llama.rules:rules ");
  CHECK(found("def f():\n  return [(\"a\", pm.resolve(X))]\n") == "f:rules ");
  CHECK(found("a = ((\"x\", P()),)\na = ((\"y\", P()),)\n") ==
        "a#1:rules a#2:rules ");
}

TEST_CASE("a pair with None, text or a list may be a logical axis rule") {
  CHECK(found("r = ((\"batch\", \"data\"), (\"embed\", None))") ==
        "r:logical ");
  CHECK(found("r = [[\"embed\", (\"fsdp\", \"sp\")]]") == "r:logical ");
  CHECK(found("r = [(None, \"data\")]") == "r:logical ");
}

TEST_CASE("tuples of patterns, joined and escaped text begin rules") {
  CHECK(found("r = [((\"mlp\", \"kernel\"), P(None, \"mp\"))]") == "r:rules ");
  CHECK(found("r = [(re.escape(\"['wte']\"), P(\"mp\"))]") == "r:rules ");
  CHECK(found("r = [(''.join((\"a\", \"b\")), P(\"mp\"))]") == "r:rules ");
}

TEST_CASE("calls, and brackets with other things, are no tables") {
  CHECK(found("f((\"a\", P()))").empty());
  CHECK(found("x = ((1, 2), (3, 4))").empty());
  CHECK(found("((").empty());
  CHECK(found("((\"a\"").empty());
  CHECK(found("").empty());
}

TEST_CASE("rules come before what may be logical rules unless one is named") {
  const SourceFile source("r.py",
                          "names = ((\"a\", \"b\"),)\n"
                          "rules = ((\"w\", P(\"tp\")),)\n");
  Diagnostics diags;
  const auto rules = read_python_table(source, std::nullopt, diags);
  REQUIRE(rules.has_value());
  CHECK(rules->items.at(0).items.at(0).text == "w");
  const auto names = read_python_table(source, "names", diags);
  REQUIRE(names.has_value());
  CHECK(names->items.at(0).items.at(0).text == "a");
  CHECK_FALSE(diags.has_errors());
}

TEST_CASE("a choice between tables lists them") {
  const SourceFile source("r.py", "a = ((\"w\", P()),)\nb = ((\"w\", P()),)\n");
  Diagnostics diags;
  CHECK_FALSE(read_python_table(source, std::nullopt, diags).has_value());
  CHECK(diags.all().front().message == "the file holds 2 tables of rules");
  CHECK_FALSE(read_python_table(source, "c", diags).has_value());
  CHECK(diags.all().back().message == "no table is named `c`");
}

}  // namespace
}  // namespace shardplan
