// SPDX-License-Identifier: Apache-2.0
#include "io/native/manifest.h"

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "io/formats.h"
#include "tests/io/document_text.h"
#include "tests/support/memory_host.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

using testing::line_and_column;

std::optional<Manifest> read(const std::string& text, Diagnostics& diags) {
  testing::MemoryHost host;
  return kNative.read({"m", std::make_shared<SourceFile>("m", text)}, host,
                      diags);
}

std::string axes_of(const AxisLabels& axes) {
  std::string all;
  for (const auto& axis : axes) all += " " + axis.value_or("null");
  return all;
}

// "name dtype[shape] axes; ..", buffers behind a bar; then the diagnostics.
std::string manifest_text(const std::string& text) {
  Diagnostics diags;
  const auto manifest = read(text, diags);
  if (!manifest) return testing::text_of(diags);
  std::string all;
  for (size_t i = 0; i < manifest->size(); ++i) {
    if (i > 0) all += "; ";
    all += std::string(manifest->name(i)) + " " + type_text(manifest->type(i));
    if (const AxisLabels* axes = manifest->axes(i)) all += axes_of(*axes);
  }
  for (const Manifest::Buffer& buffer : manifest->buffers()) {
    all += "| " + buffer.name + " " + type_text(buffer.type);
  }
  return all + testing::text_of(diags);
}

struct Case {
  std::string text;
  std::string expected;
};

void check(std::span<const Case> cases) {
  for (const Case& c : cases) {
    CAPTURE(c.text);
    CHECK(manifest_text(c.text) == c.expected);
  }
}

TEST_CASE("every shape of a native manifest is read") {
  const Case kCases[] = {
      {R"({"parameters": {"b/w": {"shape": [2, 3], "dtype": "bf16"},
                          "a/w": {"dtype": "F32", "shape": []}}})",
       "b/w bf16[2, 3]; a/w f32[]"},
      {R"({"z": {"shape": [2], "dtype": "float32"},
           "a": {"shape": [0], "dtype": "i8"}})",
       "z f32[2]; a i8[0]"},
      {R"([{"name": "z", "shape": [2], "dtype": "f32"},
           {"dtype": "f16", "name": "a", "shape": [3]}])",
       "z f32[2]; a f16[3]"},
      {R"({"parameters": [{"name": "z", "shape": [2], "dtype": "f32"}]})",
       "z f32[2]"},
      {R"({"m": {"w": {"shape": [2], "dtype": "f32"},
                 "b": {"shape": [3], "dtype": "f32"}}})",
       "m/b f32[3]; m/w f32[2]"},
      {R"({"\u0070arameters": {"w": {"shape": [2], "dtype": "f32"}}})",
       "w f32[2]"},
      {R"({"parameters": {"m": {"w": {"shape": [2], "dtype": "f32"}}}})",
       "m/w f32[2]"},
      {"{}", ""},
      {"[]", ""},
      {R"({"parameters": {}})", ""},
      {R"({"$schema": "x", "__metadata__": {"a": [1]}, "name": "n",
           "w": {"shape": [1], "dtype": "f32"}})",
       "w f32[1]"},
      {R"({"name": {"shape": [1], "dtype": "f32"}})", "name f32[1]"},
      {R"({"parameters": {"shape": [1], "dtype": "f32"}})",
       "parameters f32[1]"},
      {R"({"parameters": {"dtype": {"shape": [1], "dtype": "f32"}}})",
       "dtype f32[1]"},
      {R"({"w": {"shape": [2, 3], "dtype": "f32", "axes": ["vocab", null]},
           "v": {"shape": [2], "dtype": "f32", "axes": null}})",
       "w f32[2, 3] vocab null; v f32[2]"},
      {R"({"w": {"shape": [2], "dtype": "f32", "buffer": false},
           "v": {"shape": [2], "dtype": "f32", "buffer": true}})",
       "w f32[2]| v f32[2]"},
      {R"({"\u00e9\/w": {"sh\u0061pe": [2], "dtype": "f\u00332"}})",
       "é/w f32[2]"},
  };
  check(kCases);
}

