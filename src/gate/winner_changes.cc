// SPDX-License-Identifier: Apache-2.0
// Pairs the rules of both sides, finds which rules decide which names, and
// describes what changed.
#include "gate/winner_changes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/checked.h"
#include "base/words.h"
#include "gate/pattern_samples.h"
#include "resolve/match.h"

namespace shardplan {
namespace {

using From = RuleSetChange::From;

// Limits on names per pattern, alone and in a pair.
constexpr size_t kSamplesAlone = 8;
constexpr size_t kSamplesOfPair = 3;
// The limit on names for pairs of rules in total; each is searched twice.
constexpr int64_t kMostPairNames = 60'000;
// A pattern that never matches: it requires text after the end.
constexpr const char* kNeverFound = "$a";
// Limits on the pairs of rules to compare, and on the crossings to return.
constexpr int64_t kMostRulePairs = 20'000'000;
constexpr size_t kMostCrossings = 200'000;
// The limit on names times rules to search, except names of given models.
// Thousands of rules for one parameter each would reach it.
constexpr int64_t kMostSearches = 200'000'000;

constexpr int kNoRule = -1;

// Maps the rules of one side to the other: by pattern, and rules of one pattern
// by their order.
struct Pairing {
  std::vector<int> after_of;   // per rule before; kNoRule: removed
  std::vector<int> before_of;  // per rule after; kNoRule: added
  std::vector<int> occurrence_before;
  std::vector<int> occurrence_after;
  std::vector<int> common;  // rules of both sides, by the new number
};

Pairing paired(const std::vector<Rule>& before,
               const std::vector<Rule>& after) {
  Pairing pairing;
  pairing.after_of.assign(before.size(), kNoRule);
  pairing.before_of.assign(after.size(), kNoRule);
  std::map<std::string_view, std::vector<int>> old_rules;
  for (size_t i = 0; i < before.size(); ++i) {
    auto& numbers = old_rules[before[i].pattern];
    pairing.occurrence_before.push_back(static_cast<int>(numbers.size()));
    numbers.push_back(static_cast<int>(i));
  }
  std::map<std::string_view, int> seen;
  for (size_t i = 0; i < after.size(); ++i) {
    const int occurrence = seen[after[i].pattern]++;
    pairing.occurrence_after.push_back(occurrence);
    const auto& numbers = old_rules[after[i].pattern];
    if (occurrence >= std::ssize(numbers)) continue;
    pairing.before_of[i] = nth(numbers, occurrence);
    nth(pairing.after_of, pairing.before_of[i]) = static_cast<int>(i);
    pairing.common.push_back(static_cast<int>(i));
  }
  return pairing;
}

const Rule* rule_at(const std::vector<Rule>& rules, int number) {
  return number == kNoRule ? nullptr : &nth(rules, number);
}

// A name that different rules decide on each side.
struct Witness {
  std::string name;
  std::string of;
  From from = From::Nowhere;
};

// Equal numbers for rules of either side that place whatever they decide in the
// same way. A dimension that a spec omits at the end is replicated.
struct AlikeNumbers {
  std::vector<int> before;
  std::vector<int> after;
};

AlikeNumbers alike_numbers(const RuleLists& lists) {
  using Key = std::tuple<bool, std::optional<int>, std::string, AxisName,
                         PartitionSpec>;
  std::map<Key, int> known;
  const auto numbers_of = [&](const std::vector<Rule>& rules,
                              const SpecMeaning& meaning) {
    std::vector<int> numbers;
    for (const Rule& rule : rules) {
      PartitionSpec spec = meaning.of(rule);
      while (!rule.from_last && !spec.dims.empty() &&
             spec.dims.back().empty()) {
        spec.dims.pop_back();
      }
      const Key key = {rule.from_last, rule.decode_dim, rule.view, rule.deal,
                       std::move(spec)};
      const int next = static_cast<int>(known.size());
      numbers.push_back(known.emplace(key, next).first->second);
    }
    return numbers;
  };
  return {.before = numbers_of(lists.before, lists.means_before),
          .after = numbers_of(lists.after, lists.means_after)};
}

class Winners {
 public:
  Winners(const Pairing& pairing, const AlikeNumbers& alike,
          const Matcher& before, const Matcher& after)
      : pairing_(pairing), alike_(alike), before_(before), after_(after) {}

