// SPDX-License-Identifier: Apache-2.0
// Searches names for all patterns at once, in parts, or one by one, whichever
// its estimate of the cost allows.
#include "resolve/match.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include <re2/re2.h>
#include <re2/set.h>

#include "base/allocation.h"
#include "base/checked.h"
#include "base/parallel.h"
#include "base/text.h"
#include "model/read_once.h"
#include "resolve/distinguished_numbers.h"
#include "resolve/number_lists.h"
#include "resolve/python_regex.h"

namespace shardplan {
namespace {

// Memory of the combined automaton in bytes; RE2 discards the states and starts
// over when it is used up.
constexpr int64_t kSetMemory = int64_t{64} << 20;
constexpr int64_t kRuleMemory = int64_t{8} << 20;
// Compile time grows with the square of the program's size: 100,000
// instructions take 0.1 s.
constexpr int64_t kMostCompiling = 500'000'000'000;

// Fewer names than this are not worth a thread.
constexpr size_t kBlock = 1024;
// The combined automaton is fast as long as the states that it needs exist
// already. The cost of building them is estimated from their bytes: about 10
// bytes per rule and name cost as much as a loop over the rules, 100 bytes ten
// times that. Samples of names are searched until the growth is clear; the
// first samples build the states that all names share.
constexpr size_t kSamples = 4;
constexpr size_t kSampleNames = 512;
constexpr int64_t kSlowGrowth = 16;
constexpr int64_t kHopelessGrowth = 100;
// A sample that fills half of the memory shows that the whole search would fill
// it, and start over, many times.
constexpr int64_t kMostSampled = kSetMemory / 2;
// Fewer searches than this are not worth a sample.
constexpr size_t kFewSearches = 4096;

// If one automaton of all patterns grows too much, the patterns are searched in
// parts of this size, whose automata mostly stay small.
constexpr size_t kPart = 64;

// The cost of a search is measured in bytes by which automata of single
// patterns grow, about 4 ns each: patterns such as `(a|b)*a(a|b){100}c` make
// them grow with every name. A search beyond kMostCost, about ten seconds, is
// refused. A byte of a combined automaton costs more, because it sorts the
// contents of each state.
constexpr int64_t kMostCost = int64_t{2} << 30U;
constexpr int64_t kCombinedGrowth = 2;
// The cost of one search for one pattern in one name, in addition to 1/3 per
// byte of the name. An automaton of kLargeAutomaton bytes does not stay in the
// cache, so each byte of a name then costs kLargeStep.
constexpr int64_t kCallCost = 20;
constexpr int64_t kLargeAutomaton = int64_t{64} << 10U;
constexpr int64_t kLargeStep = 2;
// The cost of one match, including the sorting of the matches.
constexpr int64_t kFoundCost = 16;
// RE2 may give up the automaton of a pattern that grows by this much for one
// name and search without it. That takes one step per character of the name,
// each through the whole program.
constexpr int64_t kGivenUp = int64_t{256} << 10U;
// The most steps that one pattern may take in one name; and the most that all
// patterns of one automaton may take in it before the automaton is not even
// tried.
constexpr int64_t kMostStepsPerName = 200'000'000;
constexpr int64_t kManySteps = 50'000'000;
// Beyond this number of steps, searching one name for all patterns at once is
// no faster than searching for one after the other.
constexpr int64_t kFewSteps = 5'000'000;
// The most rules in all distinct sets of matching rules together.
constexpr int64_t kMostFound = int64_t{1} << 25U;

RE2::Options options(int64_t memory) {
  RE2::Options result(RE2::Quiet);
  result.set_max_mem(memory);
  result.set_never_capture(true);
  return result;
}

// Returns the place of a fragment of the pattern, or of the whole pattern if it
// is a quoted scalar with escapes.
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

// The names to search: all names of a manifest, or one of each group.
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

// Returns false if the automaton runs out of memory.
bool find_in(const RE2::Set& set, std::string_view name,
             std::vector<int>& found) {
  found.clear();
  RE2::Set::ErrorInfo error{};
  if (!set.Match(name, &found, &error) && error.kind != RE2::Set::kNoError) {
    return false;
  }
  if (!std::ranges::is_sorted(found)) sort_numbers(found);
  return true;
}

// Returns whether searching samples of the names for `patterns` patterns
// allocates too much. Adds to `cost` what the samples cost and, if the result
// is false, what all names will cost.
template <typename Find>
bool grows_with_names(const Searched& names, size_t patterns, Find find,
                      Int128& cost) {
  const size_t sampled = std::min(names.size() / kSamples, kSampleNames);
  if (!kCountsAllocations || names.size() * patterns < kFewSearches ||
      sampled == 0) {
    return false;
  }
  const size_t step = names.size() / sampled;
  const auto tries = static_cast<int64_t>(patterns * sampled);
  std::vector<int> found;
  found.reserve(patterns);
  int64_t growth = 0;
  for (size_t sample = 0; sample < kSamples; ++sample) {
    growth = 0;
    for (size_t i = 0; i < sampled; ++i) {
      const int64_t before = allocated_by_thread();
      find(names.name(i * step + step * sample / kSamples), found);
      const int64_t added = allocated_by_thread() - before;
      // A full automaton starts over and is then smaller than before.
      growth += added < 0 ? kMostSampled : added;
      if (growth <= std::min(kHopelessGrowth * tries, kMostSampled)) continue;
      cost += kCombinedGrowth * growth;
      return true;
    }
    cost += kCombinedGrowth * growth;
    if (growth == 0) return false;
  }
  if (growth > kSlowGrowth * tries) return true;
  cost += static_cast<Int128>(kCombinedGrowth) * growth *
          static_cast<Int128>(names.size() / sampled);
  return false;
}

// The list of patterns that match each name.
struct FoundLists {
  NumberLists lists;
  std::vector<uint32_t> of;
};

// Calls find(name, found) for every name, on several threads. The resulting
// numbers do not depend on the number of threads.
template <typename Find>
FoundLists find_all(const Searched& names, int jobs, Find find) {
  const size_t blocks = names.size() / kBlock + 1;
  const size_t threads = std::clamp<size_t>(to_size(jobs), 1, blocks);
  FoundLists result;
  result.of.resize(names.size());
  std::vector<NumberLists> shares(threads);
  const auto begin_of = [&](size_t share) {
    return names.size() * share / threads;
  };
  parallel_for(static_cast<int64_t>(threads), static_cast<int>(threads),
               [&](int64_t share) {
                 const size_t t = to_size(share);
                 std::vector<int> found;
                 for (size_t i = begin_of(t); i < begin_of(t + 1); ++i) {
                   found.clear();
                   find(names.name(i), found);
                   result.of[i] = shares[t].number_of(found);
                 }
               });
  for (size_t t = 0; t < threads; ++t) {
    std::vector<uint32_t> number;
    for (uint32_t i = 0; i < shares[t].size(); ++i) {
      number.push_back(result.lists.number_of(shares[t].list(i)));
    }
    for (size_t i = begin_of(t); i < begin_of(t + 1); ++i) {
      result.of[i] = number[result.of[i]];
    }
  }
  return result;
}

}  // namespace

struct Matcher::Impl {
  size_t rules = 0;
  // The distinct patterns of the rules, in the order of their first rules.
  std::vector<std::unique_ptr<RE2>> patterns;
  std::vector<std::string> spelt;          // in RE2's syntax
  std::vector<std::vector<int>> rules_of;  // per pattern
  std::unique_ptr<RE2::Set> set;  // null when it does not fit its memory
  int64_t steps = 0;              // of all programs per character, at most
  bool plain_names = false;
  // The numbers that the patterns distinguish, computed on first use; no value:
  // not proved.
  mutable Once proved;
  mutable std::optional<DistinguishedNumbers> distinguished;