TEST_CASE("YAML manifests are read as JSON ones are") {
  const Case kCases[] = {
      {"parameters:\n  w: {shape: [2, 3], dtype: bf16, axes: [a, ~]}\n",
       "w bf16[2, 3] a null"},
      {"w:\n  shape: [2]\n  dtype: f32\n  buffer: true\n", "| w f32[2]"},
      {"- {name: w, shape: [0x10], dtype: f32}\n", "w f32[16]"},
      {"{w: {shape: [2], dtype: f32}}", "w f32[2]"},
      {"layers:\n  - w: &t {shape: [2], dtype: f32}\n  - w: *t\n",
       "layers/0/w f32[2]; layers/1/w f32[2]"},
      {"\xEF\xBB\xBF{\"w\": {\"shape\": [2], \"dtype\": \"f32\"}}", "w f32[2]"},
  };
  check(kCases);
}

TEST_CASE("nested trees are sorted per level, lists by position") {
  const auto leaf = [](const std::string& key) {
    return "\"" + key + R"(": {"shape": [1], "dtype": "u8"})";
  };
  const auto names = [](const std::string& text) {
    Diagnostics diags;
    const auto manifest = read(text, diags);
    REQUIRE(manifest);
    std::string all;
    for (size_t i = 0; i < manifest->size(); ++i) {
      all += (i == 0 ? "" : " ") + std::string(manifest->name(i));
    }
    return all;
  };
  CHECK(names("{" + leaf("a-b") + ", \"a\": {" + leaf("z") + "}}") ==
        "a/z a-b");
  CHECK(names("{" + leaf("b") + "," + leaf("a") + ", \"n\": null}") == "b a");
  CHECK(names("{" + leaf("b") + "," + leaf("a") + ", \"n\": {}}") == "a b");
  CHECK(names("{" + leaf("b") + "," + leaf("a") + ", \"n\": []}") == "a b");
  CHECK(names("{\"l\": {" + leaf("10") + "," + leaf("2") + "}}") == "l/10 l/2");
  std::string items;
  for (int i = 0; i < 12; ++i) items += (i == 0 ? "{" : ",{") + leaf("w") + "}";
  CHECK(names("{\"l\": [" + items + ", null]}") ==
        "l/0/w l/1/w l/2/w l/3/w l/4/w l/5/w l/6/w l/7/w l/8/w l/9/w l/10/w "
        "l/11/w");
  CHECK(names("{\"\": {" + leaf("a") + "}}") == "/a");
  CHECK(names("{\"é\": {" + leaf("a") + "}, \"z\": {" + leaf("a") + "}}") ==
        "z/a é/a");
}

TEST_CASE("order keeps axes and buffers with their tensors") {
  CHECK(manifest_text(R"({"b": {"w": {"shape": [1], "dtype": "u8",
                                      "axes": ["x"]}},
                          "a": {"shape": [2], "dtype": "u8", "axes": ["y"]},
                          "c": {"m": {"shape": [3], "dtype": "u8",
                                      "buffer": true}}})") ==
        "a u8[2] y; b/w u8[1] x| c/m u8[3]");
}

