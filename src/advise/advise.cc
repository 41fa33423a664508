// SPDX-License-Identifier: Apache-2.0
// Tries the possible fixes of each finding, alone or many at a time.
#include "advise/advise.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "advise/possible_fixes.h"
#include "advise/rule_edit.h"
#include "base/checked.h"
#include "base/text.h"

namespace shardplan {
namespace {

constexpr size_t kMaxFixes = 8;     // of one finding
constexpr int64_t kMaxTrials = 24;  // for one finding

// The work that may be spent on finding fixes, in parameters, rules and
// findings visited (WhatIf::work): about half a second, however large the model
// and however many its findings. At least two trials are always allowed.
class Allowance {
 public:
  explicit Allowance(int64_t findings) : findings_(findings) {}

  // Returns the work at which the next finding has to stop: an equal share of
  // the rest, counted from `work`.
  int64_t next_limit(int64_t work) {
    return work + std::max<int64_t>(0, kVisits - work) / findings_--;
  }
  bool is_spent(int64_t work) const {
    return trials_ >= kLeast && work >= kVisits;
  }
  // Returns whether a finding has to stop after `tried` trials.
  bool must_stop(int64_t tried, int64_t work, int64_t limit) const {
    return is_spent(work) || tried >= kMaxTrials ||
           (tried >= kLeast && work >= limit);
  }
  void spend() { ++trials_; }

 private:
  static constexpr int64_t kVisits = 1000000;
  static constexpr int64_t kLeast = 2;
  int64_t findings_;
  int64_t trials_ = 0;
};

std::string cost_text(int64_t bytes) {
  if (bytes == 0) return "the same bytes per device";
  return bytes_text(bytes < 0 ? -bytes : bytes) +
         (bytes < 0 ? " less per device" : " more per device");
}

struct Tried {
  int tier = 0;
  Fix fix;
};

struct Advising {
  WhatIf& trial;
  RulePlaces places;
  Allowance allowance;
  int64_t work = 0;  // spent on finding candidates
  // Findings whose rules decide nothing and can be removed, as a joint trial
  // showed.
  std::set<const Diagnostic*> removable;

