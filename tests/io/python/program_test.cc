// SPDX-License-Identifier: Apache-2.0
// Tables that later statements change: followed, or refused with the reason.
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "io/python/rules.h"
#include "tests/io/document_text.h"

namespace shardplan {
namespace {

// "a=P(tp) b=P() ", or what is wrong.
std::string followed(const std::string& text,
                     std::vector<RuleAnswer> answers = {},
                     const std::optional<std::string>& table = std::nullopt) {
  RuleReading reading;
  reading.answers = std::move(answers);
  reading.table = table;
  RuleSet rules;
  Diagnostics diags;
  const bool good = read_python_rules(
      std::make_shared<SourceFile>("r.py", text), reading, rules, diags);
  CHECK(good != diags.has_errors());
  if (!good) return testing::text_of(diags);
  std::string all;
  for (const Rule& rule : rules.rules) {
    all += rule.pattern + "=" + spec_text(rule.spec) + " ";
  }
  return all;
}

const std::string kList = "RULES = [('a', P('tp'))]\n";
const std::string kTuple = "RULES = (('a', P('tp')),)\n";

TEST_CASE("what statements do to a table is followed") {
  struct Case {
    std::string text;
    std::string rules;
  };
  const Case rows[] = {
      {kList + "RULES.append(('b', P()))\n", "a=P(tp) b=P() "},
      {kList + "RULES.insert(0, ('b', P()))\n", "b=P() a=P(tp) "},
      {kList + "RULES.extend([('b', P()), ('c', P())])\n",
       "a=P(tp) b=P() c=P() "},
      {kList + "RULES += [('b', P())]\n", "a=P(tp) b=P() "},
      {kTuple + "RULES += (('b', P()),)\n", "a=P(tp) b=P() "},
      {kTuple + "RULES = RULES + (('b', P()),)\n", "a=P(tp) b=P() "},
      {kTuple + "RULES = (('b', P()), *RULES)\n", "b=P() a=P(tp) "},
      {kList + "OTHER = RULES\nOTHER.append(('b', P()))\n", "a=P(tp) b=P() "},
      {kList + "OTHER = list(RULES)\nOTHER.append(('b', P()))\n",
       "a=P(tp) b=P() "},
      {kList + "RULES = [('b', P())]\n", "b=P() "},
      {kList + "RULES.clear()\nRULES.append(('b', P()))\n", "b=P() "},
      {kList + "RULES.append(('b', P()))\nRULES.reverse()\n", "b=P() a=P(tp) "},
      {"base = (('a', P('tp')),)\nmore = (('b', P()),)\nRULES = base + more\n",
       "a=P(tp) b=P() "},
      {"def rules():\n  r = [('a', P('tp'))]\n  r.append(('b', P()))\n"
       "  return r\n",
       "a=P(tp) b=P() "},
      {"def rules():\n  r = [('a', P('tp'))]\n  return tuple(r)\n", "a=P(tp) "},
      {kList + "if TYPE_CHECKING:\n  RULES.append(('b', P()))\n", "a=P(tp) "},
      {kList + "if __name__ == '__main__':\n  RULES.append(('b', P()))\n",
       "a=P(tp) "},
      {"pre = 'x/'\nRULES = [('b', P()), (pre + 'a', P('tp'))]\n",
       "b=P() x/a=P(tp) "},
  };
  for (const Case& row : rows) {
    CAPTURE(row.text);
    CHECK(followed(row.text) == row.rules);
  }
}

TEST_CASE("reading a table changes nothing") {
  for (const char* use :
       {"specs = match_partition_rules(RULES, params)\n", "print(RULES)\n",
        "n = len(RULES)\n", "for k, v in RULES:\n  print(k, v)\n",
        "compiled = [(re.compile(k), v) for k, v in RULES]\n",
        "first = RULES[0]\n", "class A:\n  rules = RULES\n",
        "def f(params):\n  return match_partition_rules(RULES, params)\n",
        "def f(rules):\n  rules = [('b', 1)]\n  rules.append(2)\n",
        "def f(rules):\n  return [r for r in rules]\nf(RULES)\n",
        "x = []\nx.append(1)\n", "x = {}\nx['RULES'] = 1\n",
        "try:\n  import y\nexcept ImportError:\n  y = None\n"}) {
    CAPTURE(use);
    CHECK(followed(kList + use) == "a=P(tp) ");
  }
}

TEST_CASE("changes that are not followed are refused at their places") {
  for (const char* change :
       {"RULES.pop()\n",
        "RULES.remove(x)\n",
        "RULES.sort()\n",
        "RULES[0] = ('b', P())\n",
        "RULES[:] = []\n",
        "del RULES[0]\n",
        "del RULES\n",
        "RULES[0][1] = P()\n",
        "RULES *= 2\n",
        "RULES = load()\n",
        "RULES = [r for r in RULES if r]\n",
        "RULES = RULES[1:]\n",
        "RULES, x = f(), 1\n",
        "from other import RULES\n",
        "from other import *\n",
        "for x in y:\n  RULES.append(x)\n",
        "while x:\n  RULES.append(x)\n  break\n",
        "try:\n  RULES.append(('b', P()))\nexcept E:\n  pass\n",
        "if n > 1:\n  RULES.append(('b', P()))\n",
        "if n > 1:\n  RULES = []\n",
        "for RULES in x:\n  pass\n",
        "with f() as RULES:\n  pass\n",
        "for r in RULES:\n  r[1] = P()\n",
        "for r in (RULES, []):\n  r.clear()\n",
        "def f():\n  RULES.append(1)\n",
        "def f():\n  global RULES\n  RULES = []\n",
        "def f(r):\n  r.append(1)\nf(RULES)\n",
        "def g(r):\n  r.append(1)\ndef f(r):\n  g(r)\nf(RULES)\n",
        "def RULES():\n  pass\n",
        "class RULES:\n  pass\n",
        "globals()['RULES'] = []\n",
        "exec('RULES.append(1)')\n",
        "exec(code)\n",
        "setattr(m, 'RULES', [])\n",
        "getattr(m, 'RULES').append(1)\n",
        "OTHER = RULES\nOTHER[0] = 1\n",
        "OTHER = RULES or []\nOTHER.pop()\n",
        "d = {'x': RULES}\nd['x'].append(1)\n",
        "(RULES).append(1)\n",
        "[RULES][0].append(1)\n",
        "list.append(RULES, 1)\n",
        "operator.iadd(RULES, [])\n",
        "random.shuffle(RULES)\n",
        "add = RULES.append\n",
        "x = lambda: RULES.append(1)\n",
        "[RULES.append(i) for i in x]\n",
        "(R := RULES).append(1)\n",
        "x = (R := RULES)\nR.append(1)\n",
        "RULES.append(*x)\n",
        "RULES[len(RULES):] = [1]\n",
        "import sys\nsys.modules[__name__].RULES = []\n",
        "r = RULES[0]\nr[1] = P()\n",
        "a = b = RULES\nb.pop()\n",
        "RULES = add_defaults(RULES)\n",
        "map(RULES.append, x)\n",
        "match k:\n  case 1:\n    RULES.append(1)\n",
        "for i in x: RULES += [('b', P())]\n"}) {
    CAPTURE(change);
    const std::string problem = followed(kList + change);
    CHECK(problem.find("SP002") == 0);
  }
  CHECK(followed(kList + "for x in y:\n  RULES.append(x)\n") ==
        "SP002 3:3 `RULES` is modified in a loop, which cannot be traced\n");
}

TEST_CASE("a condition that changes a table is asked for") {
  const std::string text = kList + "if big:\n  RULES.append(('b', P()))\n";
  CHECK(followed(text) == "SP002 2:4 the table depends on `big`\n");
  CHECK(followed(text, {{"big", "true"}}) == "a=P(tp) b=P() ");
  CHECK(followed(text, {{"big", "false"}}) == "a=P(tp) ");
  const std::string branches =
      "def rules(use_scan):\n  if use_scan:\n    return (('a', P(None, "
      "'tp')),)\n"
      "  else:\n    return (('a', P('tp')),)\n";
  CHECK(followed(branches) == "SP002 2:6 the table depends on `use_scan`\n");
  CHECK(followed(branches, {{"use_scan", "true"}}) == "a=P(None, tp) ");
  CHECK(followed(branches, {{"use_scan", "false"}}) == "a=P(tp) ");
  CHECK(followed(branches, {}, "rules#2") == "a=P(tp) ");
  const std::string early =
      "def rules(kind):\n  if kind == 'x':\n    return (('a', P()),)\n"
      "  return (('a', P('tp')),)\n";
  CHECK(followed(early).find("SP002 3:5 this is returned only under a "
                             "condition that cannot be evaluated") == 0);
  CHECK(followed(early, {}, "rules#1") == "a=P() ");
}

TEST_CASE("methods and attributes of a class are followed, too") {
  const std::string type = "class C:\n  rules = [('a', P('tp'))]\n";
  CHECK(followed(type) == "a=P(tp) ");
  CHECK(followed(type + "C.rules.append(('b', P()))\n") == "a=P(tp) b=P() ");
  CHECK(followed(type + "C.rules.pop()\n").find("SP002") == 0);
  CHECK(followed(type + "  def f(self):\n    self.rules.append(1)\n")
            .find("SP002") == 0);
  CHECK(followed("class C:\n  @cached_property\n  def rules(self):\n"
                 "    return [('a', P('tp'))]\n") == "a=P(tp) ");
  CHECK(followed("@with_defaults\ndef rules():\n  return [('a', P('tp'))]\n")
            .find("SP002 1:1 the decorator `with_defaults`") == 0);
  CHECK(followed("def rules():\n  r = [('a', P('tp'))]\n  return add(r)\n")
            .find("the call to `add` builds another table") !=
        std::string::npos);
}

TEST_CASE("tuples stand for specs where names can only be patterns") {
  CHECK(followed("R = (('q\\\\.w', ('fsdp', 'mp')), ('head', ('mp', ('a', "
                 "'b'))))\n") == "q\\.w=P(fsdp, mp) head=P(mp, (a, b)) ");
  CHECK(followed("R = ((('mlp', 'kernel'), (None, 'mp')),)\n") ==
        "(?:^|/)mlp/kernel(?:/|$)=P(None, mp) ");
  CHECK(followed("R = [('.*', 'fsdp(axis=\"data\")')]\n")
            .find("big_vision sharding strategies") != std::string::npos);
}

TEST_CASE("lists of axes in a module are no tables") {
  CHECK(
      followed("import torch\nx = f()\nnames = [('dp', 'tp'), ('cp', 'ep')]\n")
          .find("no table of rules found") != std::string::npos);
  CHECK(
      followed("x = f()\nnames = [(('dp', 'cp'), 'fsdp'), (('a', 'b'), 'c')]\n")
          .find("no table of rules found") != std::string::npos);
}

TEST_CASE("specs of scanned layers get a dimension in front") {
  const std::string table =
      "R = [(('(q|k)', 'kernel'), P(None, 'mp')), (('bias',), None)]\n";
  const std::string grok =
      table +
      "def apply(path, rules):\n  for rule, spec in rules:\n"
      "    if _match(rule, path):\n      if isinstance(spec, PartitionSpec):\n"
      "        if 'layer_stack' in path:\n"
      "          spec = PartitionSpec(None, *spec)\n      return spec\n";
  CHECK(followed(grok) ==
        "(?:^|/)(?:layer_stack)/(?:.*/)?(q|k)/kernel(?:/|$)|"
        "(?:^|/)(q|k)/kernel/(?:.*/)?(?:layer_stack)(?:/|$)="
        "P(None, None, mp) (?:^|/)(q|k)/kernel(?:/|$)=P(None, mp) "
        "(?:^|/)bias(?:/|$)=P() ");
  const std::string dalle =
      table +
      "def set_partitions(d, use_scan):\n  result = match(d)\n  if use_scan:\n"
      "    result = {k: (P(*(None,) + v) if v is not None else None)\n"
      "      if any(x in k for x in ['Enc', 'Dec']) else v\n"
      "      for k, v in result.items()}\n";
  CHECK(followed(dalle).find("the specs depend on `use_scan`") !=
        std::string::npos);
  CHECK(followed(dalle, {{"use_scan", "true"}}).find("(?:Enc|Dec)/(?:.*/)?") !=
        std::string::npos);
  CHECK(followed(dalle, {{"use_scan", "false"}}) ==
        "(?:^|/)(q|k)/kernel(?:/|$)=P(None, mp) (?:^|/)bias(?:/|$)=P() ");
  CHECK(followed(table + "spec = P(*spec, None)\n")
            .find("specs are modified here after matching") !=
        std::string::npos);
}

}  // namespace
}  // namespace shardplan