  // Returns the total program size of the patterns [begin, end).
  int64_t program_size(size_t begin, size_t end) const {
    int64_t size = 0;
    for (size_t i = begin; i < end; ++i) size += patterns[i]->ProgramSize();
    return size;
  }
  // Finds the numbers of the patterns [begin, end) that match a name,
  // ascending. `at_once` has these patterns; null: they are searched one by
  // one.
  void find(const RE2::Set* at_once, std::string_view name, size_t begin,
            size_t end, std::vector<int>& found) const;
  void find_one_by_one(std::string_view name, size_t begin, size_t end,
                       std::vector<int>& found) const;
  // Replaces the numbers of patterns by those of their rules.
  void to_rules(std::vector<int>& found) const;
};

void Matcher::Impl::find(const RE2::Set* at_once, std::string_view name,
                         size_t begin, size_t end,
                         std::vector<int>& found) const {
  const UnrefusedAllocations re2;
  if (at_once != nullptr && find_in(*at_once, name, found)) {
    for (int& pattern : found) pattern += static_cast<int>(begin);
    return;
  }
  found.clear();
  find_one_by_one(name, begin, end, found);
}

void Matcher::Impl::find_one_by_one(std::string_view name, size_t begin,
                                    size_t end, std::vector<int>& found) const {
  const UnrefusedAllocations re2;
  for (size_t i = begin; i < end; ++i) {
    if (RE2::PartialMatch(name, *patterns[i])) {
      found.push_back(static_cast<int>(i));
    }
  }
}

void Matcher::Impl::to_rules(std::vector<int>& found) const {
  if (patterns.size() == rules) return;
  std::vector<int> all;
  for (const int pattern : found) {
    const std::vector<int>& some = nth(rules_of, pattern);
    all.insert(all.end(), some.begin(), some.end());
  }
  std::ranges::sort(all);
  found = std::move(all);
}

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
  impl->plain_names = plain_names;
  bool ok = true;
  int64_t compiling = 0;
  std::unordered_map<std::string, size_t> known;
  for (const Rule& rule : rules.rules) {
    auto translated = translate_pattern(rule.pattern, plain_names);
    if (const auto* problem = std::get_if<PatternProblem>(&translated)) {
      report_problem(rule, *problem, diags);
      ok = false;
      continue;
    }
    const auto& pattern = std::get<TranslatedPattern>(translated);
    const auto [entry, is_new] =
        known.try_emplace(pattern.re2, impl->patterns.size());
    if (is_new) {
      const UnrefusedAllocations re2;
      auto compiled = std::make_unique<RE2>(pattern.re2, options(kRuleMemory));
      if (!compiled->ok()) {
        report_problem(rule, re2_problem(rule, *compiled), diags);
        known.erase(entry);
        ok = false;
        continue;
      }
      const int64_t size = compiled->ProgramSize();
      compiling += size * size;
      if (compiling > kMostCompiling) {
        report_problem(rule, {0, 0, "the patterns are too large together", ""},
                       diags);
        return std::nullopt;
      }
      if (impl->set != nullptr && impl->set->Add(pattern.re2, nullptr) < 0) {
        impl->set.reset();
      }
      impl->steps += size;
      impl->patterns.push_back(std::move(compiled));
      impl->spelt.push_back(pattern.re2);
      impl->rules_of.emplace_back();
    }
    if (!pattern.ascii_only.empty()) {
      diags
          .report(Code::PatternDiffersFromPython, rule.where,
                  "`" + pattern.ascii_only +
                      "` matches ASCII only, but some names are not ASCII")
          .help("spell out the intended characters");
    }
    impl->rules_of[entry->second].push_back(static_cast<int>(impl->rules++));
  }
  if (!ok) return std::nullopt;
  const UnrefusedAllocations re2;
  if (impl->patterns.empty() || (impl->set && !impl->set->Compile())) {
    impl->set.reset();
  }
  return Matcher(std::move(impl));
}