TEST_CASE("common mistakes are reported with their place") {
  const Case kCases[] = {
      {"{\"w\": {\"shape\": [2]}}", "SP002 1:2 parameter `w` has no `dtype`\n"},
      {"{\"w\": {\"dtype\": \"f32\"}}",
       "SP002 1:2 parameter `w` has no `shape`\n"},
      {"{\"w\": {\"dtype\": \"f32\", \"shpae\": [2]}}",
       "SP004 1:24 unknown key `shpae`\n"},
      {"{\"w\": {\"shape\": [2],\n \"dtype\": \"bf61\"}}",
       "SP005 2:11 `bf61` is not a dtype\n"},
      {"{\"w\": {\"shape\": [2], \"dtype\": 16}}",
       "SP002 1:31 `dtype` must be a string, not a number\n"},
      {"{\"w\": {\"shape\": [2], \"dtype\": null}}",
       "SP002 1:31 `dtype` must be a string, not null\n"},
      {"{\"w\": {\"shape\": 2, \"dtype\": \"f32\"}}",
       "SP002 1:17 `shape` must be a list, not a number\n"},
      {"{\"w\": {\"shape\": [2], \"dtype\": \"f32\", \"buffer\": 1}}",
       "SP002 1:48 `buffer` must be true or false, not a number\n"},
      {"{\"w\": {\"shape\": [-1], \"dtype\": \"f32\"}}",
       "SP002 1:18 a dimension is negative\n"},
      {"{\"w\": {\"shape\": [1.5], \"dtype\": \"f32\"}}",
       "SP002 1:18 a dimension is not a whole number\n"},
      {"{\"w\": {\"shape\": [9223372036854775808], \"dtype\": \"f32\"}}",
       "SP002 1:18 a dimension does not fit in 63 bits\n"},
      {"{\"w\": {\"shape\": [\"a\", [1]], \"dtype\": \"f32\"}}",
       "SP002 1:18 a dimension must be an integer, not a string\n"
       "SP002 1:23 a dimension must be an integer, not a list\n"},
      {"{\"w\": {\"shape\": [4611686018427387904, 4], \"dtype\": \"u8\"}}",
       "SP002 1:2 with `w` the manifest exceeds 2^63 bytes\n"},
      {"{\"v\": {\"shape\": [9223372036854775807], \"dtype\": \"u8\"},\n"
       "\"w\": {\"shape\": [1], \"dtype\": \"u8\"}}",
       "SP002 2:1 with `w` the manifest exceeds 2^63 bytes\n"},
      {"{\"w\": {\"shape\": [2], \"dtype\": \"f32\", \"axes\": [\"a\", "
       "\"b\"]}}",
       "SP002 1:38 `axes` of `w` names 2 dimensions, but the shape has 1\n"},
      {"{\"w\": {\"shape\": [2], \"dtype\": \"f32\", \"axes\": [1]}}",
       "SP002 1:47 an entry of `axes` must be a name or null, not a number\n"},
      {"{\"w\": {\"shape\": [2], \"dtype\": \"f32\", \"dytpe\": 1}}",
       "SP004 1:38 unknown key `dytpe`\n"},
      {"{\"w\": {\"shape\": [2], \"dtype\": \"f32\", \"sub\": {\"shape\": [1], "
       "\"dtype\": \"f32\"}}}",
       "SP004 1:38 unknown key `sub`\n"},
      {"{\"w\": {\"shape\": [2], \"dtype\": \"f32\", \"name\": \"w\"}}",
       "SP004 1:38 unknown key `name`\n"},
      {"{\"w\": {\"shape\": [2], \"shape\": [3], \"dtype\": \"f32\"}}",
       "SP003 1:22 key `shape` is given twice (first given here 1:8)\n"},
      {"{\"w\": {\"shape\": [2], \"dtype\": \"f32\"}, \"v\": 3}",
       "SP002 1:44 `v` is neither a parameter nor a group of parameters\n"},
      {"{\"v\": 3, \"w\": {\"shape\": [2], \"dtype\": \"f32\"}}",
       "SP002 1:7 `v` is neither a parameter nor a group of parameters\n"},
      {"{\"m\": {\"v\": 3, \"w\": {\"shape\": [2], \"dtype\": \"f32\"}}}",
       "SP002 1:13 `m/v` is neither a parameter nor a group of parameters\n"},
      {"[{\"shape\": [2], \"dtype\": \"f32\"}]",
       "SP002 1:2 an entry of the list has no `name`\n"},
      {"[{\"name\": \"w\", \"dtype\": \"f32\"}]",
       "SP002 1:11 parameter `w` has no `shape`\n"},
      {"{\"w\": {\"shape\": [2], \"dtype\": \"f32\"}",
       "SP002 1:37 expected `,` or `}`, but the text ends\n"},
      {"{\"w\": {\"shape\": [2], \"dtype\": \"f32\"}} x",
       "SP002 1:39 the document ends before `x`\n"},
      {"w: {shape: [2], dtype: f32}\nv: {shape: [1.5], dtype: f23}\n",
       "SP002 2:13 a dimension is not a whole number\n"
       "SP005 2:26 `f23` is not a dtype\n"},
  };
  check(kCases);
}

