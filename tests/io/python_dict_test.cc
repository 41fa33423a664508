// SPDX-License-Identifier: Apache-2.0
#include "io/python_dict.h"

#include <string>

#include <doctest/doctest.h>

namespace shardplan {
namespace {

// "name{key:value ..}" with the tokens of values, `!` where it stopped.
std::string dicts_text(const std::string& text) {
  const SourceFile source("t", text);
  const auto tokens = python_tokens(source);
  std::string all;
  for (const PythonDict& dict : python_dicts(tokens)) {
    all += dict.name + "{";
    for (const PythonEntry& entry : dict.entries) {
      all += entry.key + ":";
      for (size_t i = entry.begin; i < entry.end; ++i) all += tokens[i].text;
      all += " ";
    }
    all += dict.problem ? "!}" : "}";
  }
  return all;
}

TEST_CASE("dictionaries are found by their looks, with what they are called") {
  CHECK(dicts_text("class A:\n  plan: dict[str, str] = {\n"
                   "    'a' 'b': \"c\",  # why\n    \"d\": f(1, [2])}\n"
                   "  _x = {}\nreturn {\"k\": {\"n\": 1}}\n") ==
        "plan{ab:c d:f(1,[2]) }_x{}{k:{n:1} }");
  CHECK(dicts_text("a = {1, 2}\nb = {x: 1}\n") == "");
}

TEST_CASE("an entry that has no literal key is passed over, and noted") {
  CHECK(dicts_text("p = {\"a\": 1, **other, \"b\": 2}") == "p{a:1 b:2 !}");
  CHECK(dicts_text("p = {\"a\": 1, f\"x{i}\": 2}") == "p{a:1 !}");
  CHECK(dicts_text("p = {\"a\": 1") == "p{a:1 !}");
  CHECK(dicts_text("p = {\"a\": 1)]") == "p{a:1 !}");
  CHECK(dicts_text("p = {\"a\":") == "p{a: !}");
  CHECK(dicts_text("{") == "");
}

}  // namespace
}  // namespace shardplan