size_t Matcher::rules() const { return impl_->rules; }

std::optional<NameGroups> Matcher::groups_of(const Manifest& manifest) const {
  // A proof takes as long as a few dozen names.
  constexpr size_t kNamesPerRule = 64;
  if (impl_->patterns.empty() || !impl_->plain_names ||
      !manifest.names_are_plain() ||
      manifest.size() < kNamesPerRule * impl_->patterns.size() ||
      !may_be_grouped(manifest)) {
    return std::nullopt;
  }
  impl_->proved.run([this] {
    DistinguishedNumbers distinguished;
    for (const std::string& pattern : impl_->spelt) {
      if (!add_distinguished_numbers(pattern, distinguished)) return;
    }
    impl_->distinguished = std::move(distinguished);
  });
  if (!impl_->distinguished) return std::nullopt;
  return group_names(manifest, *impl_->distinguished);
}

void Matcher::find(std::string_view name, std::vector<int>& found) const {
  const bool at_once = impl_->steps * std::ssize(name) <= kFewSteps;
  impl_->find(at_once ? impl_->set.get() : nullptr, name, 0,
              impl_->patterns.size(), found);
  impl_->to_rules(found);
}

void Matcher::find_one_by_one(std::string_view name,
                              std::vector<int>& found) const {
  found.clear();
  impl_->find_one_by_one(name, 0, impl_->patterns.size(), found);
  impl_->to_rules(found);
}