TEST_CASE("wrappers are read strictly") {
  const Case kCases[] = {
      {"{\"parameters\": {}, \"facts\": {\"heads\": 0}}",
       "SP002 1:39 fact `heads` must be a positive integer\n"},
      {"{\"parameters\": {}, \"facts\": {\"heads\": \"8\"}}",
       "SP002 1:39 fact `heads` must be a positive integer\n"},
      {"{\"parameters\": {}, \"facts\": {\"heads\": 8, \"heads\": 8}}",
       "SP003 1:42 key `heads` is given twice (first given here 1:30)\n"},
      {"{\"parameters\": {}, \"facts\": {\"haeds\": 8}}",
       "SP004 1:30 fact `haeds` is not used\n"},
      {"{\"parameters\": {}, \"facts\": {\"windows\": 8}}",
       "SP002 1:41 `windows` must be a list, not a number\n"},
      {"{\"parameters\": {}, \"facts\": {\"windows\": [4, -1, [2]]}}",
       "SP002 1:45 an item of `windows` must be a number of tokens, or 0 for "
       "no limit\n"
       "SP002 1:49 an item of `windows` must be a number of tokens, or 0 for "
       "no limit\n"},
      {"{\"parameters\": {}, \"facts\": 3}",
       "SP002 1:29 `facts` must be a map, not a number\n"},
      {"{\"parameters\": {}, \"name\": 3}",
       "SP002 1:28 `name` must be a string, not a number\n"},
      {"{\"parameters\": {}, \"parmeters\": {\"a\": {}}}",
       "SP004 1:20 unknown key `parmeters`\n"},
      {"{\"version\": 1, \"parameters\": {}}",
       "SP004 1:2 unknown key `version`\n"},
      {"{\"parameters\": {}, \"parameters\": {}}",
       "SP003 1:20 key `parameters` is given twice (first given here 1:2)\n"},
      {"{\"parameters\": {\"w\": 3}}",
       "SP002 1:22 `w` is neither a parameter nor a group of parameters\n"},
      {"{\"parameters\": 3}", "SP006 1:16 this is not a manifest\n"},
  };
  check(kCases);
}

TEST_CASE("facts come from the manifest") {
  Diagnostics diags;
  const auto manifest =
      read(R"({"name": "tiny", "facts": {"heads": 8, "kv_heads": 2,
               "head_dim": 64, "experts": 4, "layers": 3, "window": 9,
               "windows": [0, 128, 0]},
               "parameters": {}})",
           diags);
  REQUIRE(manifest);
  CHECK(manifest->model_name == "tiny");
  CHECK(manifest->format == "native");
  CHECK(manifest->facts.from == FactsFrom::Manifest);
  CHECK(manifest->facts.heads == 8);
  CHECK(manifest->facts.kv_heads == 2);
  CHECK(manifest->facts.head_dim == 64);
  CHECK(manifest->facts.experts == 4);
  CHECK(manifest->facts.layers == 3);
  CHECK(manifest->facts.windows == std::vector<int64_t>{0, 128, 0});
  REQUIRE(diags.all().size() == 1);
  CHECK(diags.all()[0].severity == Severity::Warning);
  CHECK(diags.all()[0].code == Code::UnknownKey);
}

std::string shown(const std::optional<Manifest>& manifest,
                  const Diagnostics& diags) {
  std::string text = testing::text_of(diags);
  if (!manifest) return text + "none";
  for (size_t i = 0; i < manifest->size(); ++i) {
    const Span where = manifest->where(i);
    text += std::string(manifest->name(i)) + " " +
            type_text(manifest->type(i)) + " " +
            (manifest->axes(i) != nullptr ? "axes" : "") + "; ";
    CHECK(where.text().front() == '"');
  }
  for (const Manifest::Buffer& buffer : manifest->buffers()) {
    text += "| " + buffer.name + " " + type_text(buffer.type) + "; ";
  }
  return text;
}

