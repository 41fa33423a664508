// SPDX-License-Identifier: Apache-2.0
// Checks targets, and merges what was found in them.
#include "cli/targets.h"

#include <algorithm>
#include <tuple>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "cli/flags.h"

namespace shardplan::cli {
namespace {

class NoProgress : public ProgressListener {
 public:
  void stage(std::string_view /*text*/) override {}
};

// Returns the tokens, at the given context length, of all sequences that fit.
std::optional<int64_t> tokens_that_fit(const MemoryAnswer& answer) {
  if (answer.serving) {
    const auto& pool = answer.serving->stage().pools[1];
    return pool ? std::optional(pool->tokens) : std::nullopt;
  }
  if (!answer.headroom || !answer.headroom->batch) return std::nullopt;
  return checked_mul(*answer.headroom->batch, answer.options.kv->seq);
}

// Estimates the memory per device of a target that has a session, if the
// target's settings ask for it.
void check_memory(CheckedTarget& checked, Host& host) {
  const Options& options = checked.options;
  const MemoryQuestion question = {options.planning, options.memory,
                                   options.workload, options.engine};
  if (!checked.session || !check_question(question, checked.diags) ||
      !asks_for_budget(options.memory, options.planning.mode)) {
    return;
  }
  checked.memory = answer_memory(question, *checked.session, Headroom::Find,
                                 host, checked.diags);
  if (checked.memory) checked.kv_tokens = tokens_that_fit(*checked.memory);
}

}  // namespace

void check_read_inputs(CheckedTarget& checked, ReadInputs inputs, Host& host,
                       ProgressListener& progress) {
  checked.session =
      open_session(checked.options.planning, checked.options.memory,
                   std::move(inputs), host, checked.diags, progress);
  check_memory(checked, host);
}

TargetSide side_of(const CheckedTarget& checked) {
  const auto& memory = checked.memory;
  TargetSide side = {*checked.session, memory ? &memory->budget : nullptr,
                     memory && memory->step ? &memory->step->bracket : nullptr,
                     checked.kv_tokens, checked.diags};
  const Mode mode = checked.options.planning.mode;
  if (mode != Mode::Train) {
    side.timed = mode == Mode::Prefill ? "prompt" : "token";
  }
  const auto use = [&](const std::optional<StepTime>& time,
                       const std::string& untimed) {
    side.time = time ? &*time : nullptr;
    side.untimed = untimed;
  };
  if (side.step != nullptr) {
    use(memory->step->time, memory->step->untimed);
  } else if (memory && memory->inference) {
    const InferenceTimes& times = *memory->inference;
    use(mode == Mode::Prefill ? times.first_token : times.next_token,
        times.untimed);
  }
  return side;
}

void SharedProgress::stage(std::string_view text) {
  const std::lock_guard lock(mutex_);
  progress_.stage(text);
}

void SharedProgress::step(std::string_view work, std::string_view text,
                          double done) {
  const std::lock_guard lock(mutex_);
  progress_.step(work, text, done);
}

void WorkProgress::begin(std::string_view name) {
  const std::lock_guard lock(mutex_);
  const double done = static_cast<double>(begun_) / static_cast<double>(count_);
  const std::string text =
      what_ + " " + count_text(static_cast<int64_t>(++begun_)) + " of " +
      count_text(static_cast<int64_t>(count_)) + ": " + std::string(name);
  progress_.step(what_, text, done);
}

std::optional<FileInfo> WatchingHost::file_info(const std::string& path) {
  const auto info = below().file_info(path);
  looked_at_[path] = info.has_value();
  return info;
}

std::vector<std::string> WatchingHost::list_directory(const std::string& path) {
  return listed_[path] = below().list_directory(path);
}

std::shared_ptr<const Bytes> WatchingHost::read_file(const std::string& path,
                                                     int64_t limit,
                                                     std::string& why) {
  return bytes_[{path, limit}] = below().read_file(path, limit, why);
}

bool WatchingHost::would_see_the_same(
    Host& there,
    const std::function<std::string(const std::string&)>& moved) const {
  for (const auto& [path, is_there] : looked_at_) {
    if (there.file_info(moved(path)).has_value() != is_there) return false;
  }
  for (const auto& [path, names] : listed_) {
    if (there.list_directory(moved(path)) != names) return false;
  }
  for (const auto& [key, bytes] : bytes_) {
    std::string why;
    const auto other = there.read_file(moved(key.first), key.second, why);
    // A read error counts as a difference, since its reason may differ.
    if (bytes == nullptr || other == nullptr) return false;
    if (bytes->view() != other->view()) return false;
  }
  return true;
}

std::vector<Setting> target_settings(const std::vector<Setting>& defaults,
                                     const std::vector<Setting>& own) {
  std::vector<Setting> settings = remaining_settings(defaults, own, "check");
  settings.insert(settings.end(), own.begin(), own.end());
  return settings;
}

CheckedTarget check_target(const Target& target,
                           const std::vector<Setting>& settings, Fixes fixes,
                           Host& host) {
  CheckedTarget checked;
  checked.name = target.name;
  checked.options.command = "check";
  checked.options.planning.model = target.model;
  check_conflicts(settings, checked.diags);
  apply_settings(settings, checked.options, checked.diags);
  // Targets run in parallel, so each uses one thread.
  checked.options.planning.jobs = 1;
  checked.options.planning.find_fixes = fixes == Fixes::Find;
  if (checked.diags.cannot_run()) return checked;
  apply_severities(checked.options, checked.diags);
  NoProgress progress;
  checked.session =
      open_session(checked.options.planning, checked.options.memory, host,
                   checked.diags, progress);
  check_memory(checked, host);
  return checked;
}

void find_fixes_of(CheckedTarget& checked,
                   const std::function<bool(const Diagnostic&)>& is_asked,
                   Host& host) {
  if (!checked.session) return;
  find_fixes(*checked.session, checked.options.planning, host, is_asked,
             checked.diags);
}

std::vector<Setting> severity_settings(const Options& options) {
  std::vector<Setting> settings;
  for (const auto& [flag, values] : {std::pair("deny", &options.run.deny),
                                     std::pair("allow", &options.run.allow)}) {
    for (const std::string& value : *values) {
      settings.push_back({find_flag(flag), value, {}, ""});
    }
  }
  return settings;
}

std::optional<std::vector<Target>> chosen_targets(
    std::vector<Target> targets, const std::vector<std::string>& patterns,
    Diagnostics& diags) {
  if (patterns.empty()) return targets;
  std::vector<std::string> names = all_names(targets);
  bool fine = true;
  for (const std::string& pattern : patterns) {
    if (std::ranges::any_of(names, [&](const std::string& name) {
          return matches_glob(pattern, name);
        })) {
      continue;
    }
    fine = false;
    auto problem =
        diags.error(Code::Usage, {}, "no target is named `" + pattern + "`");
    if (const auto near = nearest(pattern, names)) {
      problem.help("did you mean `" + *near + "`?");
    } else {
      problem.fact("targets: " + some_names(names));
    }
  }
  if (!fine) return std::nullopt;
  std::erase_if(targets, [&](const Target& target) {
    return std::ranges::none_of(patterns, [&](const std::string& pattern) {
      return matches_glob(pattern, target.name);
    });
  });
  return targets;
}

std::string places_text(const Diagnostic& diagnostic) {
  std::string text;
  for (const Label& label : diagnostic.labels) {
    if (!label.where) continue;
    text += label.where.file->name() + ":" + std::to_string(label.where.begin) +
            " ";
  }
  return text;
}

void add_findings_of(std::span<const TargetFindings> targets,
                     Diagnostics& diags) {
  // Two findings are the same to a reader if these agree.
  using Key = std::tuple<Code, Severity, std::string, std::vector<std::string>,
                         std::vector<std::string>, std::string>;
  std::map<Key, size_t> known;
  std::vector<Diagnostic> found;
  for (const TargetFindings& of : targets) {
    diags.add_sources(*of.diags);
    for (const Diagnostic& diagnostic : of.diags->all()) {
      const auto [entry, is_new] = known.emplace(
          Key{diagnostic.code, diagnostic.severity, diagnostic.message,
              diagnostic.facts, diagnostic.parameters, places_text(diagnostic)},
          found.size());
      if (is_new) found.push_back(diagnostic);
      Diagnostic& kept = found[entry->second];
      kept.targets.push_back(of.target);
      if (!is_new) kept.findings += diagnostic.findings;
    }
  }
  for (Diagnostic& diagnostic : found) {
    diagnostic.facts.push_back(
        (diagnostic.targets.size() == 1 ? "target " : "targets ") +
        some_names(diagnostic.targets));
    diags.add(std::move(diagnostic));
  }
}

}  // namespace shardplan::cli
