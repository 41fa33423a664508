// SPDX-License-Identifier: Apache-2.0
#include "io/plan_values.h"

#include <doctest/doctest.h>

#include "tests/support/messages.h"

namespace shardplan {
namespace {

// Reads one value; the first message, or "" when it was read.
template <typename Read>
std::string outcome(const char* text, Read read) {
  const SourceFile source("p", text);
  Diagnostics diags;
  JsonReader json(source, diags);
  if (json.advance() && read(json, diags)) json.finish();
  return testing::messages(diags);
}

TEST_CASE("a spec is a list of nulls, names and lists of names") {
  PartitionSpec spec;
  const auto read = [&](JsonReader& json, Diagnostics&) {
    spec = {};
    return read_spec(json, "`spec`", spec);
  };
  CHECK(outcome(R"([null, "tp", ["a", "b"]])", read).empty());
  CHECK(spec == PartitionSpec{{{}, {"tp"}, {"a", "b"}}});
  CHECK(outcome("[]", read).empty());
  CHECK(spec == PartitionSpec{});
  CHECK(outcome(R"(["a b"])", read) ==
        "SP002 p:1:2 `a b` cannot be the name of an axis");
  CHECK_FALSE(outcome("[3]", read).empty());
  CHECK_FALSE(outcome("{}", read).empty());
}

TEST_CASE("an integer stays within its limit") {
  int value = 0;
  const auto read = [&](JsonReader& json, Diagnostics&) {
    return read_int(json, "`n`", 7, value);
  };
  CHECK(outcome("7", read).empty());
  CHECK(value == 7);
  CHECK(outcome("8", read) ==
        "SP002 p:1:1 `n` is 8, but at most 7 is possible");
  CHECK_FALSE(outcome("-1", read).empty());
}

TEST_CASE("a type is a dtype and a shape") {
  TensorType type;
  const auto key = [&](const char* name) {
    return [&type, name](JsonReader& json, Diagnostics& diags) {
      return read_type_key(json, name, type, diags);
    };
  };
  CHECK(outcome("[2, 3]", key("shape")).empty());
  CHECK(outcome(R"("i4")", key("dtype")).empty());
  CHECK(type == TensorType{DType::I4, {2, 3}});
  CHECK(outcome(R"("x9")", key("dtype")) == "SP005 p:1:1 unknown dtype `x9`");
}

TEST_CASE("a correction names a code that exists") {
  std::vector<Correction> corrections;
  const auto read = [&](JsonReader& json, Diagnostics&) {
    return read_correction(json, corrections);
  };
  CHECK(outcome(R"({"dim": 1, "code": "SP203", "dropped": ["tp"],
                    "reason": "r", "later": 1})",
                read)
            .empty());
  const Correction expected{1, Code::IndivisibleDimension, {"tp"}, "r"};
  CHECK(corrections == std::vector<Correction>{expected});
  CHECK(outcome(R"({"code": "SP299"})", read) ==
        "SP002 p:1:10 no code is `SP299`");
}

TEST_CASE("a stored dimension has a place, a size and a reason") {
  std::vector<StoredDim> stored;
  const auto read = [&](JsonReader& json, Diagnostics&) {
    return read_stored_dim(json, stored);
  };
  CHECK(outcome(R"({"dim":1,"size":8,"why":"x","later":[1]})", read).empty());
  CHECK(stored == std::vector<StoredDim>{{1, 8, "x"}});
  CHECK(!outcome(R"({"dim":-1})", read).empty());
  CHECK(!outcome(R"({"size":"8"})", read).empty());
}

TEST_CASE("a declaration is read as it is written") {
  Declarations declared;
  const auto read = [&](JsonReader& json, Diagnostics&) {
    return read_declaration(json, declared);
  };
  CHECK(outcome(R"("pad-vocab=8")", read).empty());
  CHECK(declared.pad_vocab == 8);
  CHECK(!outcome(R"("pad-vocab")", read).empty());
  CHECK(!outcome("8", read).empty());
}

}  // namespace
}  // namespace shardplan