// The slow twin: the same entries with another number of blanks in each, so
// that none has the bytes of another. They end lines, so columns are the same.
TEST_CASE("entries spelled alike are read as those that are not") {
  CHECK(holds([] {
    std::string alike = "{";
    std::string unlike = "{";
    const auto count = draw_in(0, 12);
    const bool deep = draw_in(0, 3) == 0;
    for (int i = 0; i < count; ++i) {
      const std::string key = draw_of<std::string>(
          {"a", "b", "c/d", "name", "shape", "dtype", "__metadata__", "x"});
      const std::string inside = draw_of<std::string>(
          {R"("shape": [2, 3], "dtype": "f32")",
           R"("dtype": "f32", "shape": [2, 3])",
           R"("shape": [2, 3], "dtype": "f32", "buffer": true)",
           R"("shape": [2, 3], "dtype": "f32", "axes": ["a", null])",
           R"("shape": [2, 3], "dtype": "f32", "axes": null)",
           R"("shape": [2, -3], "dtype": "f32")", R"("shape": [2, 3])",
           R"("shape": [2], "dtype": "f32", "z": {"shape": [], "dtype": "u8"})",
           R"("z": {"shape": [], "dtype": "u8"})",
           R"("shape": [4611686018427387904], "dtype": "u8")"});
      const std::string begin =
          (i > 0 ? ",\n" : "\n") +
          ("\"" + key + (draw_bool() ? std::to_string(i % 7) : "") + "\": ") +
          (deep ? "{\"w\": {" : "{");
      const std::string end = deep ? "}}" : "}";
      alike += begin + inside + end;
      unlike +=
          begin + inside + std::string(static_cast<size_t>(i) + 1, ' ') + end;
    }
    Diagnostics a;
    Diagnostics b;
    const auto fast = read(alike + "\n}", a);
    const auto slow = read(unlike + "\n}", b);
    ENSURE(shown(fast, a) == shown(slow, b));
  }));
}

TEST_CASE("the word of a wrapper is found wherever it stands") {
  for (size_t before = 0; before < 40; ++before) {
    for (const bool there : {true, false}) {
      CAPTURE(before);
      const std::string filler(before, 'p');
      const std::string key = there ? "parameters" : "parameterz";
      Diagnostics diags;
      const auto manifest =
          read("{\"name\": \"" + filler + "\", \"" + key +
                   R"(": {"w": {"shape": [2], "dtype": "f32"}}})",
               diags);
      REQUIRE(manifest);
      CHECK(manifest->name(0) == (there ? "w" : "parameterz/w"));
    }
  }
}

TEST_CASE("keys given twice in a tree are found, whatever they hold") {
  const std::string leaf = R"({"shape": [1], "dtype": "u8"})";
  const Case kCases[] = {
      {"{\"a\": {\"x\": " + leaf + "}, \"a\": {\"y\": " + leaf + "}}",
       "SP003 1:45 `a` is given twice (first given here 1:2)\n"},
      {"{\"a\": null, \"a\": " + leaf + "}",
       "SP003 1:13 `a` is given twice (first given here 1:2)\n"},
      {"{\"a\": " + leaf + ", \"a\": [" + leaf + "]}",
       "SP003 1:38 `a` is given twice (first given here 1:2)\n"},
      {"{\"m\": {\"a\": " + leaf + ", \"a\": " + leaf + "}}",
       "SP003 1:44 `m/a` is given twice (first given here 1:8)\n"},
  };
  check(kCases);
}

TEST_CASE("paths that join to one name are left for the loader to find") {
  Diagnostics diags;
  const auto manifest = read(R"({"a": {"b": {"shape": [1], "dtype": "u8"}},
               "a/b": {"shape": [1], "dtype": "u8"}})",
                             diags);
  REQUIRE(manifest);
  CHECK(manifest->find_duplicate());
}

