// SPDX-License-Identifier: Apache-2.0
#include "resolve/match.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <utility>

#include <re2/re2.h>
#include <re2/set.h>

#include "base/allocation.h"
#include "base/checked.h"
#include "base/parallel.h"
#include "base/text.h"
#include "resolve/python_regex.h"

namespace shardplan {
namespace {

// Bytes for the combined automaton; it is built as names are searched and
// starts afresh when this is used up.
constexpr int64_t kSetMemory = int64_t{64} << 20;
constexpr int64_t kRuleMemory = int64_t{8} << 20;

// Names per thread at a time, and how slow the combined automaton may be
// before the loop is thought of.
constexpr size_t kBlock = 1024;
constexpr double kSlowSecondsPerName = 10e-6;
// Tries of a rule by which the loop is judged before it is used.
constexpr size_t kSampled = 128;

RE2::Options options(int64_t memory) {
  RE2::Options result(RE2::Quiet);
  result.set_max_mem(memory);
  result.set_never_capture(true);
  return result;
}

// The place of a fragment of the pattern. A quoted scalar may spell it with
// escapes; then the whole pattern is marked.
Span fragment(const Rule& rule, size_t begin, size_t end) {
  const std::string_view written = rule.where.text();
  const size_t at = written.find(rule.pattern);
  if (at == std::string_view::npos || begin >= end) return rule.where;
  return {rule.where.file, rule.where.begin + at + begin,
          rule.where.begin + at + end};
}

void report_problem(const Rule& rule, const PatternProblem& problem,
                    Diagnostics& diags) {
  auto report = diags.error(
      Code::UnsupportedPattern, {},
      "pattern `" + printable(rule.pattern) + "` cannot be compiled");
  report.label(fragment(rule, problem.begin, problem.end), problem.message);
  if (!problem.help.empty()) report.help(problem.help);
}

PatternProblem re2_problem(const Rule& rule, const RE2& compiled) {
  const std::string& argument = compiled.error_arg();
  const size_t at = rule.pattern.find(argument);
  PatternProblem problem;
  problem.message = printable(compiled.error());
  if (!argument.empty() && at != std::string::npos) {
    problem.begin = at;
    problem.end = at + argument.size();
  }
  if (compiled.error_code() == RE2::ErrorPatternTooLarge) {
    problem.help = "use smaller repetition counts";
  }
  return problem;
}

double seconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// What one thread finds in its share of the names.
struct Share {
  std::vector<RuleUse> rules;
  std::vector<std::set<int>> winners;

  explicit Share(size_t count) : rules(count), winners(count) {}

