// SPDX-License-Identifier: Apache-2.0
// Applies the edits of fixes, in passes, and writes the files.
#include "cli/commands/fix.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "advise/rule_edit.h"
#include "advise/what_if.h"
#include "base/checked.h"
#include "base/text.h"
#include "cli/flags.h"
#include "cli/options.h"

namespace shardplan::cli {

namespace {

constexpr int kMaxPasses = 100;

// A finding with the edit that should remove it.
struct Choice {
  const Diagnostic* finding = nullptr;
  const Fix* fix = nullptr;
};

std::string key_of(const Choice& choice) {
  return code_id(choice.finding->code) + " " + choice.fix->text;
}

// The ranges of the files that selected edits change. Finds overlaps without
// comparing every pair of edits.
class ReservedRanges {
 public:
  // Returns false if an edit of the fix touches a range already reserved;
  // otherwise reserves the ranges of the fix. Fixes for findings of one code
  // may be adjacent: new rules at one place, or neighbouring rules that move.
  bool reserve(const Fix& fix, Code code) {
    for (const TextEdit& edit : fix.edits) {
      if (touches(edit.where, code)) return false;
    }
    for (const TextEdit& edit : fix.edits) {
      Reserved& range = ranges_[edit.where.file][edit.where.begin];
      range.end = std::max<size_t>(range.end, edit.where.end);
      range.code = code;
    }
    return true;
  }

 private:
  struct Reserved {
    size_t end = 0;
    Code code = Code::InternalError;
  };

  bool touches(const Span& where, Code code) const {
    const auto file = ranges_.find(where.file);
    if (file == ranges_.end()) return false;
    // Edits do not overlap, so an edit that begins earlier also ends earlier.
    auto it = file->second.upper_bound(where.end);
    while (it != file->second.begin()) {
      const auto& [begin, range] = *--it;
      if (range.end < where.begin) return false;
      if (range.code != code ||
          (begin < where.end && where.begin < range.end)) {
        return true;
      }
    }
    return false;
  }

