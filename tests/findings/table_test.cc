// SPDX-License-Identifier: Apache-2.0
// Holds the table of checks against base/codes.def and against what its
// functions raise. That a function raises no code but those of its row is held
// by every run (findings/findings.cc); that there is an input for each, by the
// examples of docs/codes.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "findings/findings.h"
#include "memory/stages.h"
#include "resolve/resolve.h"
#include "tests/support/builders.h"
#include "tests/support/source_dir.h"

namespace shardplan {
namespace {

namespace fs = std::filesystem;

bool is_of_findings(Code code) {
  const int hundred = static_cast<int>(code) / 100;
  return (hundred >= 1 && hundred <= 3) || hundred == 5;
}

// "Code::OverMemory"
std::string enumerator_of(Code code) {
  std::string text = "Code::";
  bool starts = true;
  for (const char c : code_info(code).name) {
    if (c == '-') {
      starts = true;
    } else {
      text += starts && c >= 'a' ? static_cast<char>(c - 'a' + 'A') : c;
      starts = false;
    }
  }
  return text;
}

// Each read once: every code is sought in all of them.
const std::string& text_of(const fs::path& path) {
  static std::map<fs::path, std::string> texts;
  const auto [entry, is_new] = texts.try_emplace(path);
  if (is_new) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    entry->second = text.str();
  }
  return entry->second;
}

// Whether the file has it as a word.
bool mentions(const fs::path& path, const std::string& enumerator) {
  const std::string& text = text_of(path);
  for (size_t at = text.find(enumerator); at != std::string::npos;
       at = text.find(enumerator, at + 1)) {
    const char next = text[at + enumerator.size()];
    if (next != '_' && std::isalnum(static_cast<unsigned char>(next)) == 0) {
      return true;
    }
  }
  return false;
}

// The files of src that mention a code, from src, with `/`.
std::vector<std::string> mentioning(Code code) {
  std::vector<std::string> files;
  const fs::path src = source_dir() / "src";
  static const auto paths = [&] {
    std::vector<fs::path> all;
    for (const auto& entry : fs::recursive_directory_iterator(src)) {
      const auto extension = entry.path().extension();
      if (extension == ".cc" || extension == ".h") all.push_back(entry.path());
    }
    return all;
  }();
  for (const fs::path& path : paths) {
    if (mentions(path, enumerator_of(code))) {
      files.push_back(path.lexically_relative(src).string());
    }
  }
  return files;
}

bool is_in_findings(const std::string& file) {
  return file.rfind("findings/", 0) == 0 && file != "findings/findings.cc";
}

// Codes of findings (SP1xx to SP3xx, SP5xx) that no check raises, since they
// are reported where something is read or made and there is no plan yet.
struct RaisedElsewhere {
  Code code;
  std::string_view where;  // "core/mesh.cc"
  std::string_view why;
};
const std::vector<RaisedElsewhere> kRaisedElsewhere = {
    {Code::UnsupportedPattern, "resolve/match.cc",
     "without the pattern there is no plan"},
    {Code::PatternDiffersFromPython, "resolve/match.cc",
     "compiling a pattern tells what it looks at"},
    {Code::PatternReadingsDiffer, "io/pattern_rules.cc",
     "the rules do not keep how they were written"},
    {Code::DeviceCountMismatch, "core/mesh.cc",
     "the mesh does not keep what was asked for"},
    {Code::MayNotFit, "findings/step_findings.cc",
     "what would help is tried with the forward pass partitioned anew"},
    {Code::WorkloadDoesNotDivide, "findings/step_findings.cc",
     "a workload is not of the plan, and of many of a sweep each is asked"},
    {Code::SlowAxis, "session/slow_parts.cc",
     "the step is judged again on another mesh"},
    {Code::GatheredAgain, "session/slow_parts.cc",
     "the step is judged again with fewer micro-batches"},
    {Code::BoundBroken, "cli/commands/workload/residual.cc",
     "a measurement is compared, and not a plan"},
    {Code::UnusedActivationRule, "sim/activations.cc",
     "told though the values cannot be placed, and no program is made"},
};

TEST_CASE("findings: every code is in one row, or is said to be elsewhere") {
  std::map<Code, int> rows;
  for (const Check& check : checks()) {
    CHECK_FALSE(check.codes.empty());
    for (const Code code : check.codes) ++rows[code];
  }
  for (const RaisedElsewhere& other : kRaisedElsewhere) {
    CAPTURE(code_id(other.code));
    CHECK(++rows[other.code] == 1);
    CHECK_FALSE(other.why.empty());
    CHECK(mentions(source_dir() / "src" / other.where,
                   enumerator_of(other.code)));
  }
  for (const CodeInfo& info : all_codes()) {
    CAPTURE(code_id(info.code));
    CHECK(rows[info.code] == (is_of_findings(info.code) ? 1 : 0));
  }
}

TEST_CASE("findings: a check is given what it needs") {
  for (const Check& check : checks()) {
    CAPTURE(code_id(check.codes.front()));
    switch (check.needs) {
      case Needs::Names:
      case Needs::Labels:
      case Needs::Specs:
      case Needs::WholePlan:
        CHECK(std::holds_alternative<CheckOf<LintInput>>(check.report));
        break;
      case Needs::Budget:
        CHECK(std::holds_alternative<CheckOf<MemoryInput>>(check.report));
        break;
      case Needs::Serving:
        CHECK(std::holds_alternative<CheckOf<ServeInput>>(check.report));
        break;
      case Needs::Program:
        CHECK(std::holds_alternative<CheckOf<ProgramInput>>(check.report));
        break;
      case Needs::Run:
        CHECK(std::holds_alternative<CheckOf<RunInput>>(check.report));
        break;
      case Needs::Recording:
        CHECK(std::holds_alternative<CheckOf<RecordedInput>>(check.report));
        break;
    }
  }
}

// What needs more than a plan is raised by src/findings alone, so that the
// example of a code's page, which yields it, yields it from here.
TEST_CASE("findings: of budgets, programs and runs only checks raise them") {
  for (const Check& check : checks()) {
    const bool of_plan =
        std::holds_alternative<CheckOf<LintInput>>(check.report);
    for (const Code code : check.codes) {
      const std::vector<std::string> files = mentioning(code);
      const std::string id = code_id(code);
      CAPTURE(id);
      CHECK(std::any_of(files.begin(), files.end(), is_in_findings));
      for (const std::string& file : files) {
        if (of_plan || file == "findings/findings.cc") continue;
        CHECK_MESSAGE(is_in_findings(file), file);
      }
    }
  }
}

// An input that makes a check of plans raise a code.
struct Example {
  Code code;
  Manifest manifest;
  RuleSet rules;
  const char* mesh = "tp=2";
  ResolveOptions how = {};
  std::vector<std::string> views = {};
};

RuleSet dealing(RuleSet rules, const char* axis) {
  for (Rule& rule : rules.rules) rule.deal = axis;
  return rules;
}

RuleSet placing(RuleSet rules, const std::string& label, const char* axis) {
  rules.logical_rules.push_back({label, {axis}, {}, {}});
  return rules;
}

std::vector<Example> examples() {
  using testing::manifest;
  using testing::rules;
  const Manifest one = manifest({{"w", "u8[8]"}});
  const Manifest odd = manifest({{"w", "u8[9]"}});
  Manifest labelled = manifest({{"w", "u8[8, 8]"}});
  labelled.set_axes(0, {"embed", "mlp"});
  Manifest twice = labelled;
  twice.set_axes(0, {"embed", "embed"});
  Manifest heads = manifest({{"self_attn.k_proj.weight", "bf16[1024, 64]"}});
  heads.facts.from = FactsFrom::Config;
  heads.facts.heads = 64;
  heads.facts.kv_heads = 8;
  heads.facts.head_dim = 128;
  ResolveOptions chunk;
  chunk.on_indivisible = OnIndivisible::Chunk;
  ResolveOptions small;
  small.min_size = 64;
  const RuleSet w_tp = rules({{"w", "tp"}});
  return {
      {Code::RulesForOtherNames, one, rules({{"x", "tp"}, {".*", ""}})},
      {Code::UnmentionedAxis, one, w_tp, "tp=2,zz=2"},
      {Code::AbsentAxis, one, rules({{"w", "(tp, sp)"}}, {"sp"})},
      {Code::UnmatchedParameter, one, rules({{"x", ""}})},
      {Code::UnusedRule, one, rules({{"w", "tp"}, {"x", ""}})},
      {Code::ShadowedRule, one, rules({{"w", "tp"}, {"w", ""}})},
      {Code::OverlyBroadPattern, manifest({{"w", "u8[8]"}, {"ww", "u8[8, 8]"}}),
       w_tp},
      {Code::CatchAllOnly, one, rules({{".*", "tp"}})},
      {Code::RepeatedLogicalAxis, twice, placing({}, "embed", "tp")},
      {Code::UnplacedLogicalAxis, labelled, placing({}, "embed", "tp")},
      {Code::AmbiguousAxis, one, placing(w_tp, "tp", "fsdp"), "fsdp=2,tp=2"},
      {Code::OverriddenLogicalAxes, labelled,
       placing(rules({{".*", ""}}), "embed", "tp")},
      {Code::MergedLayouts,
       manifest({{"e.0.w1.weight", "u8[8, 4]"}, {"e.0.w2.weight", "u8[4, 8]"}}),
       rules({{key_pattern("e.*.w*", KeyPart::Module, ""), "tp"}})},
      {Code::SpecLongerThanRank, one, rules({{"w", "tp, None"}})},
      {Code::UnknownAxis, one, rules({{"w", "zz"}})},
      {Code::RepeatedAxis, manifest({{"w", "u8[8, 8]"}}),
       rules({{"w", "tp, tp"}})},
      {Code::MixedViews,
       manifest({{"w", "u8[8, 8]"}}),
       rules({{"w", "ep, tp"}}),
       "tp=2",
       {},
       {"experts:ep=2"}},
      {Code::NotDealt, one, dealing(rules({{"w", ""}}), "tp")},
      {Code::ExpertsBesideBatch, manifest({{"experts/up/kernel", "u8[8, 8]"}}),
       rules({{"up", "ep"}}), "ep=2"},
      {Code::SmallParameter, one, w_tp, "tp=2", small},
      {Code::IndivisibleDimension, odd, w_tp},
      {Code::UnevenShards, odd, w_tp, "tp=2", chunk},
      {Code::SplitUnit, heads, rules({{"k_proj", "tp"}}), "tp=16"},
      {Code::UnusedAxis, one, rules({{"w", ""}})},
      {Code::LargeReplicatedParameter, manifest({{"w", "u8[1048576]"}}),
       rules({{"w", ""}})},
      {Code::ShardingLost, odd, w_tp},
      {Code::UnevenStages,
       manifest({{"h.0.w", "u8[8]"}, {"h.1.w", "u8[8]"}, {"h.2.w", "u8[8]"}}),
       w_tp, "pp=2,tp=2"},
  };
}

// What every check of plans raises for it, by itself.
std::map<const Check*, std::set<Code>> raised_for(const Example& example) {
  Diagnostics resolving;
  const auto plan =
      resolve(example.manifest, example.rules,
              testing::mesh_with_views(example.mesh, example.views),
              example.how, resolving);
  REQUIRE(plan);
  const auto memory = device_memory(example.manifest, *plan, resolving);
  REQUIRE(memory);
  const Folding folding = fold(
      plan->placement_of, [&](size_t i) { return example.manifest.name(i); });
  LintOptions options;
  options.stages = parameter_stages(
      example.manifest, *plan,
      layer_groups(example.manifest, plan->placement_of), {"pp", {}});
  const LintInput input = make_lint_input(example.manifest, *plan, folding,
                                          &example.rules, *memory, options);
  std::map<const Check*, std::set<Code>> raised;
  for (const Check& check : checks()) {
    const auto* report = std::get_if<CheckOf<LintInput>>(&check.report);
    if (report == nullptr) continue;
    Diagnostics diags;
    diags.set_severity(Code::OverlyBroadPattern, Severity::Warning);
    (*report)(input, diags);
    for (const Diagnostic& found : diags.all()) {
      raised[&check].insert(found.code);
    }
  }
  return raised;
}

TEST_CASE("findings: a check of plans raises every code of its row, alone") {
  std::map<const Check*, std::set<Code>> raised;
  for (const Example& example : examples()) {
    CAPTURE(code_id(example.code));
    bool is_raised = false;
    for (const auto& [check, codes] : raised_for(example)) {
      raised[check].insert(codes.begin(), codes.end());
      is_raised = is_raised || codes.contains(example.code);
    }
    CHECK(is_raised);
  }
  for (const Check& check : checks()) {
    if (!std::holds_alternative<CheckOf<LintInput>>(check.report)) continue;
    CAPTURE(code_id(check.codes.front()));
    CHECK(raised[&check] ==
          std::set<Code>(check.codes.begin(), check.codes.end()));
  }
}

}  // namespace
}  // namespace shardplan