TEST_CASE("something else is recognised as no manifest") {
  const std::string kTexts[] = {
      "rules:\n  - [a, [tp]]\naxes: [tp]\n",
      "- [a, [tp]]\n- [b, []]\n",
      R"({"mesh": {"fsdp": 8, "tp": 4}})",
      "just a text\n",
      "",
      "3",
  };
  for (const std::string& text : kTexts) {
    CAPTURE(text);
    CHECK(manifest_text(text).substr(0, 5) == "SP006");
    CHECK(manifest_text(text).find("this is not a manifest") !=
          std::string::npos);
  }
}

TEST_CASE("reading stops after twenty errors and says so") {
  std::string text = "{";
  for (int i = 0; i < 30; ++i) {
    text +=
        (i == 0 ? "\"" : ",\"") + std::to_string(i) + R"(": {"shape": [1]})";
  }
  const std::string problems = manifest_text(text + "}");
  CHECK(std::count(problems.begin(), problems.end(), '\n') == 21);
  CHECK(problems.find("stopped reading the manifest: too many errors") !=
        std::string::npos);
}

TEST_CASE("what other formats claim is not taken for a native manifest") {
  CHECK(kNative.recognize(R"({"w": {"shape": [1], "dtype": "f32"}})"));
  CHECK(kNative.recognize("w: {shape: [1], dtype: f32}\n"));
  CHECK_FALSE(kNative.recognize(R"({"weight_map": {}})"));
  CHECK_FALSE(kNative.recognize(R"({"model_type": "llama"})"));
  CHECK_FALSE(kNative.recognize(R"({"schema": "shardplan.plan/1"})"));
  CHECK_FALSE(kNative.recognize(std::string("8\0\0\0{", 5)));
}

TEST_CASE("places of parameters are their names in the file") {
  Diagnostics diags;
  const auto manifest = read(
      "{\"a\": {\"shape\": [1], \"dtype\": \"u8\"},\n"
      "\"b\": {\"shape\": [1], \"dtype\": \"u8\"}}",
      diags);
  REQUIRE(manifest);
  CHECK(line_and_column(manifest->where(1)) == "2:1");
  CHECK(manifest->where(1).text() == "\"b\"");
}

// A random tree as JSON text, with what a walk of it gives.
struct Tree {
  std::string json;
  std::vector<std::string> names;
};

Tree random_tree(int depth, const std::string& path) {
  const std::string slash = path.empty() ? "" : path + "/";
  const int kind = path.empty() ? 1 : draw_in(0, depth == 0 ? 1 : 4);
  if (kind == 0) return {R"({"shape": [1], "dtype": "u8"})", {path}};
  const int count = draw_in(0, 4);
  Tree tree;
  if (kind == 3) {
    for (int i = 0; i < count; ++i) {
      const Tree item = random_tree(depth - 1, slash + std::to_string(i));
      tree.json += (i == 0 ? "" : ",") + item.json;
      tree.names.insert(tree.names.end(), item.names.begin(), item.names.end());
    }
    return {"[" + tree.json + "]", tree.names};
  }
  std::map<std::string, Tree> children;
  for (int i = 0; i < count; ++i) {
    const auto key =
        draw_of<std::string>({"a", "a-b", "b", "10", "2", "a b", "\x7f", "é"});
    children.emplace(key, random_tree(depth - 1, slash + key));
  }
  std::vector<std::string> members;
  for (const auto& [key, child] : children) {
    members.push_back("\"" + key + "\": " + child.json);
    tree.names.insert(tree.names.end(), child.names.begin(), child.names.end());
  }
  if (draw_bool()) std::reverse(members.begin(), members.end());
  for (const std::string& member : members) {
    tree.json += (tree.json.empty() ? "" : ",") + member;
  }
  return {"{" + tree.json + "}", tree.names};
}

TEST_CASE("a tree is walked as JAX walks it") {
  CHECK(holds("names in order", [] {
    // A group at the top makes every manifest nested.
    Tree tree = random_tree(3, "");
    const bool empty = tree.json == "{}";
    tree.json.insert(1, empty ? "\"~\": {}" : "\"~\": {},");
    Diagnostics diags;
    const auto manifest = read(tree.json, diags);
    ENSURE(manifest.has_value());
    std::vector<std::string> names;
    for (size_t i = 0; i < manifest->size(); ++i) {
      names.emplace_back(manifest->name(i));
    }
    ENSURE(names == tree.names);
  }));
}

