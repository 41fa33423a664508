// SPDX-License-Identifier: Apache-2.0
#include "io/python/rules.h"

#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/rules.h"
#include "io/dialects.h"
#include "io/python/path_patterns.h"
#include "resolve/match.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

bool is_found(const std::string& pattern, std::string_view name) {
  RuleSet rules;
  rules.rules.push_back({pattern, {}, {}, {}, {}});
  Diagnostics diags;
  const auto matcher = Matcher::compile(rules, true, diags);
  REQUIRE_MESSAGE(matcher, pattern);
  std::vector<int> found;
  matcher->find(name, found);
  return !found.empty();
}

std::vector<std::string> parts_of(std::string_view name) {
  std::vector<std::string> parts(1);
  for (const char c : name) {
    if (c == '/') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// As the originals do it: each pattern, with `$` behind it, from the beginning
// of one of consecutive parts.
bool is_found_in_window(const std::vector<std::string>& segments,
                        std::string_view name) {
  const std::vector<std::string> parts = parts_of(name);
  for (size_t at = 0; at + segments.size() <= parts.size(); ++at) {
    bool all = true;
    for (size_t i = 0; i < segments.size(); ++i) {
      // re.match begins where the text does, in every branch.
      std::string from_start = "^(?:" + segments[i] + "$)";
      all = all && is_found(from_start, parts[at + i]);
    }
    if (all) return true;
  }
  return false;
}

std::string written(const std::vector<std::string>& segments) {
  SegmentProblem problem;
  const auto pattern = pattern_of_segments(segments, problem);
  return pattern ? *pattern : "refused: " + problem.why;
}

TEST_CASE("segments become a search for whole parts") {
  CHECK(written({"mlp", "c_fc", "kernel"}) == "(?:^|/)mlp/c_fc/kernel(?:/|$)");
  CHECK(written({"h_.*", "[^a]b", "\\W"}) ==
        "(?:^|/)h_[^/]*/[^/a]b/[^/\\w](?:/|$)");
  CHECK(written({"^(q|k|v)$"}) == "(?:^|/)(q|k|v)(?:/|$)");
  CHECK(written({"q|k"}) == "(?:^|/)(?:q[^/]*|k)(?:/|$)");
}

TEST_CASE("what only a part by itself can say is refused") {
  for (const char* pattern :
       {"a/b", "a^b", "(a$)b", "\\Aab", "[\\W]", "[!-~]", "[/]", "[a", "a\\"}) {
    CAPTURE(pattern);
    CHECK(written({pattern}).substr(0, 8) == "refused:");
  }
}

TEST_CASE("a search for segments agrees with matching part by part") {
  CHECK(holds([] {
    const auto pick = [](auto... options) {
      return draw_of<std::string>({options...});
    };
    std::vector<std::string> segments;
    const auto count = draw_in<size_t>(1, 4);
    for (size_t i = 0; i < count; ++i) {
      segments.push_back(pick("a", "b", "a.*", ".", ".+b", "a|b", "(a|b)+",
                              "[^a]", "[ab]*", "\\w+", "\\D", "a?", "ab|a$"));
    }
    std::string name;
    const auto length = draw_in<size_t>(1, 5);
    for (size_t i = 0; i < length; ++i) {
      if (i > 0) name += '/';
      name += pick("a", "b", "ab", "ba", "aab", "c", "1", "", "a-b");
    }
    SegmentProblem problem;
    const auto pattern = pattern_of_segments(segments, problem);
    ENSURE(pattern.has_value());
    ENSURE(is_found(*pattern, name) == is_found_in_window(segments, name));
  }));
}

TEST_CASE("searches of keystr's text become searches of paths") {
  const auto path = [](const char* pattern) {
    return pattern_of_keystr(pattern).value_or("refused");
  };
  CHECK(is_keystr_pattern("\\['wte'\\]"));
  CHECK_FALSE(is_keystr_pattern("wte/embedding"));
  CHECK(path("\\['wte'\\]\\['embedding'\\]") == "(?:^|/)wte/embedding(?:/|$)");
  CHECK(path("\\['attn'\\]\\['(q|c)_attn'\\]\\['kernel'\\]") ==
        "(?:^|/)attn/(q|c)_attn/kernel(?:/|$)");
  CHECK(path("\\['h'\\].*\\['kernel'\\]$") == "(?:^|/)h/(?:.*/)?kernel$");
  CHECK(path(".*\\['wte'\\].*") == "(?:^|/)wte(?:/|$)");
  CHECK(path("\\['a'\\].+\\['b'\\]") == "refused");
  CHECK(path(".*") == ".*");
  CHECK(path("x\\[0\\]") == "refused");
}

struct Read {
  bool good = false;
  RuleSet rules;
  Diagnostics diags;
};

Read read(const std::string& text,
          const std::optional<std::string>& table = std::nullopt,
          std::vector<RuleAnswer> answers = {}) {
  Read result;
  RuleReading reading;
  reading.table = table;
  reading.answers = std::move(answers);
  result.good =
      read_python_rules(std::make_shared<SourceFile>("rules.py", text), reading,
                        result.rules, result.diags);
  CHECK(result.good != result.diags.has_errors());
  return result;
}

// "pattern P(spec)" per rule.
std::vector<std::string> lines(const Read& read) {
  std::vector<std::string> result;
  for (const Rule& rule : read.rules.rules) {
    result.push_back(rule.pattern + " " + spec_text(rule.spec));
  }
  return result;
}

TEST_CASE("a pasted table is read, whatever it is written as") {
  const std::vector<std::string> expected = {"wte/embedding P(tp, (fsdp, sp))",
                                             "norm P(None)", ".* P()"};
  const char* rows[] = {
      "((\"wte/embedding\", PS(\"tp\", (\"fsdp\", \"sp\"))),\n"
      " (\"norm\", PS(None)), (\".*\", PS()))",
      "[('wte/embedding', P('tp', ['fsdp', 'sp'])), ('norm', P((),)), "
      "('.*', P()),]",
      "return (  # the rules\n"
      "    (r'wte/embedding', PartitionSpec('tp', ('fsdp', 'sp'),)),\n"
      "    ['norm', jax.sharding.PartitionSpec(None)],\n"
      "    (\".\" '*', PartitionSpec()),\n"
      ")\n",
      "rules: tuple = (\n ('''wte/emb''' \"edding\", PS('tp', ('fsdp','sp'))),"
      "\n ('\\x6eorm', PS('')), ('.*', (PS())),\n)",
  };
  for (const char* text : rows) {
    CAPTURE(text);
    const Read result = read(text);
    CHECK(result.good);
    CHECK(lines(result) == expected);
  }
}

TEST_CASE("raw strings keep their backslashes, others lose them") {
  const Read result = read("((r'\\d+\\.', P()), ('a\\\\d\\t', P()))");
  REQUIRE(result.rules.rules.size() == 2);
  CHECK(result.rules.rules[0].pattern == "\\d+\\.");
  CHECK(result.rules.rules[1].pattern == "a\\d\t");
}

TEST_CASE("places are those of the file") {
  const Read result = read("x = (\n  ('norm', PS(None, 'tp')),\n)");
  REQUIRE(result.rules.rules.size() == 1);
  const Rule& rule = result.rules.rules[0];
  CHECK(rule.where.text() == "'norm'");
  CHECK(rule.where.file->position(rule.where.begin).line == 2);
  CHECK(rule.spec_where.text() == "PS(None, 'tp')");
  REQUIRE(rule.dim_where.size() == 2);
  CHECK(rule.dim_where[1].text() == "'tp'");
}

constexpr const char* kModule = R"py(
"""A module that isn't all tables."""
import re
from jax.sharding import PartitionSpec as PS

class LLaMAConfig:
    def get_partition_rules(self, fsdp=True):
        note = f"{fsdp!r}"  # an f-string elsewhere does no harm
        return (
            ("attention/wq", PS("fsdp", "mp")),
            (".*", PS(None)),
        ) if fsdp else (
            ("attention/wq", PS(None, "mp")),
            (".*", PS(None)),
        )

class GPTConfig:
    def get_partition_rules(self):
        return (("wte", PS("mp", "fsdp")), (".*", PS(None)))

EXTRA = [("lm_head", PS("fsdp", "mp"))]
)py";

TEST_CASE("several tables of a module are told apart by name") {
  const Read none = read(kModule);
  REQUIRE(none.diags.all().size() == 1);
  const Diagnostic& problem = none.diags.all()[0];
  CHECK(problem.message == "the file has 3 tables of rules");
  CHECK(problem.facts ==
        std::vector<std::string>{"line 9: `LLaMAConfig.get_partition_rules`",
                                 "line 19: `GPTConfig.get_partition_rules`",
                                 "line 21: `EXTRA`"});
  CHECK(lines(read(kModule, "LLaMAConfig.get_partition_rules",
                   {{"fsdp", "true"}})) ==
        std::vector<std::string>{"attention/wq P(fsdp, mp)", ".* P(None)"});

  CHECK(lines(read(kModule, "EXTRA")) ==
        std::vector<std::string>{"lm_head P(fsdp, mp)"});
  CHECK(lines(read(kModule, "GPTConfig.get_partition_rules")) ==
        std::vector<std::string>{"wte P(mp, fsdp)", ".* P(None)"});
  CHECK(lines(read(kModule, "get_partition_rules#2")) ==
        std::vector<std::string>{"attention/wq P(None, mp)", ".* P(None)"});

  const Read unknown = read(kModule, "EXTRAS");
  REQUIRE(unknown.diags.all().size() == 1);
  CHECK(unknown.diags.all()[0].message == "no table is named `EXTRAS`");
  CHECK(unknown.diags.all()[0].help ==
        std::vector<std::string>{"did you mean `EXTRA`?"});
}

TEST_CASE("what is not literal is refused at its place") {
  struct Case {
    const char* text;
    const char* place;
    const char* message;
  };
  const Case rows[] = {
      {"(('a', PS(axis)),)", "axis", "`axis` is not defined here"},
      {"(('a', PS('tp' if big else None)),)", "big",
       "the table depends on `big`"},
      {"(('a', PS('tp' if big + 1 else None)),)", "big + 1",
       "the condition `big + 1` is not supported: use only names with `not`, "
       "`and` and `or`"},
      {"(('a', spec),)", "spec", "this is not a PartitionSpec"},
      {"(('a', PS()), ('b', None))", "None", "the rule has no spec"},
      {"(('a', make('tp')),)", "make('tp')",
       "the call to `make` is not evaluated"},
      {"(('a', PS(*axes)),)", "*", "another table is unpacked here"},
      {"(('a', PS('tp'), 1),)", "('a', PS('tp'), 1)",
       "a rule is a pattern and a PartitionSpec"},
      {"(('a', PS('t p')),)", "'t p'", "`t p` is not an axis name"},
      {"(('a', PS(1)),)", "1", "this is not a valid PartitionSpec entry"},
      {"((f'a{n}', PS()),)", "f'a{n}'",
       "f-strings and bytes strings are not supported"},
      {"(('a', PS()), *more)", "more",
       "`more` cannot be read: its items are not literals in this file"},
      {"(('a', PS()), (prefix + 'b', PS()))", "+",
       "this `+` is not evaluated: `prefix` is not a literal in this file"},
      {"(('a', PS()),) + more", "+",
       "this `+` is not evaluated: `more` is not a literal in this file"},
      {"(('a', PS()),) * 2", "*", "unsupported expression at `*`"},
      {"(('a', PS()),) if x else None", "x", "the table depends on `x`"},
      {"(('a', PS('tp)),)", "'tp)),)", "this is an unterminated string"},
      {"(('a', PS(spec=1)),)", "1", "keyword arguments are not supported"},
      {"(('a', PS())", "", "the table is not closed"},
      {"rules = ('a', PS())", "",
       "no table of rules found in this Python file"},
  };
  for (const Case& row : rows) {
    CAPTURE(std::string(row.text));
    const Read result = read(row.text);
    REQUIRE(result.diags.all().size() == 1);
    const Diagnostic& problem = result.diags.all()[0];
    CHECK(problem.code == Code::MalformedDocument);
    CHECK(problem.message == std::string(row.message));
    REQUIRE(problem.labels.size() == 1);
    CHECK(problem.labels[0].where.text() == row.place);
    CHECK(problem.help.size() == 1);
  }
}

TEST_CASE("hostile nesting is refused, not followed") {
  std::string deep = "(('a', PS(";
  for (int i = 0; i < 100'000; ++i) deep += "(";
  const Read result = read(deep);
  CHECK_FALSE(result.good);
}

TEST_CASE("EasyDeL's presets become semantic axes, and its axes are declared") {
  const Read result = read(
      "def get_partition_rules(self):\n"
      "    pmag = self.partition_manager\n"
      "    return (\n"
      "        (r\"self_attn/(q|k|v)_proj/kernel\", "
      "pmag.resolve(ColumnWise)),\n"
      "        (r\".*\", pmag.resolve(Replicated)),\n"
      "    )\n");
  REQUIRE(result.good);
  CHECK(lines(result) ==
        std::vector<std::string>{
            "self_attn/(q|k|v)_proj/kernel "
            "P((__FULLY_SHARDED_DATA_PARALLEL__, __SEQUENCE_PARALLEL__), "
            "__TENSOR_PARALLEL__)",
            ".* P(None)"});
  CHECK(result.rules.declared_axes ==
        AxisNames{"dp", "fsdp", "tp", "sp", "ep"});
}

TEST_CASE("a PartitionAxis of the same file gives the semantic axes") {
  const Read result = read(
      "paxis = PartitionAxis(tensor_parallel_axis=\"model\")\n"
      "rules = ((\"w\", RowWise),)\n");
  REQUIRE(result.good);
  REQUIRE(result.rules.partition_axis.has_value());
  CHECK(result.rules.declared_axes ==
        AxisNames{"dp", "fsdp", "model", "sp", "ep"});
  CHECK_FALSE(read("paxis = PartitionAxis(heads=\"model\")\n"
                   "rules = ((\"w\", RowWise),)\n")
                  .good);
}

TEST_CASE("tuples of patterns are found in consecutive parts of a name") {
  const Read result = read(
      "[((\"mlp\", \"c_fc\", \"kernel\"), P(None, \"mp\")),\n"
      " ((\"ln_.*\", \"(bias|scale)\"), None)]\n");
  REQUIRE(result.good);
  CHECK(lines(result) ==
        std::vector<std::string>{"(?:^|/)mlp/c_fc/kernel(?:/|$) P(None, mp)",
                                 "(?:^|/)ln_[^/]*/(bias|scale)(?:/|$) P()"});
}

TEST_CASE("JAXSeq's patterns are written for paths") {
  const Read result = read(
      "[(re.escape(\"['wte']['embedding']\"), PS(\"mp\", \"fsdp\")),\n"
      " (''.join((re.escape(\"['attn']\"), r\"\\['(q|c)_attn'\\]\")), PS()),\n"
      " (\".*\", PS())]\n");
  REQUIRE(result.good);
  CHECK(lines(result) == std::vector<std::string>{
                             "(?:^|/)wte/embedding(?:/|$) P(mp, fsdp)",
                             "(?:^|/)attn/(q|c)_attn(?:/|$) P()", ".* P()"});
}

TEST_CASE("pairs of names and axes are logical axis rules") {
  const Read result = read(
      "LOGICAL = (\n  (\"batch\", (\"data\", \"fsdp\")),\n"
      "  (\"mlp\", None),\n  (None, \"data\"),\n)\n");
  REQUIRE(result.good);
  CHECK(result.rules.rules.empty());
  REQUIRE(result.rules.logical_rules.size() == 3);
  CHECK(result.rules.logical_rules[0].axes == AxisNames{"data", "fsdp"});
  CHECK(result.rules.logical_rules[1].axes.empty());
  CHECK_FALSE(result.rules.logical_rules[2].name.has_value());
  CHECK_FALSE(read("x = ((\"a\", None), (\"b\", 3))").good);
}

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

std::string read_flax(const std::string& text) {
  RuleSet rules;
  Diagnostics diags;
  if (!kFlax.read(std::make_shared<SourceFile>("r", text), {}, rules, diags)) {
    return diags.all().front().message;
  }
  std::string all;
  for (const LogicalRule& rule : rules.logical_rules) {
    all += rule.name.value_or("(none)") + "=" + axes_text(rule.axes) + " ";
  }
  return all;
}

TEST_CASE("a list of pairs is read in JSON, YAML and Python") {
  CHECK(read_flax("[[\"batch\", \"data\"], [\"embed\", [\"fsdp\", \"sp\"]]]") ==
        "batch=data embed=(fsdp, sp) ");
  CHECK(read_flax("- [batch, data]\n- [mlp, null]\n") ==
        "batch=data mlp=None ");
  CHECK(read_flax("rules = ((\"batch\", \"data\"), (None, \"x\"))") ==
        "batch=data (none)=x ");
}

TEST_CASE(
    "pairs whose second part is not a spec tell logical rules from rules") {
  CHECK(kFlax.recognize("[[\"batch\", \"data\"]]"));
  CHECK(kFlax.recognize("- [embed, [fsdp]]\n- [mlp, null]\n"));
  CHECK_FALSE(kFlax.recognize("[[\"w\", [\"tp\"]]]"));
  CHECK_FALSE(kFlax.recognize("[[w, ColumnWise]]"));
  CHECK_FALSE(kFlax.recognize("rules:\n  - [w, null]\n"));
  CHECK_FALSE(kFlax.recognize("\xff"));
}

}  // namespace

}  // namespace shardplan
