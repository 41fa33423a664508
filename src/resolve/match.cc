// SPDX-License-Identifier: Apache-2.0
#include "resolve/match.h"

#include <algorithm>
#include <initializer_list>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include <re2/re2.h>
#include <re2/set.h>

#include "base/allocation.h"
#include "base/checked.h"
#include "base/parallel.h"
#include "base/text.h"
#include "resolve/name_groups.h"
#include "resolve/python_regex.h"
#include "resolve/told_numbers.h"

namespace shardplan {
namespace {

// Bytes for the combined automaton; it is built as names are searched and
// starts afresh when this is used up.
constexpr int64_t kSetMemory = int64_t{64} << 20;
constexpr int64_t kRuleMemory = int64_t{8} << 20;

// Fewer names are not worth a thread.
constexpr size_t kBlock = 1024;

// The combined automaton is fast while it finds its states made, and what
// making them costs is estimated by the bytes that they take: at some 10 bytes
// for each rule and name it takes as long as a loop over the rules, at 100 ten
// times as long. Samples of names are searched until that is clear; the first
// ones make the states that all names share.
constexpr size_t kSamples = 4;
constexpr size_t kSampleNames = 512;
constexpr int64_t kSlowGrowth = 16;
constexpr int64_t kHopelessGrowth = 100;

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
      "pattern " + in_backticks(rule.pattern) + " cannot be compiled");
  report.label(fragment(rule, problem.begin, problem.end), problem.message);
  if (!problem.help.empty()) report.help(problem.help);
}

PatternProblem re2_problem(const Rule& rule, const RE2& compiled) {
  const std::string& argument = compiled.error_arg();
  const size_t at = rule.pattern.find(argument);
  PatternProblem problem;
  problem.message = compiled.error();
  if (!argument.empty() && at != std::string::npos) {
    problem.begin = at;
    problem.end = at + argument.size();
  }
  if (compiled.error_code() == RE2::ErrorPatternTooLarge) {
    problem.help = "use smaller repetition counts";
  }
  return problem;
}

// What is found in some names, which all rules found in them share.
struct Counts {
  std::vector<RuleUse> rules;
  std::vector<std::set<int>> winners;

  explicit Counts(size_t count) : rules(count), winners(count) {}

  // Rules found in `names` names, `decided` of which the first one may decide.
  void record(const std::vector<int>& found, int64_t names, int64_t decided) {
    for (const int rule : found)
      rules[static_cast<size_t>(rule)].found += names;
    if (decided == 0 || found.empty()) return;
    rules[static_cast<size_t>(found.front())].won += decided;
    for (size_t i = 1; i < found.size(); ++i) {
      winners[static_cast<size_t>(found[i])].insert(found.front());
    }
  }
};

// The names to be searched: all of a manifest, or one of each group.
struct Searched {
  const Manifest& manifest;
  const NameGroups* groups = nullptr;

  size_t size() const {
    return groups == nullptr ? manifest.size() : groups->first.size();
  }
  std::string_view name(size_t i) const {
    return manifest.name(groups == nullptr ? i : groups->first[i]);
  }
};

}  // namespace

