// SPDX-License-Identifier: Apache-2.0
// Says what a training step needs, and what would make it fit.
#include "findings/step_findings.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/text.h"
#include "base/words.h"

namespace shardplan {
namespace {

constexpr size_t kMostNamed = 4;

// Returns "activations 30.1 GiB, optimizer state 12.0 GiB", by the estimate.
std::string parts_text(const MemoryBracket& bracket) {
  std::vector<const BracketRow*> rows;
  for (const BracketRow& row : bracket.rows) {
    if (row.bytes[1] > 0) rows.push_back(&row);
  }
  std::ranges::stable_sort(rows, [](const BracketRow* a, const BracketRow* b) {
    return a->bytes[1] > b->bytes[1];
  });
  rows.resize(std::min(rows.size(), kMostNamed));
  return joined_of(rows, ", ", [](const BracketRow* row) {
    return row->title + " " + bytes_text(row->bytes[1]);
  });
}

std::string alive_text(const std::vector<AliveRow>& alive) {
  const auto shown = std::span(alive).first(std::min(alive.size(), kMostNamed));
  return joined_of(shown, ", ", [](const AliveRow& row) {
    return in_backticks(row.value) + " " + bytes_text(row.bytes);
  });
}

// Returns what to change; "" if nothing is known to divide evenly.
std::string division_help(const DivisionProblem& refusal) {
  const std::string nearest = std::to_string(refusal.nearest);
  switch (refusal.what) {
    case Divided::Batch:
    case Divided::Tokens:
      if (refusal.nearest <= 0) return "";
      return (refusal.what == Divided::Batch ? "use `--batch "
                                             : "use `--seq ") +
             nearest +
             "`, the next that divides evenly, or shard it over fewer devices";
    case Divided::Heads:
    case Divided::KvHeads:
      return "use fewer devices along `--ulysses-axes` or the axes that shard "
             "heads";
    case Divided::StateHeads:
    case Divided::StateGroups:
      return "use a mesh whose tensor-parallel axis divides them";
    case Divided::Microbatches:
      return "use `--microbatches " + nearest +
             "`, the next that divides evenly, or `--schedule 1f1b`";
    case Divided::Group:
      return "use `--schedule interleaved:N`, which groups one micro-batch per "
             "stage";
    case Divided::StageLayers:
      break;
  }
  return "use `--schedule interleaved:N` with an N that divides the layers of "
         "each stage, or set the layers of each with `--stages AXIS:L,L,..`";
}

}  // namespace

std::vector<std::string> suggested_changes(const StepFinding& finding) {
  std::vector<std::string> texts;
  std::vector<const TriedChange*> others;
  const auto add = [&](const TriedChange& one, const char* verdict) {
    texts.push_back("`" + one.flags + "` would need " + bytes_text(one.lower) +
                    " to " + bytes_text(one.upper) + ": " + verdict);
  };
  for (const TriedChange& one : finding.tried) {
    if (one.fit.will_fit()) {
      add(one, "it fits");
    } else if (one.upper < finding.bracket.upper()) {
      others.push_back(&one);
    }
  }
  std::ranges::stable_sort(others, {}, &TriedChange::upper);
  if (others.size() > 2) others.resize(2);
  for (const TriedChange* one : others) {
    add(*one, one->fit.may_fit() ? "it may fit" : "not enough");
  }
  return texts;
}

Diagnostic* find_over_memory(Diagnostics& diags) {
  for (auto each = diags.all().rbegin(); each != diags.all().rend(); ++each) {
    if (each->code == Code::OverMemory) return &*each;
  }
  return nullptr;
}

void report_divisions(const std::vector<DivisionProblem>& problems,
                      Diagnostics& diags) {
  for (const DivisionProblem& refusal : problems) {
    auto report = diags.report(Code::WorkloadDoesNotDivide, {}, refusal.text);
    report.fact("rejected by " + refusal.source);
    std::string help = division_help(refusal);
    if (!help.empty()) report.help(std::move(help));
  }
}

void report_step(const StepFinding& finding, Diagnostics& diags) {
  const MemoryBracket& bracket = finding.bracket;
  const int64_t usable = finding.limit.usable;
  if (bracket.upper() <= usable) return;
  const bool over = bracket.lower() > usable;
  auto report = diags.report(
      over ? Code::OverMemory : Code::MayNotFit, {},
      over ? "a training step needs at least " + bytes_text(bracket.lower()) +
                 " per device, " + bytes_text(bracket.lower() - usable) +
                 " over capacity"
           : "a training step needs " + bytes_text(bracket.lower()) + " to " +
                 bytes_text(bracket.upper()) +
                 " per device, but a device has " + bytes_text(usable));
  report.bytes(static_cast<double>(bracket.estimate()));
  report.fact("estimate " + bytes_text(bracket.estimate()) + ": " +
              parts_text(bracket));
  if (!bracket.alive.empty()) {
    report.fact("peak: " + bracket.moment + ", mostly " +
                alive_text(bracket.alive));
  }
  report.fact(finding.limit.name + ": " + bytes_text(usable) + " usable");
  if (const std::string each = stage_limits_text(finding.limit);
      !each.empty()) {
    report.fact(each);
  }
  if (!bracket.device.empty()) {
    report.fact("the fullest devices are in " + bracket.device);
  }
  const auto fits = [](const TriedChange& one) { return one.fit.will_fit(); };
  if (std::ranges::none_of(finding.tried, fits)) {
    report.fact("no change tried guarantees a fit");
  }
  for (std::string& text : suggested_changes(finding)) {
    report.help(std::move(text));
  }
}

}  // namespace shardplan
