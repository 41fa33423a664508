// SPDX-License-Identifier: Apache-2.0
#include "advise/advise.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "advise/candidates.h"
#include "advise/rule_edit.h"
#include "base/text.h"

namespace shardplan {
namespace {

constexpr size_t kMaxFixes = 8;     // of one finding
constexpr int64_t kMaxTrials = 24;  // for one finding

// How many trials there may be. Each visits every parameter and takes about a
// quarter of the time of `check` itself, so a model of 10,000 parameters gets
// 200 of them and one of a million 4.
class Budget {
 public:
  Budget(size_t parameters, size_t findings)
      : trials_(kPasses + kVisits / (static_cast<int64_t>(parameters) + 100)),
        findings_(static_cast<int64_t>(findings)) {}

  // Of the next finding: an equal share of what is left, but enough to find
  // something while there is anything.
  int64_t next_share() {
    const int64_t share = std::max(kLeast, trials_ / findings_--);
    return std::min({share, trials_, kMaxTrials});
  }
  void spend() { --trials_; }

 private:
  static constexpr int64_t kVisits = 2000000;
  static constexpr int64_t kPasses = 2;
  static constexpr int64_t kLeast = 2;
  int64_t trials_;
  int64_t findings_;
};

std::string cost_text(int64_t bytes) {
  if (bytes == 0) return "the same bytes per device";
  return bytes_text(static_cast<double>(bytes < 0 ? -bytes : bytes)) +
         (bytes < 0 ? " less per device" : " more per device");
}

struct Tried {
  int tier = 0;
  Fix fix;
};

std::vector<Tried> fixes_of(const Found& found, Trial& trial, Budget& budget) {
  std::vector<Tried> good;
  int64_t share = budget.next_share();
  if (share == 0) return good;
  for (Candidate& candidate : candidates_for(found)) {
    if (share-- == 0) break;
    budget.spend();
    const auto effect =
        trial.effect(candidate.change, found.diagnostic, found.parameters);
    if (!effect) continue;
    Fix fix = std::move(candidate.fix);
    fix.bytes_per_device = effect->bytes_per_device;
    fix.finding_bytes_per_device = effect->finding_bytes_per_device;
    if (candidate.change.rules) {
      fix.edits = edits_of(found.planned.rules, *candidate.change.rules);
    }
    const bool known = std::any_of(
        good.begin(), good.end(),
        [&](const Tried& other) { return other.fix.text == fix.text; });
    if (!known) good.push_back({candidate.tier, std::move(fix)});
  }
  std::stable_sort(good.begin(), good.end(),
                   [](const Tried& a, const Tried& b) {
                     return std::pair(a.tier, a.fix.bytes_per_device) <
                            std::pair(b.tier, b.fix.bytes_per_device);
                   });
  if (good.size() > kMaxFixes) good.resize(kMaxFixes);
  return good;
}

// Whether a fix is shown when these were: the first of each kind, every
// padding, and of a cut unit also what keeping it whole everywhere takes.
bool is_news(const Tried& tried, Code code,
             std::set<std::pair<FixKind, int64_t>>& shown) {
  int64_t apart = 0;
  if (code == Code::SplitUnit) apart = tried.tier;
  if (tried.fix.kind == FixKind::PadDimension && code != Code::ShardingLost) {
    apart = tried.fix.size;
  }
  return shown.insert({tried.fix.kind, apart}).second;
}

// A declaration that the help names gets its price there.
bool is_priced(const Fix& fix, std::vector<std::string>& help) {
  if (fix.kind != FixKind::Declare) return false;
  const auto line = std::find_if(
      help.begin(), help.end(),
      [&](const std::string& text) { return text.starts_with(fix.text); });
  if (line == help.end()) return false;
  *line += ": " + cost_text(fix.bytes_per_device);
  return true;
}

// Those stand in place of the first help. What SP304 says in general holds all
// the same.
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

}  // namespace

void advise(const Planned& planned, size_t first, Diagnostics& diags) {
  std::vector<Diagnostic*> findings;
  for (size_t i = first; i < diags.all().size(); ++i) {
    findings.push_back(&diags.all()[i]);
  }
  if (findings.empty()) return;
  Trial trial(planned,
              std::vector<const Diagnostic*>(findings.begin(), findings.end()),
              diags);
  Budget budget(planned.manifest.size(), findings.size());
  for (const Severity severity :
       {Severity::Error, Severity::Warning, Severity::Note}) {
    for (Diagnostic* finding : findings) {
      if (finding->severity != severity) continue;
      const std::vector<uint32_t> parameters = trial.parameters_of(*finding);
      std::vector<Tried> fixes =
          fixes_of({planned, *finding, parameters}, trial, budget);
      put_into_help(fixes, *finding);
      for (Tried& tried : fixes) {
        finding->fixes.push_back(std::move(tried.fix));
      }
    }
  }
}

}  // namespace shardplan
