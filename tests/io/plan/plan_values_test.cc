// SPDX-License-Identifier: Apache-2.0
#include "io/plan/plan_values.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "io/plan/plan_file.h"
#include "tests/support/messages.h"
#include "tests/support/property.h"

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
    return read_spec(json, "`spec`", read_axis_name, spec);
  };
  CHECK(outcome(R"([null, "tp", ["a", "b"]])", read).empty());
  CHECK(spec == PartitionSpec{{{}, {"tp"}, {"a", "b"}}});
  CHECK(outcome("[]", read).empty());
  CHECK(spec == PartitionSpec{});
  CHECK(outcome(R"(["a b"])", read) ==
        "SP002 p:1:2 `a b` is not a valid axis name");
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
  CHECK(outcome("8", read) == "SP002 p:1:1 `n` is 8, but must be at most 7");
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
        "SP002 p:1:10 unknown code `SP299`");
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

using testing::messages;

using Sections = std::vector<std::pair<std::string, std::string>>;

// A small plan that is right; tests change one section of it.
Sections sections() {
  return {{"schema", R"("shardplan.plan/1")"},
          {"mesh", R"([["fsdp",2],["tp",4]])"},
          {"on_indivisible", R"("drop")"},
          {"rules", R"([{"pattern":"w","spec":["tp"],"shadowed_by":[1]}])"},
          {"placements",
           R"([{"dtype":"bf16","shape":[8,6],"rule":1,"requested":["tp"],)"
           R"("spec":["tp",null]},{"dtype":"f32","shape":[],"spec":[]}])"},
          {"parameters", R"([["wq",0],["b",1]])"}};
}

std::string text_of(const Sections& all) {
  std::string text = "{";
  for (const auto& [key, value] : all) {
    if (text.size() > 1) text += ",\n";
    text += "\"" + key + "\":" + value;
  }
  return text + "}";
}

std::string with(const std::string& key, const std::string& value) {
  Sections all = sections();
  for (auto& [name, text] : all) {
    if (name == key) {
      text = value;
      return text_of(all);
    }
  }
  all.emplace_back(key, value);
  return text_of(all);
}

std::string without(const std::string& key) {
  Sections all = sections();
  std::erase_if(all, [&](const auto& entry) { return entry.first == key; });
  return text_of(all);
}

std::optional<SavedPlan> read(const std::string& text, Diagnostics& diags) {
  auto saved = read_plan(std::make_shared<SourceFile>("p", text), diags);
  CHECK(saved.has_value() == !diags.has_errors());
  return saved;
}

std::string problem(const std::string& text) {
  Diagnostics diags;
  read(text, diags);
  return messages(diags);
}

TEST_CASE("a saved plan gives manifest, plan and measured sizes") {
  Diagnostics diags;
  const auto saved = read(text_of(sections()), diags);
  REQUIRE(saved.has_value());
  CHECK(saved->manifest.size() == 2);
  CHECK(saved->manifest.name(1) == "b");
  CHECK(saved->manifest.where(1).text() == "\"b\"");
  CHECK(saved->plan.of(0).local_shape == Shape{2, 6});
  CHECK(saved->plan.of(0).bytes_per_device == 24);
  CHECK(saved->plan.of(0).shards == 4);
  CHECK(saved->plan.of(0).replicas == 2);
  CHECK(saved->plan.of(1).rule == 0);
  CHECK_FALSE(saved->plan.of(1).requested.has_value());
}

TEST_CASE("sizes in the file are not trusted, and later keys not minded") {
  CHECK(problem(with("fingerprint", "\"later\"")).empty());
  CHECK(problem(with("facts", R"({"from":"config","pages":[{}]})")).empty());
  Diagnostics diags;
  const auto saved = read(
      with("placements", R"([{"dtype":"bf16","shape":[8,6],"spec":["tp",null],)"
                         R"("bytes_per_device":1,"shards":99},)"
                         R"({"dtype":"f32","shape":[],"spec":[]}])"),
      diags);
  REQUIRE(saved.has_value());
  CHECK(saved->plan.of(0).bytes_per_device == 24);
  CHECK(saved->plan.of(0).shards == 4);
}

TEST_CASE("keys may stand in any order") {
  Sections all = sections();
  std::reverse(all.begin(), all.end());
  CHECK(problem(text_of(all)).empty());
}

TEST_CASE("other versions and other files are refused") {
  CHECK(
      problem(with("schema", R"("shardplan.plan/2")")) ==
      "SP002 p:1:11 this version does not read plan schema `shardplan.plan/2`");
  CHECK(problem(with("schema", R"("shardplan.report/1")")) ==
        "SP002 p:1:11 `shardplan.report/1` is not a saved-plan schema");
  CHECK(problem("[]") == "SP002 p:1:1 a saved plan must be a map, not a list");
  CHECK(problem("{").starts_with("SP002 p:1:2 "));
  CHECK(problem("").starts_with("SP002 p:1:1 "));
}