// Searches for one part of the patterns after another, each with an automaton
// of its own, and combines the results.
struct SearchInParts {
  // A node in a chain of matches: the matches in earlier parts, and those in
  // the next part.
  struct Step {
    uint32_t before = 0;
    std::vector<int> list = {};
    int64_t found = 0;  // matches up to here
  };

  const Matcher::Impl& matcher;
  const Searched& names;
  int64_t longest;  // length of the longest name, more than 0
  int64_t bytes;    // of all names
  int jobs;
  Int128 cost = 0;  // of the search so far
  // Per name, the index of its last step.
  std::vector<uint32_t> of = std::vector<uint32_t>(names.size());
  std::vector<Step> steps = {{}};  // the first one: no match
  // The number of parts to search one by one before an automaton is tried
  // again.
  size_t parts_to_pass = 0;
  size_t parts_passed = 0;

  // Returns whether the search would take too long: sampled patterns all need
  // large automata, and those of all patterns together do not fit into the
  // memory of one.
  bool is_hopeless() {
    const size_t all = matcher.patterns.size();
    constexpr size_t kFit = kSetMemory / kLargeAutomaton;
    if (all <= kFit || steps_of(all, kLargeAutomaton) <= kMostCost) {
      return false;
    }
    for (size_t p = 0; p < all; p += all / 16 + 1) {
      int64_t growth = 0;
      for (size_t i = 0; i < names.size(); i += names.size() / 4 + 1) {
        const Tried tried = try_one(p, names.name(i));
        growth += tried.growth;
        cost += tried.cost;
      }
      if (cost > kMostCost / 8) return true;
      if (growth <= kLargeAutomaton) return false;
    }
    return true;
  }
  // Returns no value if the search would take too long.
  std::optional<FoundLists> run() {
    const size_t all = matcher.patterns.size();
    for (size_t begin = 0; begin < all; begin += kPart) {
      if (!search(begin, std::min(begin + kPart, all))) return std::nullopt;
    }
    return together();
  }

