// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/gate/following.h"

#include <algorithm>
#include <array>
#include <functional>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/parallel.h"
#include "base/text.h"
#include "base/words.h"
#include "core/plan.h"
#include "io/paths.h"

namespace shardplan::cli {
namespace {

// The contents of a target, for comparison with other targets.
struct TargetContents {
  std::string what;   // "" if the target cannot be checked
  std::string rules;  // the text of the rules
};

std::string hash_of_parameters(const Manifest& manifest) {
  Sha256 hash;
  for (size_t i = 0; i < manifest.size(); ++i) {
    hash.update(manifest.name(i));
    hash.update(std::string_view("\0", 1));
    hash.update(type_text(manifest.type(i)));
    hash.update(std::string_view("\0", 1));
  }
  return hash.hex();
}

TargetContents contents_of(const CheckedTarget& checked) {
  if (!checked.session || checked.diags.cannot_run()) return {};
  const Session& session = *checked.session;
  TargetContents contents;
  contents.what =
      hash_of_parameters(session.model.manifest) + " " +
      mesh_text(session.plan.mesh) + " " +
      std::to_string(static_cast<int>(checked.options.planning.mode)) +
      (checked.memory ? " budget" : "") +
      (checked.memory && checked.memory->step ? " step" : "") + " " +
      checked.options.engine.name.value_or("");
  if (session.rules) {
    for (const SourcePtr& source : session.rules->sources) {
      contents.rules += std::string(source->text()) + '\x1f';
    }
  }
  return contents;
}

// Returns how likely it is that one target became the other; 0: it did not.
int likeness(const TargetContents& before, const TargetContents& after) {
  if (before.what.empty() || before.what != after.what) return 0;
  return before.rules == after.rules ? 2 : 1;
}

// Settings that define what is asked about a target: on another mesh, in
// another mode or over other tokens, the same rules give another answer.
constexpr std::array<std::string_view, 10> kQuestion = {
    "mode",     "mesh",  "view", "devices",    "slices",
    "topology", "batch", "seq",  "source-seq", "engine"};
// Settings that define how the model and its rules are read. The second attempt
// of judge_as_before() uses only these from the head.
constexpr std::array<std::string_view, 7> kOfFiles = {
    "rules",        "pattern", "dialect",    "axes",
    "architecture", "scheme",  "state-rules"};

template <size_t N>
bool is_among(const Setting& setting,
              const std::array<std::string_view, N>& names) {
  return contains(names, setting.flag->name);
}

std::vector<Setting> all_but(const std::vector<Setting>& settings,
                             const std::function<bool(const Setting&)>& out) {
  std::vector<Setting> rest;
  for (const Setting& setting : settings) {
    if (!out(setting)) rest.push_back(setting);
  }
  return rest;
}

bool has_flag(const std::vector<Setting>& settings, std::string_view name) {
  return std::ranges::any_of(
      settings, [&](const Setting& s) { return s.flag->name == name; });
}

// Returns the settings of `from` that `is_taken` selects, and all others of
// `rest`.
std::vector<Setting> taken_from(
    const std::vector<Setting>& from, const std::vector<Setting>& rest,
    const std::function<bool(const Setting&)>& is_taken) {
  std::vector<Setting> settings = all_but(rest, is_taken);
  for (const Setting& setting : from) {
    if (is_taken(setting)) settings.push_back(setting);
  }
  return settings;
}

// Returns the path on the head side that corresponds to a path on the base
// side.
std::string moved(const GateSide& base, const GateSide& head,
                  const std::string& path) {
  const std::string rest = path_below(base, path);
  return head.folder.empty() ? rest : join_path(head.folder, rest);
}

}  // namespace

void follow_targets(const GateSide& base, const GateSide& head,
                    const std::vector<Setting>& over, int jobs,
                    std::vector<GatedTarget>& targets) {
  std::vector<size_t> gone;
  std::vector<size_t> added;
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i].head == nullptr) gone.push_back(i);
    if (targets[i].base == nullptr) added.push_back(i);
  }
  if (gone.empty() || added.empty()) return;
  std::vector<TargetContents> contents(targets.size());
  std::vector<size_t> asked = gone;
  asked.insert(asked.end(), added.begin(), added.end());
  parallel_for(std::ssize(asked), thread_count(jobs), [&](int64_t k) {
    const size_t i = asked[static_cast<size_t>(k)];
    const GatedTarget& gated = targets[i];
    const bool of_base = gated.head == nullptr;
    std::vector<Setting> settings =
        of_base ? gated.base_settings : gated.head_settings;
    settings.insert(settings.end(), over.begin(), over.end());
    contents[i] = contents_of(check_target(of_base ? *gated.base : *gated.head,
                                           settings, Fixes::Leave,
                                           of_base ? *base.host : *head.host));
  });
  const auto follow = [&](size_t before, size_t after) {
    targets[after].base = targets[before].base;
    targets[after].renamed_from = targets[before].name;
    targets[after].base_settings = targets[before].base_settings;
    targets[after].head_settings = head_settings(base, head, targets[after]);
  };
  std::vector<bool> followed(targets.size());
  for (const int least : {2, 1}) {
    for (const size_t before : gone) {
      if (followed[before]) continue;
      for (const size_t after : added) {
        if (targets[after].base != nullptr ||
            likeness(contents[before], contents[after]) < least) {
          continue;
        }
        follow(before, after);
        followed[before] = true;
        break;
      }
    }
  }
  // A target may have been split into several.
  for (const size_t after : added) {
    for (const size_t before : gone) {
      if (targets[after].base != nullptr || !followed[before] ||
          likeness(contents[before], contents[after]) == 0) {
        continue;
      }
      follow(before, after);
    }
  }
  size_t i = 0;
  std::erase_if(targets, [&](const GatedTarget&) { return followed[i++]; });
}

