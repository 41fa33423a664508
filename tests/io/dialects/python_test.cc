// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <doctest/doctest.h>

#include "io/dialects/dialects.h"

namespace shardplan {
namespace {

TEST_CASE("Python is recognised by its tables") {
  CHECK(kPythonRules.recognize("return ((\"a\", PS(\"tp\")),)"));
  CHECK(kPythonRules.recognize("x = [(\"a\", None)]"));
  CHECK_FALSE(kPythonRules.recognize("[[\"a\", [\"tp\"]]]"));
  CHECK_FALSE(kPythonRules.recognize("[[\"a\", null]]"));
  CHECK_FALSE(kPythonRules.recognize("rules:\n  - [\"(a, P(x))\", []]\n"));
  CHECK_FALSE(kPythonRules.recognize(""));
}

TEST_CASE("a table is chosen by the name that the reading gives") {
  RuleSet rules;
  Diagnostics diags;
  const auto source = std::make_shared<SourceFile>(
      "r.py", "a = ((\"x\", P()),)\nb = ((\"y\", P()),)\n");
  CHECK(kPythonRules.read(source, {"b", {}}, rules, diags));
  CHECK(rules.rules.at(0).pattern == "y");
}

}  // namespace
}  // namespace shardplan