  // The cost of searching for one pattern in one name.
  struct Tried {
    int64_t growth = 0;  // of its automaton, in bytes
    int64_t cost = 0;
  };
  Tried try_one(size_t pattern, std::string_view name) const {
    std::vector<int> found;
    found.reserve(1);
    const int64_t before = allocated_by_thread();
    matcher.find_one_by_one(name, pattern, pattern + 1, found);
    const int64_t growth = allocated_by_thread() - before;
    if (growth >= 0 && growth <= kGivenUp) return {growth, 2 * growth};
    // A full automaton starts over, or RE2 gives it up.
    const int64_t taken =
        std::ssize(name) * matcher.program_size(pattern, pattern + 1);
    return {std::max(growth, kGivenUp), std::max(2 * growth, 32 * taken)};
  }

  // Returns the cost of searching all names for `patterns` patterns whose
  // automata exist already, of `automaton` bytes each.
  Int128 steps_of(size_t patterns, int64_t automaton) const {
    const int64_t by_bytes =
        automaton < kLargeAutomaton ? bytes / 3 : bytes * kLargeStep;
    return Int128{patterns} * (Int128{names.size()} * kCallCost + by_bytes);
  }

  bool search(size_t begin, size_t end) {
    // If an automaton did not help for a part, the next parts are searched
    // without one.
    if (parts_passed < parts_to_pass) {
      ++parts_passed;
    } else if (search_at_once(begin, end)) {
      parts_to_pass = 0;
      return cost <= kMostCost;
    } else {
      parts_to_pass = 2 * parts_to_pass + 1;
      parts_passed = 0;
    }
    if (!is_affordable(begin, end)) return false;
    add(find_all(names, jobs,
                 [&](std::string_view name, std::vector<int>& found) {
                   matcher.find_one_by_one(name, begin, end, found);
                 }));
    return cost <= kMostCost;
  }

  // Returns false if an automaton of the part does not help.
  bool search_at_once(size_t begin, size_t end) {
    if (names.size() < kSamples ||
        matcher.program_size(begin, end) > kManySteps / longest) {
      return false;
    }
    RE2::Set set(options(kSetMemory), RE2::UNANCHORED);
    bool is_made = true;
    {
      const UnrefusedAllocations re2;
      for (size_t i = begin; i < end && is_made; ++i) {
        is_made = set.Add(matcher.spelt[i], nullptr) >= 0;
      }
      is_made = is_made && set.Compile();
    }
    if (!is_made) return false;
    const auto at_once = [&](std::string_view name, std::vector<int>& found) {
      matcher.find(&set, name, begin, end, found);
    };
    // The first name builds the states that all names share.
    std::vector<int> found;
    at_once(names.name(0), found);
    if (grows_with_names(names, end - begin, at_once, cost)) return false;
    add(find_all(names, jobs, at_once));
    return true;
  }

  // Estimates the cost of a part by trying some of its patterns on some names.
  bool is_affordable(size_t begin, size_t end) {
    constexpr size_t kTried = 4;
    constexpr size_t kNames = 16;
    const size_t patterns = std::min(kTried, end - begin);
    const size_t tried_names = std::min(kNames, names.size());
    Int128 of_tried = 0;
    int64_t largest = 0;
    for (size_t p = 0; p < patterns; ++p) {
      const size_t pattern = begin + (end - begin) * p / patterns;
      int64_t held = 0;
      for (size_t i = 0; i < tried_names; ++i) {
        const std::string_view name =
            names.name(names.size() * i / tried_names);
        const Tried tried = try_one(pattern, name);
        held += tried.growth;
        cost += tried.cost;
        // The second such name is evidence enough.
        const Int128 alike = Int128{tried.cost} * bytes * (end - begin);
        if (cost > kMostCost ||
            (i > 0 && tried.growth >= kGivenUp &&
             alike > Int128{kMostCost} * std::ssize(name))) {
          return false;
        }
        // The first names build the states that all names share.
        if (i >= tried_names / 2) of_tried += tried.cost;
      }
      largest = std::max(largest, held);
    }
    const Int128 tries = Int128{patterns} * (tried_names - tried_names / 2);
    cost +=
        of_tried * (end - begin) * names.size() / std::max<Int128>(tries, 1);
    cost += Int128{end - begin} * largest;
    cost += steps_of(end - begin, largest);
    return cost <= kMostCost;
  }