  // Searches one name. Returns false once the limit on searches is exceeded.
  bool ask(std::string_view name, std::string_view of, From from) {
    searches_ += static_cast<int64_t>(before_.rules() + after_.rules());
    if (searches_ > kMostSearches) return false;
    before_.find(name, old_found_);
    after_.find(name, new_found_);
    record(old_found_.empty() ? kNoRule : old_found_.front(),
           new_found_.empty() ? kNoRule : new_found_.front(), name, of, from);
    return true;
  }

  void ask_model(const Manifest& model, int jobs) {
    const auto all = [](size_t) { return true; };
    const Matches was = match(before_, model, all, jobs);
    const Matches is = match(after_, model, all, jobs);
    for (size_t i = 0; i < model.size(); ++i) {
      if (was.winner[i] != kNoRule) decided_in_models_.insert(was.winner[i]);
      record(was.winner[i], is.winner[i], model.name(i), model.title,
             From::Model);
    }
  }

  // Returns whether both rules match the last searched name on either side.
  bool has_both(int before_a, int before_b, int after_a, int after_b) const {
    const auto has = [](const std::vector<int>& found, int rule) {
      return rule != kNoRule && std::ranges::binary_search(found, rule);
    };
    return (has(old_found_, before_a) && has(old_found_, before_b)) ||
           (has(new_found_, after_a) && has(new_found_, after_b));
  }

  // Returns witnesses by the rules after and before; kNoRule: no rule decided.
  const std::map<std::pair<int, int>, Witness>& takeovers() const {
    return takeovers_;
  }
  bool decided_in_models(int before) const {
    return decided_in_models_.contains(before);
  }
  bool gave_up() const { return searches_ > kMostSearches; }

 private:
  void record(int was, int is, std::string_view name, std::string_view of,
              From from) {
    if (was == kNoRule && is == kNoRule) return;
    if (was != kNoRule && is != kNoRule &&
        (nth(pairing_.after_of, was) == is ||
         nth(alike_.before, was) == nth(alike_.after, is))) {
      return;
    }
    const auto [entry, is_new] = takeovers_.try_emplace({is, was});
    if (is_new) entry->second = {std::string(name), std::string(of), from};
  }