  int64_t total() const { return work + trial.work(); }
};

bool is_removal(const Placing& change) {
  return !change.rules.empty() &&
         change.rules.front().kind == RuleChange::Kind::Remove;
}

// The search for fixes of one finding.
struct Search {
  Diagnostic* finding = nullptr;
  std::vector<uint32_t> parameters;
  PossibleFixes possible;
  size_t next = 0;  // index of the next one to try
  std::vector<Tried> good;
};

void keep(const Planned& planned, const Advising& how, PossibleFix& possible,
          const Effect& effect, std::vector<Tried>& good) {
  Fix fix = std::move(possible.fix);
  fix.bytes_per_device = effect.bytes_per_device;
  fix.finding_bytes_per_device = effect.finding_bytes_per_device;
  if (!possible.change.rules.empty()) {
    fix.edits =
        edits_of(planned.rules, how.places, possible.change.rules.front());
  }
  const bool known = std::ranges::any_of(
      good, [&](const Tried& other) { return other.fix.text == fix.text; });
  if (!known) good.push_back({possible.tier, std::move(fix)});
}

// Tries each candidate alone, within the allowance. Returns false if the
// allowance ended before the candidates did.
bool try_alone(const Planned& planned, Search& search, Advising& how) {
  const int64_t limit = how.allowance.next_limit(how.total());
  const bool settled = how.removable.contains(search.finding);
  if (!settled && how.allowance.is_spent(how.total())) return false;
  search.possible = possible_fixes_for(
      {planned, *search.finding, search.parameters, how.work});
  int64_t tried = 0;
  for (; search.next < search.possible.size(); ++search.next) {
    PossibleFix& possible = search.possible[search.next];
    std::optional<Effect> effect;
    if (settled && is_removal(possible.change)) {
      effect = Effect{};
    } else {
      if (how.allowance.must_stop(tried++, how.total(), limit)) {
        if (settled) continue;
        return false;
      }
      how.allowance.spend();
      effect =
          how.trial.effect(possible.change, *search.finding, search.parameters);
    }
    if (effect) keep(planned, how, possible, *effect, search.good);
  }
  return true;
}

// Returns whether a fix is shown after those in `shown`: the first of each
// kind, every padding and, for a split unit, one per tier.
bool is_news(const Tried& tried, Code code,
             std::set<std::pair<FixKind, int64_t>>& shown) {
  int64_t apart = 0;
  if (code == Code::SplitUnit) apart = tried.tier;
  if (tried.fix.kind == FixKind::PadDimension && code != Code::ShardingLost) {
    apart = tried.fix.size;
  }
  return shown.insert({tried.fix.kind, apart}).second;
}

// Adds the cost to the help line that names the fix, if it is a declaration
// that the help names. Returns whether it did.
bool is_priced(const Fix& fix, std::vector<std::string>& help) {
  if (fix.kind != FixKind::Declare) return false;
  const auto line = std::ranges::find_if(help, [&](const std::string& text) {
    return text.starts_with(fix.text);
  });
  if (line == help.end()) return false;
  *line += ": " + cost_text(fix.bytes_per_device);
  return true;
}

// Puts the fixes in place of the first help line. The general help of SP304
// remains, since it applies as well.
void put_into_help(const std::vector<Tried>& fixes, Diagnostic& diagnostic) {
  if (fixes.empty()) return;
  std::vector<std::string> lines;
  std::vector<std::string>& help = diagnostic.help;
  std::set<std::pair<FixKind, int64_t>> shown;
  for (const Tried& tried : fixes) {
    if (is_priced(tried.fix, help) || !is_news(tried, diagnostic.code, shown)) {
      continue;
    }
    lines.push_back(tried.fix.text + ": " +
                    cost_text(tried.fix.bytes_per_device));
  }
  if (lines.empty()) return;
  if (!help.empty() && diagnostic.code != Code::ShardingLost) {
    help.erase(help.begin());
  }
  help.insert(help.begin(), lines.begin(), lines.end());
}

void finish(Search search) {
  std::ranges::stable_sort(search.good, {}, [](const Tried& tried) {
    return std::pair(tried.tier, tried.fix.bytes_per_device);
  });
  if (search.good.size() > kMaxFixes) search.good.resize(kMaxFixes);
  put_into_help(search.good, *search.finding);
  for (Tried& tried : search.good) {
    search.finding->fixes.push_back(std::move(tried.fix));
  }
}

// Trials of many findings at once.
struct Joint {
  const Planned& planned;
  Advising& how;
  int64_t trials = 4 * kMaxTrials;  // trials left
};

// Tries the next candidate of each search in one trial. If that is
// inconclusive, tries each half.
void try_batch(std::span<Search* const> batch, Joint& joint) {
  if (batch.empty() || joint.trials == 0) return;
  --joint.trials;
  const auto next_of = [](Search& search) -> PossibleFix& {
    return search.possible[search.next];
  };
  if (batch.size() == 1) {
    Search& only = *batch.front();
    const auto effect = joint.how.trial.effect(next_of(only).change,
                                               *only.finding, only.parameters);
    if (!effect) return;
    keep(joint.planned, joint.how, next_of(only), *effect, only.good);
    return;
  }
  std::vector<RequestedChange> requested;
  for (Search* search : batch) {
    requested.push_back({&next_of(*search).change.rules.front(),
                         search->finding, search->parameters});
  }
  const auto effects = joint.how.trial.effects_together(requested);
  if (!effects) {
    try_batch(batch.first(batch.size() / 2), joint);
    try_batch(batch.subspan(batch.size() / 2), joint);
    return;
  }
  for (size_t i = 0; i < batch.size(); ++i) {
    if (!(*effects)[i]) continue;
    keep(joint.planned, joint.how, next_of(*batch[i]), *(*effects)[i],
         batch[i]->good);
  }
}

// Tries the remaining candidates: the first of each finding together, then the
// second, and so on. Of several candidates that change the same rule, a round
// tries only the first; the next pass over the findings starts from the changed
// rules.
void try_together(std::span<Search> searches, Joint& joint) {
  for (Search& search : searches) {
    if (search.possible.empty()) {
      search.possible = possible_fixes_for(
          {joint.planned, *search.finding, search.parameters, joint.how.work});
    }
    const auto begin = search.possible.begin();
    search.possible.erase(begin,
                          begin + static_cast<std::ptrdiff_t>(search.next));
    search.next = 0;
    std::erase_if(search.possible, [](const PossibleFix& c) {
      return c.change.rules.empty() || is_removal(c.change);
    });
  }
  for (int64_t round = 0; round < kMaxTrials; ++round) {
    std::vector<Search*> batch;
    std::set<int> taken;
    for (Search& search : searches) {
      if (search.next >= search.possible.size()) continue;
      const RuleChange& change =
          search.possible[search.next].change.rules.front();
      if (change.kind == RuleChange::Kind::Insert ||
          taken.insert(change.rule).second) {
        batch.push_back(&search);
      }
    }
    try_batch(batch, joint);
    for (Search& search : searches) ++search.next;
  }
}

// There are often many rules that match nothing, and all have the same remedy.
// They are tried together, and halved if that is inconclusive.
void settle_removals(std::span<const Diagnostic* const> findings,
                     Advising& how) {
  if (findings.size() < 2 || how.allowance.is_spent(how.total())) return;
  how.allowance.spend();
  if (how.trial.can_all_go(findings)) {
    how.removable.insert(findings.begin(), findings.end());
    return;
  }
  const size_t half = findings.size() / 2;
  settle_removals(findings.first(half), how);
  settle_removals(findings.subspan(half), how);
}

// Returns the findings whose only remedy is to remove the rule. Excludes rules
// with equal patterns: the finding about the other one would remain.
std::vector<const Diagnostic*> removals(
    const Planned& planned, std::span<const Diagnostic* const> findings) {
  std::map<std::string_view, int> patterns;
  const auto pattern_of = [&](const Diagnostic& finding) -> std::string_view {
    return nth(planned.plan.rules, finding.subject.rule - 1).pattern;
  };
  std::vector<const Diagnostic*> result;
  for (const Diagnostic* finding : findings) {
    if (finding->code != Code::UnusedRule || finding->subject.rule < 1) {
      continue;
    }
    ++patterns[pattern_of(*finding)];
    const Rule& rule = nth(planned.rules.rules, finding->subject.rule - 1);
    if (is_editable(rule)) result.push_back(finding);
  }
  std::erase_if(result, [&](const Diagnostic* finding) {
    return patterns[pattern_of(*finding)] > 1;
  });
  return result;
}

}  // namespace

int64_t advise(const Planned& planned, const AdvisedFindings& which,
               Diagnostics& diags) {
  std::vector<Diagnostic*> findings;
  for (size_t i = which.first; i < which.end; ++i) {
    findings.push_back(&diags.all()[i]);
  }
  // The effect of an absent axis in other frameworks is only reported; no
  // change of rules removes it.
  if (std::ranges::all_of(findings, [](const Diagnostic* d) {
        return d->code == Code::AbsentAxis;
      })) {
    return 0;
  }
  const std::vector<const Diagnostic*> all(findings.begin(), findings.end());
  WhatIf trial(planned, all, diags);
  Advising how{
      trial, RulePlaces(planned.rules), Allowance(std::ssize(findings)), 0, {}};
  settle_removals(removals(planned, all), how);
  std::vector<Search> unfinished;
  for (const Severity severity :
       {Severity::Error, Severity::Warning, Severity::Note}) {
    for (Diagnostic* finding : findings) {
      if (finding->severity != severity) continue;
      if (which.is_asked && !which.is_asked(*finding)) continue;
      Search search{finding, trial.parameters_of(*finding), {}, 0, {}};
      if (try_alone(planned, search, how) || !which.together) {
        finish(std::move(search));
      } else {
        unfinished.push_back(std::move(search));
      }
    }
  }
  if (how.allowance.is_spent(how.total())) {
    Joint joint{planned, how};
    try_together(unfinished, joint);
  }
  for (Search& search : unfinished) finish(std::move(search));
  return how.total();
}

}  // namespace shardplan
