// SPDX-License-Identifier: Apache-2.0

#include "advise/rule_edit.h"

#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "advise/name_pattern.h"
#include "core/fold.h"
#include "resolve/match.h"
#include "tests/support/advised.h"
#include "tests/support/builders.h"
#include "tests/support/generators.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

using testing::spec;

RuleSet three() {
  return testing::rules({{"a", "tp"}, {"b", "tp"}, {"c", "tp"}});
}

std::string patterns(const ChangedRules& change) {
  std::string text;
  for (size_t i = 0; i < change.rules.rules.size(); ++i) {
    text +=
        change.rules.rules[i].pattern + std::to_string(change.origin[i]) + " ";
  }
  return text;
}

TEST_CASE("each change says which rule became which") {
  RuleChange change;
  change.rule = 3;
  change.before = 1;
  change.kind = RuleChange::Kind::Move;
  CHECK(patterns(changed(three(), {&change, 1})) == "c2 a0 b1 ");
  change.rule = 2;
  change.kind = RuleChange::Kind::Remove;
  CHECK(patterns(changed(three(), {&change, 1})) == "a0 c2 ");
  change.kind = RuleChange::Kind::SetPattern;
  change.pattern = "x";
  CHECK(patterns(changed(three(), {&change, 1})) == "a0 x-1 c2 ");
  change.kind = RuleChange::Kind::Insert;
  change.added = {{"x", {}}, {"y", {}}};
  CHECK(patterns(changed(three(), {&change, 1})) == "a0 x-1 y-1 b1 c2 ");
  change.rule = 4;
  CHECK(patterns(changed(three(), {&change, 1})) == "a0 b1 c2 x-1 y-1 ");
  change.rule = 2;
  change.kind = RuleChange::Kind::SetSpec;
  change.spec = spec("None, tp");
  const ChangedRules set = changed(three(), {&change, 1});
  CHECK(patterns(set) == "a0 b1 c2 ");
  CHECK(set.rules.rules[1].spec == spec("None, tp"));
  CHECK(set.rules.rules[2].spec == spec("tp"));
}

TEST_CASE("new rules go where a file can be edited") {
  RuleSet rules = three();
  CHECK(insertion_place(rules, 3) == 3);  // nothing can be edited
  rules.rules[0].item_where = rules.rules[0].where;
  CHECK(insertion_place(rules, 1) == 1);
  CHECK(insertion_place(rules, 4) == 2);  // behind the one that can
  rules.rules[0].shipped = true;
  CHECK_FALSE(is_editable(rules.rules[0]));
  CHECK(insertion_place(rules, 4) == 4);
}

using testing::read_rules;

// The text after the edit that `make` gives for a rule (0-based).
template <typename Make>
std::string after(const std::string& text, size_t rule, const Make& make) {
  const RuleSet rules = read_rules(text);
  const auto layout = RulePlaces(rules).layout_of(rules.rules.at(rule));
  if (!layout) return "no layout";
  const std::optional<TextEdit> edit = make(*layout);
  if (!edit) return "no edit";
  return edited(text, std::vector<TextEdit>{*edit});
}

std::string removed(const std::string& text, size_t rule) {
  return after(text, rule, removal_of);
}
std::string with_before(const std::string& text, size_t rule) {
  const std::vector<std::string> added = {"[n, []]"};
  return after(text, rule, [&](const ItemLayout& item) {
    return std::optional(insertion_before(item, added));
  });
}
std::string with_behind(const std::string& text, size_t rule) {
  const std::vector<std::string> added = {"[n, []]"};
  return after(text, rule, [&](const ItemLayout& item) {
    return std::optional(insertion_behind(item, added));
  });
}

TEST_CASE("a rule of a block list owns its lines") {
  const std::string text =
      "rules:\n  - [a, []]  # of a\n  # of b\n  - pattern: b\n    spec: []\n";
  CHECK(removed(text, 0) == "rules:\n  # of b\n  - pattern: b\n    spec: []\n");
  CHECK(removed(text, 1) == "rules:\n  - [a, []]  # of a\n  # of b\n");
  CHECK(with_before(text, 1) ==
        "rules:\n  - [a, []]  # of a\n  # of b\n  - [n, []]\n  - pattern: b\n  "
        "  spec: []\n");
  CHECK(with_behind(text, 0) ==
        "rules:\n  - [a, []]  # of a\n  - [n, []]\n  # of b\n  - pattern: b\n  "
        "  spec: []\n");
  CHECK(with_behind("rules:\n  - [a, []]", 0) ==
        "rules:\n  - [a, []]\n  - [n, []]");
}