  const Pairing& pairing_;
  const AlikeNumbers& alike_;
  const Matcher& before_;
  const Matcher& after_;
  std::vector<int> old_found_;
  std::vector<int> new_found_;
  std::map<std::pair<int, int>, Witness> takeovers_;
  std::set<int> decided_in_models_;
  int64_t searches_ = 0;
};

// Returns, per rule after the change, whether it kept its order among the
// others. Other rules moved. A longest ascending sequence keeps its place,
// which gives the fewest moves.
std::vector<bool> kept_in_place(const Pairing& pairing) {
  const auto old_place = [&](int rule) { return nth(pairing.before_of, rule); };
  std::vector<int> tails;  // last rules of sequences, by length
  std::vector<int> previous(pairing.before_of.size(), kNoRule);
  for (const int rule : pairing.common) {
    const auto at =
        std::ranges::lower_bound(tails, old_place(rule), {}, old_place);
    if (at != tails.begin()) nth(previous, rule) = *std::prev(at);
    if (at == tails.end()) {
      tails.push_back(rule);
    } else {
      *at = rule;
    }
  }
  std::vector<bool> kept(pairing.before_of.size(), false);
  int rule = tails.empty() ? kNoRule : tails.back();
  for (; rule != kNoRule; rule = nth(previous, rule)) nth(kept, rule) = true;
  return kept;
}

// Two rules after the change, `first` before `second`, that were in the
// opposite order, or of which `first` is new.
struct Crossing {
  int first = 0;
  int second = 0;
  int mover = 0;  // the one that moved or is new
};

// Returns the crossings of rules whose specs differ. `left_out`: there are
// more.
std::vector<Crossing> crossings(const Pairing& pairing,
                                const AlikeNumbers& alike,
                                const std::vector<bool>& kept, bool& left_out) {
  const int count = static_cast<int>(pairing.before_of.size());
  const auto old_place = [&](int rule) { return nth(pairing.before_of, rule); };
  std::vector<Crossing> all;
  int64_t looked_at = 0;
  for (int mover = 0; mover < count; ++mover) {
    if (nth(kept, mover)) continue;
    const bool is_new = old_place(mover) == kNoRule;
    for (const int other : pairing.common) {
      if (other == mover) continue;
      if (++looked_at > kMostRulePairs || all.size() >= kMostCrossings) {
        left_out = true;
        return all;
      }
      const int first = std::min(mover, other);
      const int second = std::max(mover, other);
      const bool crosses =
          is_new ? first == mover : old_place(first) > old_place(second);
      // If both moved, the crossing belongs to the first.
      const bool is_reported = !is_new && !nth(kept, other) && mover == second;
      if (crosses && !is_reported &&
          nth(alike.after, mover) != nth(alike.after, other)) {
        all.push_back({first, second, mover});
      }
    }
  }
  return all;
}

bool has_details(const Rule* rule) {
  return rule != nullptr && !(rule->view.empty() && rule->deal.empty());
}

// Returns the spec and what a rule states beyond it: "P(None, etp), view
// experts, placed whole over ep".
std::string rule_details_text(const Rule& rule) {
  std::string text = spec_text(rule.spec);
  if (!rule.view.empty()) text += ", view " + rule.view;
  if (!rule.deal.empty()) text += ", placed whole over " + rule.deal;
  return text;
}

RuleSetChange change_of(const RuleLists& lists, const Rule* before,
                        const Rule* after) {
  RuleSetChange change;
  change.of_values = lists.of_values;
  // If one side has a text, the other side needs one to compare.
  const bool with_text = has_details(before) || has_details(after);
  const auto read = [&](const Rule& rule, const SpecMeaning& meaning,
                        std::optional<PartitionSpec>& meant, AxisNames& axes) {
    change.what = rule.pattern;
    meant = meaning.of(rule);
    axes = axes_of_spec(*meant);
    // The axis over which whole experts are placed counts as one of the spec.
    if (!rule.deal.empty()) add_names(axes, {rule.deal});
    return with_text ? rule_details_text(rule) : "";
  };
  std::optional<PartitionSpec> meant_before;
  std::optional<PartitionSpec> meant_after;
  AxisNames axes_before;
  AxisNames axes_after;
  if (before != nullptr) {
    change.before = before->spec;
    change.before_where = before->where;
    change.text_before =
        read(*before, lists.means_before, meant_before, axes_before);
  }
  if (after != nullptr) {
    change.after = after->spec;
    change.after_where = after->where;
    change.text_after =
        read(*after, lists.means_after, meant_after, axes_after);
  }
  describe_difference(meant_before, meant_after, change);
  change.lost = without(axes_before, axes_after);
  change.gained = without(axes_after, axes_before);
  return change;
}

bool is_same_spec(const Rule& a, const Rule& b) {
  return a.spec == b.spec && a.from_last == b.from_last &&
         a.decode_dim == b.decode_dim && a.view == b.view && a.deal == b.deal;
}

void set_witness(const Witness& witness, RuleSetChange& change) {
  change.witness = witness.name;
  change.witness_of = witness.of;
  change.from = witness.from;
}

// Sets the witness of a removed rule to a name that no rule decides now.
// Without such a name, clears `lost` if names of a model already show what they
// lost, or if an earlier rule of the same pattern decided instead.
void settle_removed(int rule, const Pairing& pairing, const Winners& winners,
                    RuleSetChange& change) {
  const auto left = winners.takeovers().find({kNoRule, rule});
  if (left != winners.takeovers().end()) {
    set_witness(left->second, change);
  } else if (nth(pairing.occurrence_before, rule) > 0 ||
             winners.decided_in_models(rule)) {
    change.lost.clear();
  }
}

// A summary of the crossings of one rule for which no witness was found.
struct Unwitnessed {
  int64_t count = 0;
  int other = kNoRule;
  bool is_before = false;
  bool is_shadowed = false;
  bool is_untried = false;
};

// Makes names that two patterns may both match, and searches them.
class PairNames {
 public:
  explicit PairNames(const RuleLists& lists) : lists_(lists) {}

