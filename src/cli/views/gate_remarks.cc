// SPDX-License-Identifier: Apache-2.0
#include "cli/views/gate_remarks.h"

#include <map>
#include <string>

#include "base/text.h"

namespace shardplan::cli {
namespace {

// Sentences in one note at most.
constexpr size_t kMaxSentences = 10;

// Returns the code under which a change is reported that is not a finding of a
// target.
Code code_of(const GateChange& change) {
  if (change.kind == GateKind::Memory) {
    return change.what == "replicated parameters" ? Code::ReplicationGrowth
                                                  : Code::MemoryGrowth;
  }
  if (change.kind == GateKind::Time) return Code::TimeGrowth;
  return change.lost.empty() ? Code::GatedChange : Code::LostAxes;
}

// Returns the line where a change is shown; empty if it is a line of a base
// revision that the reader cannot open.
Span place_of_change(const GateChange& change, bool base_is_there) {
  return change.line.before && !base_is_there ? Span{} : change.line.where;
}

// One note: all changes caused by one line, or all changes without a line.
struct Remark {
  Code code = Code::GatedChange;
  Span where;
  std::string at;  // "rules.yaml:3", if the line cannot be shown
  std::vector<std::string> sentences;
  std::map<std::string, std::vector<std::string>> targets;  // by sentence
};

std::string with_targets(const Remark& remark, const std::string& sentence) {
  const std::vector<std::string>& targets = remark.targets.at(sentence);
  return targets.empty() ? sentence
                         : sentence + " (" + some_names(targets) + ")";
}

Diagnostic note_of(const Remark& remark) {
  Diagnostic note;
  note.code = remark.code;
  note.severity = Severity::Note;
  note.message = with_targets(remark, remark.sentences.front());
  if (remark.where) note.labels.push_back({remark.where, ""});
  for (size_t i = 1; i < remark.sentences.size(); ++i) {
    if (i == kMaxSentences) {
      note.facts.push_back(plural(
          static_cast<int64_t>(remark.sentences.size() - i), "more change"));
      break;
    }
    note.facts.push_back(with_targets(remark, remark.sentences[i]));
  }
  if (!remark.at.empty()) note.facts.push_back("at " + remark.at);
  return note;
}

}  // namespace

Diagnostics gate_remarks(const GateView& view) {
  std::vector<Remark> remarks;
  std::map<std::string, size_t> numbers;  // index of a remark by its line
  const auto add = [&](const GateChange& change) {
    if (change.fails || change.kind == GateKind::Finding) return;
    const std::string line =
        change.line.file.empty()
            ? ""
            : change.line.file + ":" + std::to_string(change.line.line) +
                  (change.line.before ? " before the change" : "");
    const auto [entry, is_new] = numbers.emplace(line, remarks.size());
    if (is_new) {
      Remark& made = remarks.emplace_back();
      made.where = place_of_change(change, view.base_is_there);
      if (!made.where) made.at = line;
    }
    Remark& remark = remarks[entry->second];
    if (!change.lost.empty()) remark.code = Code::LostAxes;
    const std::string sentence = change_text(change);
    const auto [of, is_first] = remark.targets.try_emplace(sentence);
    if (is_first) remark.sentences.push_back(sentence);
    if (!change.target.empty()) of->second.push_back(change.target);
  };
  for (const GateChange& change : *view.changes) add(change);
  for (const GateTarget& target : view.targets) {
    for (const GateChange& change : *target.changes) add(change);
  }
  Diagnostics notes;
  for (const Remark& remark : remarks) notes.add(note_of(remark));
  return notes;
}

std::optional<Diagnostic> new_finding(const std::vector<GateChange>& changes,
                                      const Diagnostic& diagnostic) {
  const GateChange* change = change_of(changes, diagnostic);
  if (change == nullptr || change->severity == Severity::Off) {
    return std::nullopt;
  }
  Diagnostic shown = diagnostic;
  if (!change->fails && shown.severity == Severity::Error) {
    shown.severity = Severity::Warning;
  }
  return shown;
}

void report_failure(const GateChange& change, bool base_is_there,
                    Diagnostics& diags) {
  if (!change.fails || change.reported || change.kind == GateKind::Finding) {
    return;
  }
  const Span where = place_of_change(change, base_is_there);
  auto problem = diags.error(code_of(change), where, change_text(change));
  if (!change.text.empty()) problem.fact(change.text);
  if (!where && change.line.where) {
    problem.fact("at " + change.line.file + ":" +
                 std::to_string(change.line.line) + " before the change");
  }
}

void report_unjudged_time(const std::string& why, Diagnostics& diags) {
  diags
      .report(
          Code::TimeGrowth, Severity::Warning, {},
          "no time estimate to compare, so `time` in `--fail-on` is not judged")
      .fact(why)
      .help(
          "set `hardware`, `batch` and `seq`, for example `--hardware h100-sxm "
          "--batch 64 --seq 4096`");
}

}  // namespace shardplan::cli