// JSON and YAML tokens give the same manifest; what tells a wrapper.

std::string result_text(const std::optional<Manifest>& manifest,
                        const Diagnostics& diags) {
  std::string all = manifest ? manifest->model_name + ":" : "refused:";
  for (size_t i = 0; manifest && i < manifest->size(); ++i) {
    all += " " + std::string(manifest->name(i)) + "=" +
           type_text(manifest->type(i));
  }
  return all + "\n" + testing::text_of(diags);
}

std::string from_json(const std::string& text) {
  Diagnostics diags;
  const SourceFile source("t", text);
  JsonScanner ahead(source);
  JsonScanner scanner(source);
  const bool wrapped = has_wrapper(TokenSource(ahead));
  const auto manifest = read_native(TokenSource(scanner), wrapped, diags);
  return result_text(manifest, diags);
}

std::string from_document(const std::string& text) {
  Diagnostics diags;
  const auto document =
      parse_document(std::make_shared<SourceFile>("t", text), diags);
  REQUIRE(document);
  const bool wrapped = has_wrapper(TokenSource(*document));
  const auto manifest = read_native(TokenSource(*document), wrapped, diags);
  return result_text(manifest, diags);
}

TEST_CASE("a text and its document are read alike") {
  const std::string kTexts[] = {
      R"({"name": "n", "parameters": {"b": {"shape": [2], "dtype": "f32"},
          "a": {"c": [{"shape": [], "dtype": "i4"}]}}})",
      R"([{"name": "b", "shape": [2], "dtype": "f32", "axes": ["x"]}])",
      R"({"b": {"shape": [2.5], "dtype": "f31", "z": 1}})",
      R"({"b": {"shape": [2], "dtype": "f32"}, "c": true, "d": {"e": "x"}})",
      R"({"parameters": {}, "facts": {"heads": -1, "experts": 2}, "x": []})",
      R"({"parameters": [1, {"name": "a"}, {"dtype": "u8"}, {}]})",
  };
  for (const std::string& text : kTexts) {
    CAPTURE(text);
    CHECK(from_json(text) == from_document(text));
  }
}

TEST_CASE("the key `parameters` makes a wrapper unless it is a tensor") {
  const std::pair<std::string, bool> kCases[] = {
      {R"({"parameters": {}})", true},
      {R"({"parameters": []})", true},
      {R"({"x": {"parameters": 1}, "parameters": {"a": 1}})", true},
      {R"({"parameters": {"shape": {"shape": [1], "dtype": "u8"}}})", true},
      {R"({"parameters": {"dtype": {"shape": [1], "dtype": "u8"}}})", true},
      {R"({"parameters": {"shape": [1], "dtype": "u8"}})", false},
      {R"({"parameters": {"dtype": "u8", "shape": [1]}})", false},
      {R"({"parameters": 3})", false},
      {R"({"x": {"parameters": {}}})", false},
      {R"([{"parameters": {}}])", false},
      {R"({"x": )", false},
      {R"({})", false},
  };
  for (const auto& row : kCases) {
    const auto& text = row.first;
    const auto& expected = row.second;
    CAPTURE(text);
    const SourceFile source("t", text);
    JsonScanner scanner(source);
    CHECK(has_wrapper(TokenSource(scanner)) == expected);
  }
}

TEST_CASE("what is odd below a wrong member is not reported beside it") {
  CHECK(from_json(R"({"w": {"shape": [1], "dtype": "u8", "x": {"y": [1]}}})") ==
        "refused:\nSP004 1:37 unknown key `x`\n");
}

TEST_CASE("tokens that end in an error leave no manifest") {
  CHECK(from_json(R"({"w": {"shape": [1], "dtype": "u8"}, )") == "refused:\n");
}

}  // namespace

}  // namespace shardplan