TEST_CASE("what a plan cannot be without is asked for") {
  for (const char* key : {"schema", "mesh", "on_indivisible", "rules",
                          "placements", "parameters"}) {
    CAPTURE(key);
    CHECK(problem(without(key)) ==
          "SP002 p:1:1 the saved plan has no `" + std::string(key) + "`");
  }
}

TEST_CASE("every section is checked") {
  struct Row {
    std::string key, value, expected;
  };
  const auto placement = [](const std::string& text) {
    return "[" + text + R"(,{"dtype":"f32","shape":[],"spec":[]}])";
  };
  for (const Row& row : std::vector<Row>{
           {"mesh", "{}", "SP002 p:2:8 `mesh` must be a list, not a map"},
           {"mesh", R"([["tp"]])",
            "SP002 p:2:9 an axis must be a name and a size"},
           {"mesh", R"([["tp",1,2]])",
            "SP002 p:2:17 an axis must be a name and a size"},
           {"mesh", R"([["t p",1]])",
            "SP002 p:2:10 `t p` is not a valid axis name"},
           {"mesh", R"([["?",1]])", "SP002 p:2:10 an axis cannot be named `?`"},
           {"mesh", R"([["tp",1.5]])",
            "SP002 p:2:15 an axis size must be an integer below 2^63, "
            "not `1.5`"},
           {"on_indivisible", R"("maybe")",
            "SP002 p:3:18 unknown policy `maybe`"},
           {"rules", R"([{"shadowed_by":[2],"pattern":"w"}])",
            "SP002 p:4:9 `w` is shadowed by rule 2 of 1"},
           {"rules", R"([{"shadowed_by":[0]}])",
            "SP002 p:4:9 `` is shadowed by rule 0 of 1"},
           {"rules", R"([{"line":-1}])",
            "SP002 p:4:18 `line` must not be negative, but is -1"},
           {"placements", R"([{"shape":[],"spec":[]}])",
            "SP002 p:5:15 a placement has no `dtype`"},
           {"placements", R"([{"dtype":"f7"}])",
            "SP005 p:5:24 unknown dtype `f7`"},
           {"placements", R"([{"shape":[-1]}])",
            "SP002 p:5:25 an entry of `shape` must not be negative, but is -1"},
           {"placements", R"([{"rule":2}])",
            "SP002 p:5:23 `rule` is 2, but must be at most 1"},
           {"placements", R"([{"spec":[1]}])",
            "SP002 p:5:24 an entry of `spec` must be a string, not a number"},
           {"placements", R"([{"dtype":"f32","dtype":"f32"}])",
            "SP003 p:5:30 `dtype` is given twice"},
           {"placements",
            placement(R"({"dtype":"f32","shape":[4],"spec":["tp","fsdp"]})"),
            "SP002 p:5:15 spec P(tp, fsdp) is invalid for f32[4]: it has "
            "more entries than dimensions"},
           {"placements",
            placement(R"({"dtype":"f32","shape":[4,4],"spec":["tp","tp"]})"),
            "SP002 p:5:15 spec P(tp, tp) is invalid for f32[4, 4]: axis "
            "`tp` is used twice"},
           {"placements",
            placement(R"({"dtype":"f32","shape":[4],"spec":["ep"]})"),
            "SP002 p:5:15 spec P(ep) is invalid for f32[4]: the mesh has "
            "no axis `ep`"},
           {"placements",
            placement(R"({"dtype":"f32","shape":[6],"spec":["tp"]})"),
            "SP002 p:5:15 spec P(tp) is invalid for f32[6]: 6 is not "
            "divisible"},
           {"placements",
            placement(
                R"({"dtype":"f32","shape":[9223372036854775807],"spec":[]})"),
            "SP002 p:5:15 f32[9223372036854775807] exceeds 2^63 bytes"},
           {"placements", placement(R"({"corrections":[{"code":"SP999"}]})"),
            "SP002 p:5:39 unknown code `SP999`"},
           {"parameters", R"([["a",2]])",
            "SP002 p:6:16 `a` has placement 2, but there are 2"},
           {"parameters", R"([["a",-1]])",
            "SP002 p:6:20 a parameter's placement must not be negative, "
            "but is -1"},
           {"parameters", R"([["a"]])",
            "SP002 p:6:15 a parameter must be a name and a placement"},
           {"parameters", R"([["a",0],["a",1]])",
            "SP003 p:6:24 `a` is given twice"},
           {"facts", R"({"from":"hearsay"})",
            "SP002 p:7:17 `from` cannot be `hearsay`"},
           {"facts", R"({"windows":[0,-2]})",
            "SP002 p:7:23 a window cannot be negative"},
           {"facts", R"({"heads":-1})",
            "SP002 p:7:18 `heads` must not be negative, but is -1"},
           {"strict", "1",
            "SP002 p:7:10 `strict` must be true or false, not a number"},
           {"declared_axes", "[\"\"]",
            "SP002 p:7:18 `` is not a valid axis name"}}) {
    CAPTURE(row.key);
    CAPTURE(row.value);
    CHECK(problem(with(row.key, row.value)) == row.expected);
  }
}