TEST_CASE("a rule of a flow list stands between commas") {
  const std::string line = R"({"rules": [["a", []], ["b", []]]})";
  CHECK(removed(line, 0) == R"({"rules": [["b", []]]})");
  CHECK(removed(line, 1) == R"({"rules": [["a", []]]})");
  CHECK(with_before(line, 1) ==
        R"({"rules": [["a", []], [n, []], ["b", []]]})");
  CHECK(with_behind("[\n  [\"a\", []]\n]", 0) ==
        "[\n  [\"a\", []],\n  [n, []]\n]");
}

TEST_CASE("the last rule of a file stays, and so does text between rules") {
  CHECK(removed("rules:\n  - [a, []]\n", 0) == "no edit");
  CHECK(removed("rules: [[a, []], # why\n  [b, []]]\n", 0) == "no edit");
}

TEST_CASE("a file is JSON by its first character") {
  CHECK(is_json(SourceFile("x", "\xEF\xBB\xBF \n{}")));
  CHECK(is_json(SourceFile("x", "[]")));
  CHECK_FALSE(is_json(SourceFile("x", "rules: []")));
  CHECK_FALSE(is_json(SourceFile("x", "")));
}

// A rules file in one of the layouts that people use.
std::string file_text() {
  const auto count = draw_in(1, 5);
  const bool json = draw_bool();
  const bool lines = draw_bool();
  const std::string end = draw_of<std::string>({"\n", "\r\n"});
  std::string text = json ? "{\"rules\": [" : "# top" + end + "rules:";
  for (int i = 0; i < count; ++i) {
    const std::string name = "name" + std::to_string(i);
    const std::string source = spec_source(testing::draw_any_spec(), json);
    if (json) {
      text += (i > 0 ? "," : "") + (lines ? end + "  " : " ") +
              draw_of<std::string>({"[\"" + name + "\", " + source + "]",
                                    "{\"pattern\": \"" + name +
                                        "\", \"spec\": " + source + "}"});
      continue;
    }
    text += end + draw_of<std::string>(
                      {"  - [\"" + name + "\", " + source + "]",
                       "  - ['" + name + "', " + source + "]  # remark",
                       "  # above" + end + "  - {pattern: " + name +
                           ", spec: " + source + "}",
                       "  -  pattern: " + name + " # remark" + end +
                           "     spec: " + source});
  }
  text += json ? end + "]}" : end + "mesh: {tp: 2}  # kept";
  return text + draw_of<std::string>({"", end});
}

RuleChange any_change(int rules) {
  RuleChange change;
  change.kind = draw_of({RuleChange::Kind::SetSpec,
                         RuleChange::Kind::SetPattern, RuleChange::Kind::Insert,
                         RuleChange::Kind::Remove, RuleChange::Kind::Move});
  const bool insert = change.kind == RuleChange::Kind::Insert;
  change.rule = draw_in(1, rules + (insert ? 2 : 1));
  change.before = draw_in(1, change.rule + 1);
  change.spec = testing::draw_any_spec();
  change.pattern = draw_of<std::string>({"a$", "(b|c)\\.d$", "it's"});
  change.added = {{"x\\.y$", testing::draw_any_spec()},
                  {"z", testing::draw_any_spec()}};
  return change;
}

using Entries = std::vector<std::pair<std::string, PartitionSpec>>;
Entries entries_of(const RuleSet& rules) {
  Entries entries;
  for (const Rule& rule : rules.rules) {
    entries.emplace_back(rule.pattern, rule.spec);
  }
  return entries;
}

int remarks_in(const std::string& text) {
  int count = 0;
  for (const char c : text) count += c == '#' ? 1 : 0;
  return count;
}

std::vector<TextEdit> edits_for(const RuleSet& rules,
                                const RuleChange& change) {
  return edits_of(rules, RulePlaces(rules), change);
}

TEST_CASE("an edited file reads as the changed rules") {
  int made = 0;
  CHECK(
      holds("edits say the change, and keep every other byte and remark", [&] {
        const std::string text = draw_together(&file_text);
        const RuleSet rules = read_rules(text);
        const RuleChange change =
            any_change(static_cast<int>(rules.rules.size()));
        if (change.kind == RuleChange::Kind::Move &&
            change.before == change.rule) {
          return;
        }
        const std::vector<TextEdit> edits = edits_for(rules, change);
        // The only rule cannot go, and the same spec needs no edit.
        if (edits.empty()) return;
        ++made;
        const std::string text_after = edited(text, edits);
        testing::case_log() << text << "\n---\n" << text_after;
        ENSURE(entries_of(read_rules(text_after)) ==
               entries_of(changed(rules, {&change, 1}).rules));
        if (change.kind != RuleChange::Kind::Remove) {
          ENSURE(remarks_in(text_after) == remarks_in(text));
        }
        for (size_t i = 1; i < edits.size(); ++i) {
          ENSURE(edits[i - 1].where.end <= edits[i].where.begin);
        }
      }));
  CHECK(made > 50);
}

