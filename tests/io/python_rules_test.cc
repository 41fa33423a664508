// SPDX-License-Identifier: Apache-2.0
#include "io/python_rules.h"

#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace shardplan {
namespace {

struct Read {
  bool good = false;
  RuleSet rules;
  Diagnostics diags;
};

Read read(const std::string& text,
          const std::optional<std::string>& table = std::nullopt) {
  Read result;
  result.good =
      read_python_rules(std::make_shared<SourceFile>("rules.py", text), table,
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
  CHECK(problem.message == "the file holds 4 tables of rules");
  CHECK(problem.facts ==
        std::vector<std::string>{"line 9: `LLaMAConfig.get_partition_rules#1`",
                                 "line 12: `LLaMAConfig.get_partition_rules#2`",
                                 "line 19: `GPTConfig.get_partition_rules`",
                                 "line 21: `EXTRA`"});

  CHECK(lines(read(kModule, "EXTRA")) ==
        std::vector<std::string>{"lm_head P(fsdp, mp)"});
  CHECK(lines(read(kModule, "GPTConfig.get_partition_rules")) ==
        std::vector<std::string>{"wte P(mp, fsdp)", ".* P(None)"});
  CHECK(lines(read(kModule, "get_partition_rules#2")) ==
        std::vector<std::string>{"attention/wq P(None, mp)", ".* P(None)"});

  const Read unknown = read(kModule, "EXTRAS");
  REQUIRE(unknown.diags.all().size() == 1);
  CHECK(unknown.diags.all()[0].message == "no table is named `EXTRAS`");
  CHECK(
      unknown.diags.all()[0].help ==
      std::vector<std::string>{"a table with a similar name exists: `EXTRA`"});
}

TEST_CASE("what is not literal is refused at its place") {
  struct Case {
    const char* text;
    const char* place;
    const char* message;
  };
  const Case rows[] = {
      {"(('a', PS(axis)),)", "axis", "`axis` is not known here"},
      {"(('a', PS('tp' if big else None)),)", "if",
       "a condition chooses this value"},
      {"(('a', spec),)", "spec", "this is no PartitionSpec"},
      {"(('a', PS()), ('b', None))", "None", "the rule has no spec"},
      {"(('a', make('tp')),)", "make('tp')", "this is no PartitionSpec"},
      {"(('a', PS(*axes)),)", "*", "another table is put in here"},
      {"(('a', PS('tp'), 1),)", "('a', PS('tp'), 1)",
       "a rule is a pattern and a PartitionSpec"},
      {"(('a', PS('t p')),)", "'t p'", "`t p` is not an axis name"},
      {"(('a', PS(1)),)", "1", "this is no entry of a PartitionSpec"},
      {"((f'a{n}', PS()),)", "f'a{n}'", "this string is computed or of bytes"},
      {"(('a', PS()), *more)", "*", "another table is put in here"},
      {"(('a', PS()), (prefix + 'b', PS()))", "+",
       "`+` makes this an expression, which is not evaluated"},
      {"(('a', PS()),) + more", "+", "the table is a part of an expression"},
      {"(('a', PS()),) if x else None", "if", "a condition chooses this table"},
      {"(('a', PS('tp)),)", "'tp)),)", "here is a string that does not end"},
      {"(('a', PS(spec=1)),)", "1", "arguments by name are not read"},
      {"(('a', PS())", "", "the table does not end"},
      {"rules = ('a', PS())", "", "no table of rules is found"},
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

}  // namespace
}  // namespace shardplan