  enum class Outcome : uint8_t { Witness, OnlyBoth, Nothing, Untried };

  Outcome try_crossing(const Crossing& crossing, const Pairing& pairing,
                       Winners& winners) {
    const int old_first = nth(pairing.before_of, crossing.first);
    const int old_second = nth(pairing.before_of, crossing.second);
    const auto is_settled = [&] {
      return winners.takeovers().contains({crossing.first, old_second});
    };
    if (is_settled()) return Outcome::Witness;
    bool both = false;
    for (const PatternSample& a : samples_of(crossing.first)) {
      for (const PatternSample& b : samples_of(crossing.second)) {
        for (const std::string& name : joined_samples(a, b)) {
          if (asked_++ >= kMostPairNames ||
              !winners.ask(name, "", From::Patterns)) {
            return Outcome::Untried;
          }
          if (is_settled()) return Outcome::Witness;
          both = both || winners.has_both(old_first, old_second, crossing.first,
                                          crossing.second);
        }
      }
    }
    return both ? Outcome::OnlyBoth : Outcome::Nothing;
  }

 private:
  const std::vector<PatternSample>& samples_of(int rule) {
    const auto [entry, is_new] = samples_.try_emplace(rule);
    if (is_new) {
      entry->second =
          pattern_samples(nth(lists_.after, rule).pattern, kSamplesOfPair);
    }
    return entry->second;
  }