std::optional<CheckedTarget> judge_as_before(const GateSide& base,
                                             const GateSide& head,
                                             const std::vector<Setting>& over,
                                             const GatedTarget& gated) {
  const std::vector<Setting>& was = gated.base_settings;
  const std::vector<Setting>& is = gated.head_settings;
  if (has_flag(was, "plan") || has_flag(is, "plan")) return std::nullopt;
  // A side without an optimizer does not ask for training state; a side without
  // a hardware profile does not ask for time.
  const auto asks_no_more = [&](std::string_view flag) {
    return has_flag(was, flag) && !has_flag(is, flag);
  };
  const bool trains_no_more = asks_no_more("optimizer");
  const bool times_no_more = asks_no_more("hardware");
  const auto is_question = [&](const Setting& setting) {
    return is_among(setting, kQuestion) ||
           (trains_no_more && setting.flag->name == "optimizer") ||
           (times_no_more && setting.flag->name == "hardware");
  };
  const auto is_other = [&](const Setting& s) { return !is_question(s); };
  const bool same_model = path_below(base, gated.base->model) ==
                          path_below(head, gated.head->model);
  if (same_model &&
      same_settings(all_but(was, is_other), all_but(is, is_other))) {
    return std::nullopt;
  }
  Target target = *gated.head;
  const std::string model = moved(base, head, gated.base->model);
  if (head.host->file_info(model)) target.model = model;
  // First the head's settings with the base's request. If that cannot be
  // checked, the base's settings with the head's files.
  const auto is_of_head = [](const Setting& s) {
    return is_among(s, kOfFiles);
  };
  for (std::vector<Setting> settings :
       {taken_from(was, is, is_question), taken_from(is, was, is_of_head)}) {
    settings.insert(settings.end(), over.begin(), over.end());
    CheckedTarget checked =
        check_target(target, settings, Fixes::Leave, *head.host);
    if (checked.session && !checked.diags.cannot_run()) return checked;
  }
  return std::nullopt;
}

std::vector<GateChange> changes_as_before(const CheckedTarget& before,
                                          const CheckedTarget& after,
                                          const std::string& target) {
  const bool same_mesh = before.session->plan.mesh == after.session->plan.mesh;
  std::vector<GateChange> changes;
  for (GateChange& change :
       target_changes(target, side_of(before), side_of(after))) {
    const bool counts = change.kind == GateKind::Memory ||
                        change.kind == GateKind::Time ||
                        change.kind == GateKind::Placement ||
                        (change.kind == GateKind::Finding && same_mesh);
    if (!counts) continue;
    change.text +=
        (change.text.empty() ? "" : "; ") +
        std::string("with the target's settings from before the change");
    changes.push_back(std::move(change));
  }
  return changes;
}

std::string why_dropped(const CheckedTarget& before,
                        const CheckedTarget& after) {
  const Manifest& was = before.session->model.manifest;
  const Manifest& is = after.session->model.manifest;
  std::unordered_set<std::string_view> names;
  for (size_t i = 0; i < is.size(); ++i) names.insert(is.name(i));
  size_t there = 0;
  for (size_t i = 0; i < was.size(); ++i) {
    if (names.contains(was.name(i))) ++there;
  }
  if (2 * there >= was.size()) return "";
  return "its model has only " + count_text(static_cast<int64_t>(there)) +
         " of the " + plural(std::ssize(was), "parameter") + " it had before";
}

}  // namespace shardplan::cli