std::string text_after(const std::string& text, const RuleChange& change) {
  return edited(text, edits_for(read_rules(text), change));
}

TEST_CASE("only the entries that differ are replaced") {
  const std::string text =
      "rules:\n  - [\"w\", [ tp ,\n      fsdp ]]   # why\n  - [\"v\", []]\n";
  RuleChange change;
  change.spec = spec("tp, None");
  CHECK(text_after(text, change) ==
        "rules:\n  - [\"w\", [ tp ,\n      null ]]   # why\n  - [\"v\", []]\n");
  change.spec = spec("tp");
  CHECK(text_after(text, change) ==
        "rules:\n  - [\"w\", [ tp ]]   # why\n  - [\"v\", []]\n");
  change.rule = 2;
  CHECK(text_after(text, change) ==
        "rules:\n  - [\"w\", [ tp ,\n      fsdp ]]   # why\n  - [\"v\", "
        "[tp]]\n");
}

TEST_CASE("what aliases share is not edited") {
  const std::string text =
      "rules:\n  - [\"w\", &s [tp]]\n  - [\"v\", *s]\n  - [\"u\", [tp]]\n";
  RuleChange change;
  change.spec = spec("fsdp");
  CHECK(edits_for(read_rules(text), change).empty());
  change.rule = 2;
  CHECK(edits_for(read_rules(text), change).empty());
  change.rule = 3;
  CHECK(edits_for(read_rules(text), change).size() == 1);
}

TEST_CASE("rules without a file of the user's own are not edited") {
  RuleSet rules = read_rules("rules:\n  - [\"w\", [tp]]\n");
  rules.rules.front().shipped = true;
  RuleChange change;
  CHECK(edits_for(rules, change).empty());
  change.kind = RuleChange::Kind::Insert;
  change.added = {{"v", {}}};
  CHECK(edits_for(rules, change).empty());
}

