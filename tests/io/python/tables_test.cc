// SPDX-License-Identifier: Apache-2.0
#include "io/python/tables.h"

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

std::optional<PythonValue> read_named(const SourceFile& source,
                                      std::optional<std::string> name,
                                      Diagnostics& diags) {
  RuleReading reading;
  reading.table = std::move(name);
  std::vector<std::string> questions;
  return read_python_table(source, {reading, questions}, diags);
}

TEST_CASE("rules come before what may be logical rules unless one is named") {
  const SourceFile source("r.py",
                          "names = ((\"a\", \"b\"),)\n"
                          "rules = ((\"w\", P(\"tp\")),)\n");
  Diagnostics diags;
  const auto rules = read_named(source, std::nullopt, diags);
  REQUIRE(rules.has_value());
  CHECK(rules->items.at(0).items.at(0).text == "w");
  const auto names = read_named(source, "names", diags);
  REQUIRE(names.has_value());
  CHECK(names->items.at(0).items.at(0).text == "a");
  CHECK_FALSE(diags.has_errors());
}

TEST_CASE("a choice between tables lists them") {
  const SourceFile source("r.py", "a = ((\"w\", P()),)\nb = ((\"w\", P()),)\n");
  Diagnostics diags;
  CHECK_FALSE(read_named(source, std::nullopt, diags).has_value());
  CHECK(diags.all().front().message == "the file has 2 tables of rules");
  CHECK_FALSE(read_named(source, "c", diags).has_value());
  CHECK(diags.all().back().message == "no table is named `c`");
}

std::optional<PythonValue> parse(const SourceFile& source, Diagnostics& diags) {
  const auto tokens = python_tokens(source);
  size_t at = 0;
  return parse_python_value(tokens, at, diags);
}

std::string spec_of_table(const std::string& text) {
  const SourceFile source("s.py", text);
  Diagnostics diags;
  const auto value = parse(source, diags);
  REQUIRE_MESSAGE(value, text);
  Rule rule;
  const bool good = read_python_spec(*value, rule, diags);
  CHECK(good != diags.has_errors());
  return good ? spec_text(rule.spec) : diags.all().front().message;
}

TEST_CASE("specs and presets are read under any qualified name") {
  CHECK(spec_of_table("P('tp', ('fsdp', 'sp'), None)") ==
        "P(tp, (fsdp, sp), None)");
  CHECK(spec_of_table("jax.sharding.PartitionSpec()") == "P()");
  CHECK(spec_of_table("P(P.UNCONSTRAINED)") ==
        spec_text({{{std::string(kUnconstrained)}}}));
  CHECK(spec_of_table("RowWise") == spec_of_table("ct.RowWise"));
  CHECK(spec_of_table("self.partition_manager.resolve(RowWise)") ==
        spec_of_table("RowWise"));
  CHECK(spec_of_table("pmag.resolve(Replicated)") == "P(None)");
}

TEST_CASE("what is not a spec is refused with what to write") {
  CHECK(spec_of_table("None") == "the rule has no spec");
  CHECK(spec_of_table("f('tp')") == "the call to `f` is not evaluated");
  CHECK(spec_of_table("pmag.resolve(RowWize)") ==
        "this is not a PartitionSpec");
  CHECK(spec_of_table("pmag.resolve(axes=['tp'])") ==
        "`resolve` is supported only for a single preset");
  CHECK(spec_of_table("P(tp)") == "`tp` is not defined here");
  CHECK(spec_of_table("P('t p')") == "`t p` is not an axis name");
  CHECK(spec_of_table("P(unreduced='tp')") ==
        "keyword arguments are not supported");
  CHECK(spec_of_table("P(3)") == "this is not a valid PartitionSpec entry");
}

TEST_CASE("a PartitionAxis is read by its fields' names") {
  const SourceFile source(
      "s.py", "PartitionAxis(batch_axis=('fsdp', 'dp'), head_axis=None)");
  Diagnostics diags;
  const auto value = parse(source, diags);
  REQUIRE(value.has_value());
  const auto axis = read_python_partition_axis(*value, diags);
  REQUIRE(axis.has_value());
  CHECK(axis->at(*find_partition_field("head_axis"))->axes.empty());
  CHECK(axis->at(*find_partition_field("batch_axis"))->is_tuple);
  CHECK(axis->at(*find_partition_field("decode_batch_axis"))->axes ==
        AxisNames{"fsdp", "dp"});
}

TEST_CASE("fields that PartitionAxis lacks, or without a name, are refused") {
  for (const char* text :
       {"PartitionAxis(heads_axis='tp')", "PartitionAxis('dp')"}) {
    CAPTURE(text);
    const SourceFile source("s.py", text);
    Diagnostics diags;
    const auto value = parse(source, diags);
    REQUIRE(value.has_value());
    CHECK_FALSE(read_python_partition_axis(*value, diags).has_value());
    CHECK(diags.all().front().code == Code::UnknownKey);
  }
}

}  // namespace

}  // namespace shardplan
