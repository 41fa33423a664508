// SPDX-License-Identifier: Apache-2.0
#include "core/rules.h"

#include <doctest/doctest.h>

#include "resolve/match.h"

namespace shardplan {
namespace {

TEST_CASE("a declaration is read as it is written") {
  Declarations declared;
  CHECK(!declared.any());
  CHECK(declaration_texts(declared).empty());
  CHECK(add_declaration("pad-vocab=128", declared));
  CHECK(declared.pad_vocab == 128);
  CHECK(declared.any());
  CHECK(add_declaration("replicate-kv-heads", declared));
  CHECK(add_declaration("interleave-qkv", declared));
  CHECK(!declared.interleave_gate_up);
  CHECK(add_declaration("interleave-gate-up", declared));
  CHECK(declaration_texts(declared) ==
        std::vector<std::string>{"replicate-kv-heads", "interleave-gate-up",
                                 "interleave-qkv", "pad-vocab=128"});
}

TEST_CASE("texts of declarations read back as the same declarations") {
  for (int bits = 0; bits < 16; ++bits) {
    Declarations declared;
    declared.replicate_kv_heads = (bits & 1) != 0;
    declared.interleave_gate_up = (bits & 2) != 0;
    declared.interleave_qkv = (bits & 4) != 0;
    declared.pad_vocab = (bits & 8) != 0 ? kMaxPadVocab : 0;
    Declarations again;
    for (const std::string& text : declaration_texts(declared)) {
      CHECK(add_declaration(text, again));
    }
    CHECK(again == declared);
  }
}

TEST_CASE("anything else is not a declaration and changes nothing") {
  for (const char* text :
       {"", "replicate", "replicate-kv-heads ", "pad-vocab",
        "pad-vocab=", "pad-vocab=0", "pad-vocab=-8", "pad-vocab=8x",
        "pad-vocab=1048577", "pad-vocab=99999999999999999999", "interleave"}) {
    CAPTURE(text);
    Declarations declared;
    CHECK(!add_declaration(text, declared));
    CHECK(!declared.any());
  }
}

TEST_CASE("help names every declaration") {
  CHECK(declaration_forms() ==
        std::vector<std::string>{"replicate-kv-heads", "interleave-gate-up",
                                 "interleave-qkv", "pad-vocab=M"});
}

TEST_CASE("an exact pattern escapes what patterns give a meaning") {
  CHECK(exact_pattern("model/layers/0/kernel") == "^model/layers/0/kernel$");
  CHECK(exact_pattern("lm_head.weight") == "^lm_head\\.weight$");
  CHECK(exact_pattern("['a'](b)*") == "^\\['a'\\]\\(b\\)\\*$");
  CHECK(exact_pattern("") == "^$");
}

TEST_CASE("an exact pattern is found in its own name alone") {
  const std::vector<std::string> names = {"a.b",   "axb",  "a.b.c", "x.a.b",
                                          "a|b",   "a\\b", "a+",    "aa",
                                          "größe", "^a$",  "{1,2}"};
  RuleSet rules;
  for (const std::string& name : names) {
    rules.rules.push_back({exact_pattern(name), {}, {}, {}, {}});
  }
  Diagnostics diags;
  const auto matcher = Matcher::compile(rules, false, diags);
  REQUIRE(matcher.has_value());
  for (size_t i = 0; i < names.size(); ++i) {
    CAPTURE(names[i]);
    std::vector<int> found;
    matcher->find(names[i], found);
    CHECK(found == std::vector<int>{static_cast<int>(i)});
  }
}

}  // namespace

}  // namespace shardplan