TEST_CASE("axes that YAML would misread are quoted") {
  CHECK(spec_source({{{"null"}, {"tp", "true"}, {}}}, false) ==
        "[\"null\", [tp, \"true\"], null]");
  CHECK(rule_source("a\\.b", {{{"tp"}}}, true) == R"(["a\\.b", ["tp"]])");
  CHECK(rule_source("a\\.b", {{{"tp"}}}, false) == R"(['a\.b', [tp]])");
  CHECK(rule_source("it's\\.", {}, false) == R"(["it's\\.", []])");
}

using Names = std::vector<std::string_view>;

std::string pattern(const Names& targets, const Names& others) {
  return pattern_for(targets, others).value_or("none");
}

TEST_CASE("the shortest ending of at least two components is taken") {
  CHECK(pattern({"norm"}, {}) == "norm$");
  CHECK(pattern({"layers/*/mlp/up"}, {}) == "mlp/up$");
  CHECK(pattern({"layers/*/mlp/up"}, {"head/mlp/up"}) ==
        "layers/[0-9]+/mlp/up$");
  CHECK(pattern({"layers.*.up"}, {}) == R"(layers\.[0-9]+\.up$)");
  CHECK(pattern({"mlp/up"}, {"layers/mlp/up"}) == "^mlp/up$");
}

TEST_CASE("several names share an ending, or differ in one component") {
  CHECK(pattern({"a/mlp/up", "b/mlp/up"}, {"c/x"}) == "mlp/up$");
  CHECK(pattern({"l/*/k_proj/kernel", "l/*/v_proj/kernel"},
                {"l/*/q_proj/kernel"}) == "(k_proj|v_proj)/kernel$");
  CHECK(pattern({"l/*/up/w", "l/*/up/b"}, {"l/*/up/s"}) == "up/(w|b)$");
  CHECK(pattern({"a/b", "c/d"}, {"a/d"}) == "none");
  CHECK(pattern({}, {}) == "none");
}

TEST_CASE("misspelt words of a pattern are replaced by the nearest ones") {
  const std::vector<std::string> names = {"model.embed_tokens.weight",
                                          "layers.*.self_attn.q_proj.weight",
                                          "layers.*.mlp.w1.weight", "lm_head"};
  const auto of = [&](std::string_view text) {
    return spelling_corrected(text, names).value_or("none");
  };
  CHECK(of("embed_token\\.weight") == "embed_tokens\\.weight");
  CHECK(of("layers\\.\\d+\\.self_atn\\.(q|k|v)_prj") ==
        "layers\\.\\d+\\.self_attn\\.(q|k|v)_proj");
  CHECK(of("^lm_haed$") == "^lm_head$");
  CHECK(of("Embed_Tokens") == "embed_tokens");
  // All are words of names, or near to none, or too short to be told.
  CHECK(of("embed_tokens\\.bias") == "none");
  CHECK(of("self_attn\\.q_proj/kernel") == "none");
  CHECK(of("quantizer\\.weight") == "none");
  CHECK(of("q|x") == "none");
  CHECK(of("") == "none");
  // What may tell numbers apart is not tried on folded names.
  CHECK(of("layers\\.[0-4]\\.self_atn") == "none");
  CHECK(of("layers\\.3\\.self_atn") == "none");
  CHECK(of("layers\\..\\.self_atn") == "none");
  CHECK(of("self_atn{2}") == "none");
}

TEST_CASE("a pattern is found in its targets and in nothing else") {
  CHECK(holds("pattern_for tells names apart as a search does", [] {
    std::set<std::string> names;
    for (int i = 0; i < 8; ++i) {
      std::string name;
      const auto parts = draw_in(1, 5);
      for (int k = 0; k < parts; ++k) {
        name += (k > 0 ? draw_of<std::string>({"/", "."}) : "") +
                draw_of<std::string>({"a", "b", "ab", "7", "w1", "x+"});
      }
      names.insert(name);
    }
    Names targets;
    Names others;
    std::set<std::string> folded;
    for (const std::string& name : names) folded.insert(folded_name(name));
    for (const std::string& name : folded) {
      (draw_in(0, 4) == 0 ? targets : others).push_back(name);
    }
    const auto found = pattern_for(targets, others);
    if (!found) return;
    Diagnostics diags;
    const auto matcher =
        Matcher::compile(testing::rules({{*found, ""}}), true, diags);
    ENSURE(matcher.has_value());
    for (const std::string& name : names) {
      std::vector<int> rules;
      matcher->find(name, rules);
      const std::string own = folded_name(name);
      const bool wanted =
          std::find(targets.begin(), targets.end(), own) != targets.end();
      testing::case_log() << *found << " in " << name;
      ENSURE(wanted == !rules.empty());
    }
  }));
}

TEST_CASE("a diff is as diff -u writes it") {
  CHECK(unified_diff("r.yaml", "a\n", "a\n").empty());
  // Recorded from GNU diffutils 3.8: diff -u r.yaml r.yaml.new.
  CHECK(unified_diff("r.yaml", "1\n2\n3\n4\n5\n6\n7\n8\n9\n",
                     "1\n2\n3\n4\nfive\n6\n7\n8\n9\nten") ==
        "--- r.yaml\n+++ r.yaml\n@@ -2,8 +2,9 @@\n 2\n 3\n 4\n-5\n+five\n 6\n "
        "7\n 8\n 9\n+ten\n\\ No newline at end of file\n");
  CHECK(unified_diff("e", "", "x\n") == "--- e\n+++ e\n@@ -0,0 +1 @@\n+x\n");
  CHECK(unified_diff("e", "x\n", "") == "--- e\n+++ e\n@@ -1 +0,0 @@\n-x\n");
}

// What `patch` makes of a text.
std::string patched(const std::string& before, const std::string& diff) {
  const auto lines_of = [](const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
      lines.push_back(line + (stream.eof() ? "" : "\n"));
    }
    return lines;
  };
  const std::vector<std::string> old = lines_of(before);
  std::string after;
  size_t at = 0;
  for (std::string line : lines_of(diff)) {
    if (line.rfind("---", 0) == 0 || line.rfind("+++", 0) == 0) continue;
    if (line.rfind("@@ -", 0) == 0) {
      const size_t number = std::stoul(line.substr(4));
      const bool none = line.find(",0 +") != std::string::npos;
      const size_t begin = none ? number : number - 1;
      while (at < begin) after += old.at(at++);
    } else if (line[0] == '\\') {
      after.pop_back();
    } else {
      if (line[0] != '+') ++at;
      if (line[0] != '-') after += line.substr(1);
    }
  }
  while (at < old.size()) after += old[at++];
  return after;
}

TEST_CASE("patching with a diff gives the new text") {
  CHECK(holds("patch(a, diff(a, b)) is b", [] {
    const auto text = [] {
      std::string result;
      const auto count = draw_in(0, 30);
      for (int i = 0; i < count; ++i) {
        result += draw_of<std::string>({"a\n", "b\n", "c\n"});
      }
      return result + draw_of<std::string>({"", "end"});
    };
    const std::string before = text();
    const std::string after = text();
    const std::string diff = unified_diff("x", before, after);
    testing::case_log() << diff;
    // A removed last line without an end has the mark of its own.
    if (!before.ends_with("end")) ENSURE(patched(before, diff) == after);
    ENSURE(diff.empty() == (before == after));
  }));
}

}  // namespace

}  // namespace shardplan