TEST_CASE("a mesh that cannot be is refused as everywhere") {
  for (const char* mesh : {"[]", R"([["tp",0]])", R"([["tp",2],["tp",2]])",
                           R"([["a",1099511627776],["b",2]])"}) {
    CAPTURE(mesh);
    CHECK(problem(with("mesh", mesh)).substr(0, 10) == "SP007 p:2:");
  }
}

TEST_CASE("under pad and chunk a dimension need not divide") {
  const std::string placements =
      R"([{"dtype":"f32","shape":[6],"spec":["tp"]},)"
      R"({"dtype":"f32","shape":[],"spec":[]}])";
  for (const char* policy : {"\"pad\"", "\"chunk\""}) {
    Sections all = sections();
    all[2].second = policy;
    all[4].second = placements;
    Diagnostics diags;
    const auto saved = read(text_of(all), diags);
    REQUIRE(saved.has_value());
    CHECK(saved->plan.of(0).local_shape == Shape{2});
  }
}

TEST_CASE("a key that is given twice is refused") {
  CHECK(problem(text_of(sections()).insert(1, R"("mesh":[],)")) ==
        "SP003 p:2:1 `mesh` is given twice");
}

TEST_CASE("damaged plans never do more than report") {
  const std::string whole = text_of(sections());
  CHECK(holds("any bytes changed", [&] {
    std::string text = whole;
    const auto changes = draw_in(1, 4);
    for (int i = 0; i < changes; ++i) {
      text[draw_in<size_t>(0, text.size())] =
          draw_of({'0', '9', '"', '[', ']', ',', 'x', '-', '{', '\0'});
    }
    Diagnostics diags;
    const auto saved =
        read_plan(std::make_shared<SourceFile>("p", text), diags);
    ENSURE(saved.has_value() != diags.has_errors());
  }));
}

TEST_CASE("dimensions stored as declared must exist, ascend and not shrink") {
  const auto stored = [](const std::string& dims) {
    return with(
        "placements",
        R"([{"dtype":"bf16","shape":[8,6],"spec":["tp",null],"stored":)" +
            dims + R"(},{"dtype":"f32","shape":[],"spec":[]}])");
  };
  Diagnostics diags;
  const auto saved = read(
      stored(R"([{"dim":0,"size":16,"why":"x"},{"dim":1,"size":6}])"), diags);
  REQUIRE(saved.has_value());
  CHECK(saved->plan.of(0).local_shape == Shape{4, 6});
  CHECK(saved->plan.of(0).stored_dims.at(0).why == "x");
  for (const char* bad :
       {R"([{"dim":0,"size":4}])", R"([{"dim":2,"size":8}])", R"([{"size":8}])",
        R"([{"dim":1,"size":6},{"dim":0,"size":8}])",
        R"([{"dim":1,"size":6},{"dim":1,"size":8}])"}) {
    CAPTURE(bad);
    CHECK(problem(stored(bad)).find("cannot be stored as") !=
          std::string::npos);
  }
  CHECK(problem(stored(R"([{"dim":0,"size":9223372036854775804}])"))
            .find("exceeds 2^63 bytes as stored") != std::string::npos);
  // The stored size is what the axes must divide.
  CHECK(problem(stored(R"([{"dim":0,"size":9}])")).find("not divisible") !=
        std::string::npos);
  CHECK(problem(stored("{}")).find("must be a list") != std::string::npos);
}

TEST_CASE("declarations of a plan are read and checked") {
  Diagnostics diags;
  const auto saved =
      read(with("declare", R"(["interleave-qkv","pad-vocab=64"])"), diags);
  REQUIRE(saved.has_value());
  CHECK(saved->plan.declarations.interleave_qkv);
  CHECK(saved->plan.declarations.pad_vocab == 64);
  CHECK(problem(with("declare", R"(["interleave"])"))
            .find("unknown declaration `interleave`") != std::string::npos);
  CHECK(problem(with("declare", "3")).find("must be a list") !=
        std::string::npos);
}

}  // namespace

}  // namespace shardplan