  const RuleLists& lists_;
  std::map<int, std::vector<PatternSample>> samples_;
  int64_t asked_ = 0;
};

// Returns `model.layers.0.self_attn.q_proj.weight` in the form of Flax
// checkpoints.
std::string with_slashes(std::string_view name) {
  std::string text(name);
  std::ranges::replace(text, '.', '/');
  constexpr std::string_view kWeight = "/weight";
  if (text.ends_with(kWeight)) {
    const bool is_embedding = contains(text, "embed");
    text.resize(text.size() - kWeight.size());
    text += is_embedding ? "/embedding" : "/kernel";
  }
  return text;
}

// Searches known names, then names made from patterns that were added, removed
// or moved: no other rule can now decide a name that it did not decide before.
void ask_known_names(const RuleLists& lists, const KnownNames& names,
                     const Pairing& pairing, const std::vector<bool>& kept,
                     Winners& winners) {
  for (const Manifest* model : names.models) {
    winners.ask_model(*model, names.jobs);
  }
  for (const Manifest& family : names.families) {
    for (size_t i = 0; i < family.size(); ++i) {
      winners.ask(family.name(i), family.title, From::Family);
      winners.ask(with_slashes(family.name(i)), family.title, From::Family);
    }
  }
  const auto ask_samples = [&](const Rule& rule) {
    for (const PatternSample& sample :
         pattern_samples(rule.pattern, kSamplesAlone)) {
      if (!sample.text.empty()) winners.ask(sample.text, "", From::Patterns);
    }
  };
  for (size_t i = 0; i < lists.after.size(); ++i) {
    if (!kept[i]) ask_samples(lists.after[i]);
  }
  for (size_t i = 0; i < lists.before.size(); ++i) {
    if (pairing.after_of[i] == kNoRule) ask_samples(lists.before[i]);
  }
}

void add_takeovers(const RuleLists& lists, const Pairing& pairing,
                   const Winners& winners, RuleSetChanges& found) {
  for (const auto& [rules, witness] : winners.takeovers()) {
    const auto [is, was] = rules;
    // A new rule for names that had none is its purpose, and a removed rule has
    // been reported already.
    if (is == kNoRule ||
        (was == kNoRule && nth(pairing.before_of, is) == kNoRule)) {
      continue;
    }
    const Rule* old_rule = rule_at(lists.before, was);
    RuleSetChange& change = found.changes.emplace_back(
        change_of(lists, old_rule, rule_at(lists.after, is)));
    change.how = ChangeHow::Takeover;
    if (old_rule != nullptr) {
      change.by = old_rule->pattern;
      change.by_where = old_rule->where;
    }
    set_witness(witness, change);
  }
}

void describe_crossing(const RuleLists& lists, const Unwitnessed& open,
                       RuleSetChange& change) {
  const Rule& other = nth(lists.after, open.other);
  change.by = other.pattern;
  change.by_where = other.where;
  change.crossed = open.count;
  change.precedes = open.is_before;
  change.is_shadowed = open.is_shadowed;
  change.is_untried = open.is_untried;
}

}  // namespace

bool add_rule_changes(const RuleLists& lists, const KnownNames& names,
                      RuleSetChanges& found, Diagnostics& diags) {
  const bool plain =
      std::ranges::all_of(names.models, &Manifest::names_are_plain);
  const auto compiled = [&](const std::vector<Rule>& rules) {
    RuleSet set;
    set.rules = rules;
    // A rule for a view that the mesh lacks decides no name.
    for (Rule& rule : set.rules) {
      if (rule.inactive) rule.pattern = kNeverFound;
    }
    return Matcher::compile(set, plain, diags);
  };
  const auto before = compiled(lists.before);
  const auto after = compiled(lists.after);
  if (!before || !after) return false;

  const Pairing pairing = paired(lists.before, lists.after);
  const AlikeNumbers alike = alike_numbers(lists);
  const std::vector<bool> kept = kept_in_place(pairing);
  Winners winners(pairing, alike, *before, *after);
  const bool is_same_list =
      lists.before.size() == lists.after.size() && !contains(kept, false);
  if (!is_same_list) ask_known_names(lists, names, pairing, kept, winners);
  bool left_out = false;
  std::map<int, Unwitnessed> open_of;  // by mover
  PairNames pair_names(lists);
  for (const Crossing& crossing : crossings(pairing, alike, kept, left_out)) {
    const auto outcome = pair_names.try_crossing(crossing, pairing, winners);
    if (outcome == PairNames::Outcome::Witness) continue;
    Unwitnessed& open = open_of[crossing.mover];
    if (open.count++ == 0) {
      open.is_before = crossing.mover == crossing.first;
      open.other = open.is_before ? crossing.second : crossing.first;
    }
    open.is_shadowed |= outcome == PairNames::Outcome::OnlyBoth;
    open.is_untried |= outcome == PairNames::Outcome::Untried;
  }
  if (left_out) {
    found.notes.push_back("too many rules moved to compare every pair");
  }
  if (winners.gave_up()) {
    found.notes.push_back(
        "too many rules to try every name generated from their patterns");
  }

  for (size_t i = 0; i < lists.after.size(); ++i) {
    const Rule* old_rule = rule_at(lists.before, pairing.before_of[i]);
    const Rule& new_rule = lists.after[i];
    const auto open = open_of.find(static_cast<int>(i));
    const auto add = [&](ChangeHow how) -> RuleSetChange& {
      RuleSetChange& change =
          found.changes.emplace_back(change_of(lists, old_rule, &new_rule));
      change.how = how;
      change.occurrence = pairing.occurrence_after[i];
      if (how != ChangeHow::Changed && open != open_of.end()) {
        describe_crossing(lists, open->second, change);
      }
      return change;
    };
    if (old_rule == nullptr) {
      add(ChangeHow::Added);
      continue;
    }
    if (!is_same_spec(*old_rule, new_rule)) add(ChangeHow::Changed);
    if (open != open_of.end()) {
      RuleSetChange& change = add(ChangeHow::Moved);
      change.lost.clear();
      change.gained.clear();
      change.dims.clear();
      change.matters.clear();
    }
  }
  for (size_t i = 0; i < lists.before.size(); ++i) {
    if (pairing.after_of[i] != kNoRule) continue;
    RuleSetChange& change =
        found.changes.emplace_back(change_of(lists, &lists.before[i], nullptr));
    change.how = ChangeHow::Removed;
    change.occurrence = pairing.occurrence_before[i];
    settle_removed(static_cast<int>(i), pairing, winners, change);
  }
  add_takeovers(lists, pairing, winners, found);
  return true;
}

}  // namespace shardplan