  void record(const std::vector<int>& found, bool decides) {
    for (const int rule : found) ++rules[static_cast<size_t>(rule)].found;
    if (!decides || found.empty()) return;
    ++rules[static_cast<size_t>(found.front())].won;
    for (size_t i = 1; i < found.size(); ++i) {
      winners[static_cast<size_t>(found[i])].insert(found.front());
    }
  }
};

// What the loop takes for a name, told from a few. A number of seconds means
// little on a machine that is slow itself, or under a tool that counts
// instructions.
double loop_seconds(const Matcher& matcher, const Manifest& manifest,
                    size_t begin) {
  const size_t names = std::clamp<size_t>(kSampled / matcher.rules(), 1,
                                          manifest.size() - begin);
  std::vector<int> found;
  double taken = 0;
  // The first pass makes the automatons, the second is timed.
  for (int pass = 0; pass < 2; ++pass) {
    const double start = seconds();
    for (size_t i = begin; i < begin + names; ++i) {
      matcher.find_one_by_one(manifest.name(i), found);
    }
    taken = seconds() - start;
  }
  return taken / static_cast<double>(names);
}

// Searches names [begin, end). Which way is faster never changes the answer.
void search(const Matcher& matcher, const Manifest& manifest,
            const MayDecide& may_decide, size_t begin, size_t end,
            Matches& matches, Share& share) {
  std::vector<int> found;
  bool one_by_one = !matcher.has_combined_automaton();
  double combined = 0;
  for (size_t block = begin, number = 0; block < end;
       block += kBlock, ++number) {
    const size_t stop = std::min(end, block + kBlock);
    const double start = seconds();
    for (size_t i = block; i < stop; ++i) {
      if (one_by_one) {
        matcher.find_one_by_one(manifest.name(i), found);
      } else {
        matcher.find(manifest.name(i), found);
      }
      const bool decides = may_decide(i);
      matches.winner[i] = !decides || found.empty() ? -1 : found.front();
      share.record(found, decides);
    }
    // Block 0 warms the automaton, block 1 times it, block 2 times the loop.
    const double taken =
        (seconds() - start) / static_cast<double>(stop - block);
    if (number == 1 && !one_by_one && taken > kSlowSecondsPerName &&
        taken > loop_seconds(matcher, manifest, block)) {
      combined = taken;
      one_by_one = true;
    } else if (number == 2 && combined > 0 && taken > combined) {
      one_by_one = false;
    }
  }
}

}  // namespace

struct Matcher::Impl {
  std::vector<std::unique_ptr<RE2>> rules;
  std::unique_ptr<RE2::Set> set;  // null when it does not fit its memory
};

Matcher::Matcher(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Matcher::Matcher(Matcher&&) noexcept = default;
Matcher& Matcher::operator=(Matcher&&) noexcept = default;
Matcher::~Matcher() = default;

std::optional<Matcher> Matcher::compile(const RuleSet& rules, bool plain_names,
                                        Diagnostics& diags) {
  auto impl = std::make_unique<Impl>();
  {
    const UnrefusedAllocations re2;
    impl->set =
        std::make_unique<RE2::Set>(options(kSetMemory), RE2::UNANCHORED);
  }
  bool ok = true;
  for (const Rule& rule : rules.rules) {
    auto translated = translate_pattern(rule.pattern, plain_names);
    if (const auto* problem = std::get_if<PatternProblem>(&translated)) {
      report_problem(rule, *problem, diags);
      ok = false;
      continue;
    }
    const auto& pattern = std::get<TranslatedPattern>(translated);
    std::unique_ptr<RE2> compiled;
    {
      const UnrefusedAllocations re2;
      compiled = std::make_unique<RE2>(pattern.re2, options(kRuleMemory));
      if (compiled->ok() && impl->set != nullptr &&
          impl->set->Add(pattern.re2, nullptr) < 0) {
        impl->set.reset();
      }
    }
    if (!compiled->ok()) {
      report_problem(rule, re2_problem(rule, *compiled), diags);
      ok = false;
      continue;
    }
    if (!pattern.ascii_only.empty()) {
      diags
          .report(Code::PatternDiffersFromPython, rule.where,
                  "`" + pattern.ascii_only +
                      "` looks at ASCII only, and some names are not ASCII")
          .help("spell out the characters that are meant");
    }
    impl->rules.push_back(std::move(compiled));
  }
  if (!ok) return std::nullopt;
  const UnrefusedAllocations re2;
  if (impl->rules.empty() || (impl->set && !impl->set->Compile())) {
    impl->set.reset();
  }
  return Matcher(std::move(impl));
}

std::optional<Matcher> compile_activations(const RuleSet& rules,
                                           Diagnostics& diags) {
  RuleSet patterns;
  patterns.rules = rules.activations;
  return Matcher::compile(patterns, true, diags);
}

size_t Matcher::rules() const { return impl_->rules.size(); }

bool Matcher::has_combined_automaton() const { return impl_->set != nullptr; }

void Matcher::find(std::string_view name, std::vector<int>& found) const {
  found.clear();
  if (impl_->set == nullptr) return find_one_by_one(name, found);
  const UnrefusedAllocations re2;
  RE2::Set::ErrorInfo error{};
  if (!impl_->set->Match(name, &found, &error) &&
      error.kind != RE2::Set::kNoError) {
    return find_one_by_one(name, found);
  }
  std::sort(found.begin(), found.end());
}

void Matcher::find_one_by_one(std::string_view name,
                              std::vector<int>& found) const {
  found.clear();
  const UnrefusedAllocations re2;
  for (size_t i = 0; i < impl_->rules.size(); ++i) {
    if (RE2::PartialMatch(name, *impl_->rules[i])) {
      found.push_back(static_cast<int>(i));
    }
  }
}

Matches match(const Matcher& matcher, const Manifest& manifest,
              const MayDecide& may_decide, int jobs) {
  Matches matches;
  matches.winner.resize(manifest.size());
  const size_t blocks = manifest.size() / kBlock + 1;
  const size_t threads =
      std::clamp<size_t>(static_cast<size_t>(jobs), 1, blocks);
  std::vector<Share> shares(threads, Share(matcher.rules()));
  // A share is of fixed names, whoever searches them.
  parallel_for(
      static_cast<int64_t>(threads), static_cast<int>(threads), [&](int64_t i) {
        const auto t = static_cast<size_t>(i);
        search(matcher, manifest, may_decide, manifest.size() * t / threads,
               manifest.size() * (t + 1) / threads, matches, shares[t]);
      });

  matches.rules.resize(matcher.rules());
  for (size_t rule = 0; rule < matcher.rules(); ++rule) {
    std::set<int> winners;
    for (const Share& share : shares) {
      matches.rules[rule].found += share.rules[rule].found;
      matches.rules[rule].won += share.rules[rule].won;
      winners.insert(share.winners[rule].begin(), share.winners[rule].end());
    }
    matches.rules[rule].winners.assign(winners.begin(), winners.end());
  }
  return matches;
}

bool is_catch_all(std::string_view pattern) {
  const auto translated = translate_pattern(pattern, true);
  if (!std::holds_alternative<TranslatedPattern>(translated)) return false;
  const UnrefusedAllocations re2;
  const RE2 compiled(std::get<TranslatedPattern>(translated).re2,
                     options(kRuleMemory));
  // Names that no model has, of several shapes and characters.
  for (const char* name : {"~", "~~~", "~/~", "~.~.~", "a", "A", "0", "_"}) {
    if (!compiled.ok() || !RE2::PartialMatch(name, compiled)) return false;
  }
  return true;
}

}  // namespace shardplan
