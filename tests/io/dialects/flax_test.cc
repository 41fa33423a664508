// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "io/dialects/dialects.h"

namespace shardplan {
namespace {

std::string read(const std::string& text) {
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
  CHECK(read("[[\"batch\", \"data\"], [\"embed\", [\"fsdp\", \"sp\"]]]") ==
        "batch=data embed=(fsdp, sp) ");
  CHECK(read("- [batch, data]\n- [mlp, null]\n") == "batch=data mlp=None ");
  CHECK(read("rules = ((\"batch\", \"data\"), (None, \"x\"))") ==
        "batch=data (none)=x ");
}

TEST_CASE("pairs whose second part is no spec tell logical rules from rules") {
  CHECK(kFlax.recognize("[[\"batch\", \"data\"]]"));
  CHECK(kFlax.recognize("- [embed, [fsdp]]\n- [mlp, null]\n"));
  CHECK_FALSE(kFlax.recognize("[[\"w\", [\"tp\"]]]"));
  CHECK_FALSE(kFlax.recognize("[[w, ColumnWise]]"));
  CHECK_FALSE(kFlax.recognize("rules:\n  - [w, null]\n"));
  CHECK_FALSE(kFlax.recognize("\xff"));
}

}  // namespace
}  // namespace shardplan