  void add(const FoundLists& part) {
    std::unordered_map<uint64_t, uint32_t> known;
    for (size_t i = 0; i < of.size(); ++i) {
      const uint32_t list = part.of[i];
      if (list == 0) continue;
      const std::vector<int>& found = part.lists.list(list);
      cost += Int128{kFoundCost} * std::ssize(found);
      const auto [entry, is_new] = known.try_emplace(
          (uint64_t{of[i]} << 32U) | list, static_cast<uint32_t>(steps.size()));
      if (is_new) {
        steps.push_back({of[i], found, steps[of[i]].found + std::ssize(found)});
      }
      of[i] = entry->second;
    }
  }

  std::optional<FoundLists> together() const {
    FoundLists result;
    std::vector<uint32_t> number_of(steps.size(), UINT32_MAX);
    int64_t found = 0;
    for (const uint32_t step : of) {
      uint32_t& number = number_of[step];
      if (number == UINT32_MAX) {
        found += steps[step].found;
        if (found > kMostFound) return std::nullopt;
        std::vector<int> list;
        for (uint32_t at = step; at != 0; at = steps[at].before) {
          list.insert(list.end(), steps[at].list.rbegin(),
                      steps[at].list.rend());
        }
        std::ranges::reverse(list);
        number = result.lists.number_of(list);
      }
      result.of.push_back(number);
    }
    return result;
  }
};

std::optional<FoundSets> Matcher::find_sets(const Manifest& manifest, int jobs,
                                            bool every_name) const {
  const std::optional<NameGroups> groups =
      every_name ? std::nullopt : groups_of(manifest);
  const Searched names{manifest, groups ? &*groups : nullptr};
  const auto at_once = [this](std::string_view name, std::vector<int>& found) {
    impl_->find(impl_->set.get(), name, 0, impl_->patterns.size(), found);
  };
  int64_t longest = 1;
  int64_t bytes = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    longest = std::max(longest, std::ssize(names.name(i)));
    bytes += std::ssize(names.name(i));
  }
  int64_t largest = 0;
  for (size_t i = 0; i < impl_->patterns.size(); ++i) {
    largest = std::max(largest, impl_->program_size(i, i + 1));
  }
  if (largest > kMostStepsPerName / longest) return std::nullopt;
  SearchInParts parts{*impl_, names, longest, bytes, jobs};
  if (parts.is_hopeless()) return std::nullopt;
  const bool in_parts =
      impl_->set == nullptr || names.size() < kSamples ||
      impl_->steps > kManySteps / longest ||
      grows_with_names(names, impl_->patterns.size(), at_once, parts.cost);
  const std::optional<FoundLists> found =
      in_parts ? parts.run() : std::optional(find_all(names, jobs, at_once));
  if (!found) return std::nullopt;
  FoundSets result;
  // Sets are numbered in the order of their first names, so the empty set has
  // no fixed number.
  std::vector<uint32_t> number_of(found->lists.size(), UINT32_MAX);
  int64_t rules = 0;
  for (const uint32_t list : found->of) {
    if (number_of[list] != UINT32_MAX) continue;
    number_of[list] = static_cast<uint32_t>(result.sets.size());
    result.sets.push_back(found->lists.list(list));
    impl_->to_rules(result.sets.back());
    rules += std::ssize(result.sets.back());
    if (rules > kMostFound) return std::nullopt;
  }
  result.of.reserve(manifest.size());
  for (size_t i = 0; i < manifest.size(); ++i) {
    result.of.push_back(number_of[found->of[groups ? groups->of[i] : i]]);
  }
  return result;
}

}  // namespace shardplan
