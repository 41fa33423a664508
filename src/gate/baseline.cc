// SPDX-License-Identifier: Apache-2.0
// Reads and writes baselines, and finds the entries that accept a finding.
#include "gate/baseline.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "core/fold.h"
#include "syntax/document.h"
#include "syntax/yaml.h"

namespace shardplan {
namespace {

std::optional<AcceptedFinding> read_entry(const Node& node,
                                          Diagnostics& diags) {
  static const std::vector<std::string> kKeys = {"code", "target", "about",
                                                 "reason"};
  if (!require(node, NodeKind::Map, "an accepted finding", diags) ||
      !reject_unknown_keys(node, kKeys, diags)) {
    return std::nullopt;
  }
  AcceptedFinding entry;
  entry.where = node.span();
  for (const auto& [key, member] :
       {std::pair("target", &AcceptedFinding::target),
        std::pair("about", &AcceptedFinding::about),
        std::pair("reason", &AcceptedFinding::reason)}) {
    const auto value = node.find(key);
    if (!value) continue;
    const auto text =
        require(*value, NodeKind::String, "`" + std::string(key) + "`", diags);
    if (!text) return std::nullopt;
    entry.*member = std::string(text->text());
  }
  const auto written = node.find("code");
  const auto code = written ? find_code(written->text()) : std::nullopt;
  if (!code) {
    return diags
        .error(Code::MalformedDocument, written ? written->span() : node.span(),
               written
                   ? "there is no code `" + std::string(written->text()) + "`"
                   : "an accepted finding has no `code`")
        .help("`shardplan list codes` shows all");
  }
  entry.code = *code;
  if (prevents_running(*code)) {
    return diags
        .error(Code::MalformedDocument, written->span(),
               "`" + code_id(*code) + "` cannot be accepted")
        .fact("it prevents any result");
  }
  if (entry.reason.find_first_not_of(" \t\n") == std::string::npos) {
    return diags
        .error(Code::MalformedDocument, node.span(),
               "an accepted finding has no `reason`")
        .help("state why it is accepted, for future readers");
  }
  return entry;
}

// Returns what a finding is about, as baselines name it: its folded parameters,
// else the text it points at, else its message. The message includes numbers,
// so that accepting a finding does not accept one of ten times the size.
std::set<std::string> subjects_of(const Diagnostic& finding) {
  std::set<std::string> subjects;
  for (const std::string& name : finding.parameters) {
    subjects.insert(folded_name(name));
  }
  if (!subjects.empty()) return subjects;
  const Label* label = main_label(finding);
  return {label != nullptr ? std::string(label->where.text())
                           : finding.message};
}

}  // namespace

std::optional<Baseline> read_baseline(SourcePtr source, Diagnostics& diags) {
  diags.add_source(source);
  const auto document = parse_document(source, diags);
  if (!document) return std::nullopt;
  Baseline baseline;
  baseline.source = std::move(source);
  const Node root = document->root();
  if (root.is_null()) return baseline;
  static const std::vector<std::string> kKeys = {"accepted"};
  if (!require(root, NodeKind::Map, "a baseline", diags) ||
      !reject_unknown_keys(root, kKeys, diags)) {
    return std::nullopt;
  }
  const auto list = root.find("accepted");
  if (!list || list->is_null()) return baseline;
  if (!require(*list, NodeKind::List, "`accepted`", diags)) return std::nullopt;
  bool fine = true;
  for (size_t i = 0; i < list->size(); ++i) {
    auto entry = read_entry(list->item(i), diags);
    fine = fine && entry;
    if (entry) baseline.accepted.push_back(*std::move(entry));
  }
  if (!fine) return std::nullopt;
  return baseline;
}

std::vector<size_t> accepting_entries(const Baseline& baseline,
                                      std::string_view target,
                                      const Diagnostic& finding) {
  std::vector<size_t> entries;
  for (const std::string& subject : subjects_of(finding)) {
    const auto entry = std::ranges::find_if(
        baseline.accepted, [&](const AcceptedFinding& accepted) {
          return accepted.code == finding.code &&
                 (accepted.target.empty() ||
                  matches_glob(accepted.target, target)) &&
                 (accepted.about.empty() || accepted.about == subject);
        });
    if (entry == baseline.accepted.end()) return {};
    entries.push_back(to_size(entry - baseline.accepted.begin()));
  }
  return entries;
}

void accept(const Baseline& baseline, std::string_view target,
            Diagnostics& diags, std::vector<bool>& used) {
  used.resize(baseline.accepted.size());
  diags.allow_those([&](const Diagnostic& finding) {
    const auto entries = accepting_entries(baseline, target, finding);
    for (const size_t entry : entries) used[entry] = true;
    return !entries.empty();
  });
}

void report_stale(const Baseline& baseline, const std::vector<bool>& used,
                  Diagnostics& diags) {
  for (size_t i = 0; i < baseline.accepted.size(); ++i) {
    if (i < used.size() && used[i]) continue;
    const AcceptedFinding& entry = baseline.accepted[i];
    diags
        .report(Code::StaleBaseline, entry.where,
                "`" + code_id(entry.code) + "` is accepted but no longer found")
        .help("remove the entry, so that the finding cannot return unnoticed");
  }
}

std::string baseline_text(const std::vector<TargetFindings>& findings,
                          std::string_view reason) {
  std::string entries;
  std::set<std::array<std::string, 3>> written;
  for (const TargetFindings& of : findings) {
    for (const Diagnostic& finding : of.diags->all()) {
      if (finding.severity < Severity::Warning ||
          prevents_running(finding.code)) {
        continue;
      }
      for (const std::string& subject : subjects_of(finding)) {
        if (!written.insert({code_id(finding.code), of.target, subject})
                 .second) {
          continue;
        }
        entries += "\n  - code: " + code_id(finding.code);
        // `*` in a target would mean any text, but target names contain none.
        if (!of.target.empty()) {
          entries += "\n    target: " + yaml_string(of.target);
        }
        entries += "\n    about: " + yaml_string(subject) +
                   "\n    reason: " + yaml_string(std::string(reason));
      }
    }
  }
  return "# Findings that are accepted, each with a reason. `target` and "
         "`about` may be left out.\naccepted:" +
         (entries.empty() ? " []" : entries) + "\n";
}

}  // namespace shardplan