struct Matcher::Impl {
  std::vector<std::unique_ptr<RE2>> rules;
  std::unique_ptr<RE2::Set> set;  // null when it does not fit its memory
  // In RE2's spelling; empty where names may be other than plain.
  std::vector<std::string> plain_patterns;
  // What they tell of numbers, once somebody asks; empty: not proved.
  mutable std::once_flag proved;
  mutable std::optional<ToldNumbers> told;
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
    if (plain_names) impl->plain_patterns.push_back(pattern.re2);
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

std::optional<NameGroups> Matcher::groups_of(const Manifest& manifest) const {
  // A proof takes as long as a few dozen names.
  constexpr size_t kNamesPerRule = 64;
  if (impl_->rules.empty() || impl_->plain_patterns.empty() ||
      !manifest.names_are_plain() ||
      manifest.size() < kNamesPerRule * impl_->rules.size() ||
      !may_be_grouped(manifest)) {
    return std::nullopt;
  }
  std::call_once(impl_->proved, [this] {
    ToldNumbers told;
    for (const std::string& pattern : impl_->plain_patterns) {
      if (!add_told_numbers(pattern, told)) return;
    }
    impl_->told = std::move(told);
  });
  if (!impl_->told) return std::nullopt;
  return group_names(manifest, *impl_->told);
}

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

namespace {

bool grows_with_names(const Matcher& matcher, const Searched& names) {
  if (!matcher.has_combined_automaton()) return true;
  if (!kCountsAllocations || names.size() < kSamples * kSampleNames) {
    return false;
  }
  const size_t step = names.size() / kSampleNames;
  const auto tries = static_cast<int64_t>(matcher.rules() * kSampleNames);
  std::vector<int> found;
  found.reserve(matcher.rules());
  int64_t growth = 0;
  for (size_t sample = 0; sample < kSamples; ++sample) {
    growth = 0;
    for (size_t i = 0; i < kSampleNames; ++i) {
      const int64_t before = allocated_bytes();
      matcher.find(names.name(i * step + step * sample / kSamples), found);
      // Where it is full it starts afresh, and is smaller than before.
      growth += std::max<int64_t>(allocated_bytes() - before, 0);
    }
    if (growth > kHopelessGrowth * tries) return true;
    if (growth == 0) return false;
  }
  return growth > kSlowGrowth * tries;
}

// Calls found(number of the share, number of the name, rules found in it) for
// every name. A share is of fixed names, whoever searches them; `shares` is
// called first, with how many there are.
template <typename OnShares, typename OnFound>
void search_all(const Matcher& matcher, const Searched& names, int jobs,
                OnShares on_shares, OnFound on_found) {
  const bool one_by_one = grows_with_names(matcher, names);
  const size_t blocks = names.size() / kBlock + 1;
  const size_t threads =
      std::clamp<size_t>(static_cast<size_t>(jobs), 1, blocks);
  on_shares(threads);
  parallel_for(static_cast<int64_t>(threads), static_cast<int>(threads),
               [&](int64_t share) {
                 const auto t = static_cast<size_t>(share);
                 const size_t end = names.size() * (t + 1) / threads;
                 std::vector<int> found;
                 for (size_t i = names.size() * t / threads; i < end; ++i) {
                   if (one_by_one) {
                     matcher.find_one_by_one(names.name(i), found);
                   } else {
                     matcher.find(names.name(i), found);
                   }
                   on_found(t, i, found);
                 }
               });
}

void take_counts(const std::vector<Counts>& shares, Matches& matches) {
  for (size_t rule = 0; rule < matches.rules.size(); ++rule) {
    std::set<int> winners;
    for (const Counts& share : shares) {
      matches.rules[rule].found += share.rules[rule].found;
      matches.rules[rule].won += share.rules[rule].won;
      winners.insert(share.winners[rule].begin(), share.winners[rule].end());
    }
    matches.rules[rule].winners.assign(winners.begin(), winners.end());
  }
}

// One name of each group is searched for all of them.
void match_groups(const Matcher& matcher, const Manifest& manifest,
                  const NameGroups& groups, const MayDecide& may_decide,
                  int jobs, Matches& matches) {
  struct Size {
    int64_t names = 0;
    int64_t decided = 0;
  };
  std::vector<Size> sizes(groups.first.size());
  for (size_t i = 0; i < manifest.size(); ++i) {
    Size& size = sizes[groups.of[i]];
    ++size.names;
    const bool decides = may_decide(i);
    size.decided += decides ? 1 : 0;
    matches.winner[i] = decides ? 0 : -1;
  }
  std::vector<int32_t> winner(groups.first.size());
  std::vector<Counts> shares;
  search_all(
      matcher, {manifest, &groups}, jobs,
      [&](size_t count) { shares.assign(count, Counts(matcher.rules())); },
      [&](size_t share, size_t group, const std::vector<int>& found) {
        winner[group] = found.empty() ? -1 : found.front();
        shares[share].record(found, sizes[group].names, sizes[group].decided);
      });
  for (size_t i = 0; i < manifest.size(); ++i) {
    if (matches.winner[i] == 0) matches.winner[i] = winner[groups.of[i]];
  }
  take_counts(shares, matches);
}

}  // namespace

bool is_faster_one_by_one(const Matcher& matcher, const Manifest& manifest) {
  return grows_with_names(matcher, {manifest});
}

Matches match_every_name(const Matcher& matcher, const Manifest& manifest,
                         const MayDecide& may_decide, int jobs) {
  Matches matches;
  matches.winner.resize(manifest.size());
  matches.rules.resize(matcher.rules());
  std::vector<Counts> shares;
  search_all(
      matcher, {manifest}, jobs,
      [&](size_t count) { shares.assign(count, Counts(matcher.rules())); },
      [&](size_t share, size_t i, const std::vector<int>& found) {
        const bool decides = may_decide(i);
        matches.winner[i] = !decides || found.empty() ? -1 : found.front();
        shares[share].record(found, 1, decides ? 1 : 0);
      });
  take_counts(shares, matches);
  return matches;
}

Matches match(const Matcher& matcher, const Manifest& manifest,
              const MayDecide& may_decide, int jobs) {
  const std::optional<NameGroups> groups = matcher.groups_of(manifest);
  if (!groups) return match_every_name(matcher, manifest, may_decide, jobs);
  Matches matches;
  matches.winner.resize(manifest.size());
  matches.rules.resize(matcher.rules());
  match_groups(matcher, manifest, *groups, may_decide, jobs, matches);
  return matches;
}

namespace {

// What names are made of: printable ASCII without the blank.
constexpr char kFirstCharacter = '!';
constexpr char kLastCharacter = '~';

bool finds_every_pair(const RE2& pattern) {
  for (char a = kFirstCharacter; a <= kLastCharacter; ++a) {
    for (char b = kFirstCharacter; b <= kLastCharacter; ++b) {
      const char name[] = {a, b};
      if (!RE2::PartialMatch(std::string_view(name, 2), pattern)) return false;
    }
  }
  return true;
}

// Longer than any repetition that RE2 counts.
constexpr size_t kLongName = 1001;
constexpr size_t kShortNames = 80;

// All characters in turn, and one of them alone.
bool finds_every_length(const RE2& pattern) {
  std::string turn(kLongName, ' ');
  char next = kFirstCharacter;
  for (char& c : turn) {
    c = next;
    next =
        next == kLastCharacter ? kFirstCharacter : static_cast<char>(next + 1);
  }
  const auto finds = [&](size_t length) {
    return RE2::PartialMatch(std::string(length, 'a'), pattern) &&
           RE2::PartialMatch(turn.substr(turn.size() - length), pattern);
  };
  for (size_t length = 3; length < kShortNames; ++length) {
    if (!finds(length)) return false;
  }
  return finds(kLongName);
}

bool has_any(std::string_view text, std::initializer_list<const char*> parts) {
  return std::any_of(parts.begin(), parts.end(), [&](const char* part) {
    return text.find(part) != std::string_view::npos;
  });
}

}  // namespace

// A pattern that matches every name of one character is found in all names
// unless it looks at both ends: what is found at the beginning of `c` is found
// at that of whatever begins with c, as long as it does not ask where the name
// ends, and the same holds for the end.
bool is_catch_all(std::string_view pattern) {
  const auto translated = translate_pattern(pattern, true);
  if (!std::holds_alternative<TranslatedPattern>(translated)) return false;
  const std::string& text = std::get<TranslatedPattern>(translated).re2;
  const UnrefusedAllocations re2;
  const RE2 compiled(text, options(kRuleMemory));
  if (!compiled.ok()) return false;
  for (char c = kLastCharacter; c >= kFirstCharacter; --c) {
    if (!RE2::PartialMatch(std::string_view(&c, 1), compiled)) return false;
  }
  // A `^` within a class counts too: then the pattern is tried without need.
  const bool at_begin = has_any(text, {"^", "\\A"});
  const bool at_end = has_any(text, {"$", "\\z"});
  const bool at_words = has_any(text, {"\\b", "\\B"});
  if (!at_words && !(at_begin && at_end)) return true;
  return finds_every_pair(compiled) && finds_every_length(compiled);
}

}  // namespace shardplan