  std::map<const SourceFile*, std::map<size_t, Reserved>> ranges_;  // by begin
};

bool is_standard_input(const Fix& fix) {
  return fix.edits.front().where.file->name() == kStandardInput;
}

bool only_inserts(const Fix& fix) {
  return std::ranges::all_of(fix.edits, [](const auto& edit) {
    return edit.where.begin == edit.where.end;
  });
}

// Selects, for each finding, the first fix that is an edit, was not refused and
// does not touch the edits selected so far. New rules before a rule that this
// pass rewrites wait for the next pass: the rewrite may suffice.
std::vector<Choice> choose(const Diagnostics& diags,
                           const std::set<std::string>& refused) {
  std::vector<Choice> chosen;
  ReservedRanges reserved;
  std::set<int> rewritten;
  for (const Diagnostic& finding : diags.all()) {
    // A note describes something the user asked for, so it is not fixed.
    if (finding.severity == Severity::Note ||
        ((finding.code == Code::UnusedAxis ||
          finding.code == Code::UnmentionedAxis) &&
         is_data_axis(finding.subject.axis))) {
      continue;
    }
    for (const Fix& fix : finding.fixes) {
      const Choice choice{&finding, &fix};
      if (fix.edits.empty() || is_standard_input(fix) ||
          refused.contains(key_of(choice)))
        continue;
      const int rule = finding.subject.rule;
      const bool inserts = only_inserts(fix);
      if (inserts && rewritten.contains(rule)) break;
      if (reserved.reserve(fix, finding.code)) {
        chosen.push_back(choice);
        if (rule > 0 && !inserts) rewritten.insert(rule);
      }
      break;
    }
  }
  return chosen;
}

// Returns false for shipped sets, whose sources also have file names.
bool is_a_file_of(const PlanRequest& planning, const SourceFile& source) {
  const std::string& name = source.name();
  return name == kStandardInput ||
         std::ranges::any_of(planning.rules, [&](const std::string& path) {
           return name == path || name.starts_with(path + "/");
         });
}

// Returns all texts after the edits, by path.
std::map<std::string, std::string> texts_with(
    const PlanRequest& planning, const FixRun& run,
    const std::vector<Choice>& chosen) {
  std::map<std::string, std::string> texts;
  // A pipe can be read only once, and the other files need not be read again.
  if (run.session.rules) {
    for (const SourcePtr& source : run.session.rules->sources) {
      if (is_a_file_of(planning, *source))
        texts[source->name()] = source->text();
    }
  }
  for (const auto& [path, file] : run.files) texts[path] = file.after;
  std::map<const SourceFile*, std::vector<TextEdit>> edits;
  for (const Choice& choice : chosen) {
    for (const TextEdit& edit : choice.fix->edits) {
      edits[edit.where.file].push_back(edit);
    }
  }
  for (auto& [file, all] : edits) {
    std::ranges::stable_sort(all, {}, [](const TextEdit& edit) {
      return std::pair(edit.where.begin, edit.where.end);
    });
    texts[file->name()] = edited(file->text(), all);
  }
  return texts;
}

struct Checked {
  std::optional<Session> session;
  Diagnostics diags;
};

Diagnostics fresh_diagnostics(const Options& options) {
  Diagnostics diags;
  apply_severities(options, diags);
  return diags;
}

Checked check_again(const Context& context, Model model,
                    const std::map<std::string, std::string>& texts) {
  const Options& options = context.options;
  Checked checked{std::nullopt, fresh_diagnostics(options)};
  OverlayHost host(context.host, texts);
  checked.session =
      open_session(options.planning, options.memory, {std::move(model), {}, {}},
                   host, checked.diags, context.progress);
  return checked;
}

bool is_better(const FixRun& run, const std::vector<Choice>& chosen,
               const Checked& checked) {
  if (!checked.session || checked.diags.cannot_run() ||
      finding_counts(checked.diags) >= finding_counts(run.diags)) {
    return false;
  }
  const FindingsLeft left(checked.diags, checked.session->plan);
  return std::ranges::all_of(chosen, [&](const Choice& choice) {
    return left.is_gone(*choice.finding, run.session.plan);
  });
}

void take_over(const std::vector<Choice>& chosen,
               const std::map<std::string, std::string>& texts, Checked checked,
               FixRun& run) {
  for (const Choice& choice : chosen) {
    const Span where = choice.fix->edits.front().where;
    run.applied.push_back({choice.finding->code, where.file->name(),
                           where.file->position(where.begin).line,
                           choice.fix->text, choice.fix->bytes_per_device});
    for (const TextEdit& edit : choice.fix->edits) {
      run.files.try_emplace(
          edit.where.file->name(),
          ChangedFile{std::string(edit.where.file->text()), ""});
    }
  }
  for (auto& [path, file] : run.files) file.after = texts.at(path);
  run.session = std::move(*checked.session);
  run.diags = std::move(checked.diags);
}

// Runs one pass. Returns false if there is nothing left to try.
bool pass(const Context& context, std::set<std::string>& refused, FixRun& run) {
  std::vector<Choice> chosen = choose(run.diags, refused);
  while (!chosen.empty()) {
    const std::map<std::string, std::string> texts =
        texts_with(context.options.planning, run, chosen);
    Checked checked = check_again(context, run.session.model, texts);
    if (is_better(run, chosen, checked)) {
      take_over(chosen, texts, std::move(checked), run);
      return true;
    }
    // The edits do not work together, so only the first half is tried again. A
    // single edit that does not work is refused for good.
    if (chosen.size() == 1) {
      refused.insert(key_of(chosen.front()));
      return true;
    }
    chosen.resize(chosen.size() / 2);
  }
  return false;
}

Diagnostics::Builder report_unwritten_file(const std::string& path,
                                           const OutputFile& output,
                                           Diagnostics& diags) {
  const std::string problem = output.problem();
  return diags.error(Code::UnreadableFile, {},
                     "cannot write all of `" + path + "`" +
                         (problem.empty() ? "" : ": " + problem));
}

// Prepares the new contents next to a file that is unchanged since it was read.
// Returns null, with the reason reported, on failure.
std::unique_ptr<OutputFile> prepared(const std::string& path,
                                     const ChangedFile& file, Host& host,
                                     Diagnostics& diags) {
  std::string why;
  // This comes first because it rejects pipes, from which a read might never
  // return.
  std::unique_ptr<OutputFile> output = host.edit_file(path, file.before, why);
  if (output == nullptr) {
    diags.error(Code::UnreadableFile, {}, "cannot write `" + path + "`: " + why)
        .fact("no file was changed");
    return nullptr;
  }
  const auto now = host.read_file(path, kWholeFile, why);
  if (now == nullptr || now->view() != file.before) {
    diags
        .error(Code::UnreadableFile, {},
               "`" + path + "` has changed since it was read")
        .fact("no file was changed")
        .help("run the command again");
    return nullptr;
  }
  if (output->write(file.after)) return output;
  report_unwritten_file(path, *output, diags).fact("no file was changed");
  return nullptr;
}

// Reports a rules file that is given twice, under one name or two: an edit of
// one copy's rules would also change the other copy's.
bool reject_files_given_twice(const PlanRequest& planning, Host& host,
                              Diagnostics& diags) {
  std::map<std::string, std::string> known;
  for (const std::string& path : planning.rules) {
    if (path == "-" || path.starts_with('@')) continue;
    const auto real = host.real_path(path);
    if (!real) continue;
    const auto [first, is_new] = known.emplace(*real, path);
    if (is_new) continue;
    diags
        .error(Code::Usage, {},
               first->second == path ? "`" + path + "` is given twice"
                                     : "`" + path + "` and `" + first->second +
                                           "` are the same file")
        .fact("editing one would change the other")
        .help("give it once");
    return true;
  }
  return false;
}

}  // namespace

std::optional<FileInfo> OverlayHost::file_info(const std::string& path) {
  const auto found = files_.find(path);
  if (found == files_.end()) return ForwardingHost::file_info(path);
  return FileInfo{.size = std::ssize(found->second)};
}

std::shared_ptr<const Bytes> OverlayHost::read_file(const std::string& path,
                                                    int64_t limit,
                                                    std::string& why) {
  const auto found = files_.find(path);
  if (found == files_.end()) return ForwardingHost::read_file(path, limit, why);
  return shardplan::bytes_of(
      limit < 0 ? found->second : found->second.substr(0, to_size(limit)));
}

std::shared_ptr<const Bytes> OverlayHost::read_stdin(std::string& why) {
  const std::string path(kStandardInput);
  return files_.contains(path) ? read_file(path, kWholeFile, why)
                               : ForwardingHost::read_stdin(why);
}

std::optional<FixRun> find_fixes(Context& context) {
  if (reject_files_given_twice(context.options.planning, context.host,
                               context.diags)) {
    return std::nullopt;
  }
  std::optional<Session> session = open_session(context);
  if (!session) return std::nullopt;
  FixRun run{std::move(*session), std::move(context.diags), {}, {}};
  context.diags = fresh_diagnostics(context.options);
  std::set<std::string> refused;
  for (int i = 0; i < kMaxPasses; ++i) {
    if (!pass(context, refused, run)) break;
  }
  return run;
}

bool write_fixes(const FixRun& run, Host& host, Diagnostics& diags) {
  std::vector<std::unique_ptr<OutputFile>> outputs;
  for (const auto& [path, file] : run.files) {
    outputs.push_back(prepared(path, file, host, diags));
    if (outputs.back() == nullptr) return false;
  }
  std::vector<std::string> written;
  auto output = outputs.begin();
  for (const auto& [path, file] : run.files) {
    OutputFile& next = **output++;
    if (!next.commit()) {
      auto report = report_unwritten_file(path, next, diags);
      report.fact("it was not changed");
      if (!written.empty()) {
        report.fact("already written: " + quoted_names(written, ", "));
      }
      return false;
    }
    written.push_back(path);
  }
  return true;
}

}  // namespace shardplan::cli
