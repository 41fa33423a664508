// SPDX-License-Identifier: Apache-2.0
// `shardplan export MODEL --to TARGET`: rules or a plan in the format of
// another tool. The answer is only that text.
#include "io/export.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "cli/commands.h"
#include "cli/commands/export.h"
#include "cli/commands/simulate/model.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "cli/output.h"
#include "io/paths.h"
#include "resolve/resolve.h"
#include "session/exported_plan.h"
#include "session/session.h"

namespace shardplan::cli {
namespace {

// Returns whether the rules, read with no flag except the mesh, reproduce this
// plan.
bool rules_suffice(const Context& context, const Manifest& manifest,
                   const RuleSet& rules, const Plan& plan) {
  if (context.options.planning.unmatched != Unmatched::Error &&
      std::ranges::any_of(plan.placements, [&](const Placement& p) {
        return plan.is_unmatched(p);
      })) {
    return false;
  }
  ResolveOptions plain;
  plain.on_indivisible = plan.on_indivisible;
  plain.jobs = std::max(1, context.options.planning.jobs);
  Diagnostics unused = context.diags.fresh();
  const auto again = resolve(manifest, rules, plan.mesh, plain, unused);
  return again && fingerprint(manifest, *again) == fingerprint(manifest, plan);
}

// Returns the other flags that the plan was made with: "--min-size 100
// --no-strict".
std::string flags_text(const PlanRequest& planning) {
  std::string text;
  const auto add = [&](const std::string& flag) {
    text += (text.empty() ? "" : " ") + flag;
  };
  if (planning.min_size != 0) {
    add("--min-size " + std::to_string(planning.min_size));
  }
  const OnIndivisible policy =
      planning.on_indivisible.value_or(OnIndivisible::Drop);
  if (policy != OnIndivisible::Drop) {
    add("--on-indivisible " + std::string(policy_name(policy)));
  }
  if (planning.unmatched == Unmatched::Replicate) add("--unmatched replicate");
  if (planning.unmatched == Unmatched::Auto) add("--unmatched auto");
  if (!planning.strict) add("--no-strict");
  for (const std::string& text_of : declaration_texts(planning.declarations)) {
    add("--declare " + text_of);
  }
  if (planning.mode != Mode::Train) {
    add("--mode " + std::string(mode_name(planning.mode)));
  }
  if (planning.parity) add("--parity");
  if (planning.fallback != RulesFallback::AxisIsUnsharded) {
    add("--fallback " + std::string(fallback_name(planning.fallback)));
  }
  if (planning.flax != FlaxVersion::Current) add("--flax-compat 2024");
  return text;
}

std::vector<std::string> origin_of(const PlanRequest& planning,
                                   const Session& session) {
  std::vector<std::string> lines = {"model: " + session.model.manifest.title};
  if (planning.saved_plan) {
    lines.push_back("plan: " + *planning.saved_plan);
    return lines;
  }
  if (planning.pattern != nullptr) {
    lines.push_back("pattern: " + std::string(planning.pattern->text()));
  }
  std::string rules = joined(planning.rules, ", ");
  // The shipped set that was chosen: `@llama` for `rules/models/llama.yaml`.
  if (rules.empty() && planning.pattern == nullptr && session.rules) {
    // A file may be listed more than once.
    std::set<std::string> sets;
    for (const SourcePtr& source : session.rules->sources) {
      const std::string file = file_name_of(source->name());
      const std::string set = "@" + file.substr(0, file.rfind('.'));
      if (!sets.insert(set).second) continue;
      rules += (rules.empty() ? "" : ", ") + set;
    }
  }
  if (!rules.empty()) lines.push_back("rules: " + rules);
  const std::string flags = flags_text(planning);
  if (!flags.empty()) lines.push_back("flags: " + flags);
  return lines;
}

}  // namespace

Exit run_export(Context& context) {
  if (!context.options.exporting.to) {
    const std::string names =
        joined_of(export_targets(), ", ", &ExportTarget::name);
    context.diags.error(Code::Usage, {}, "`export` needs `--to`")
        .help("one of " + names);
    return Exit::CouldNotRun;
  }
  const ExportTarget* target =
      find_export_target(*context.options.exporting.to);
  SHARDPLAN_CHECK(target != nullptr);
  const std::optional<Session> session =
      open_session(context.options.planning, context.options.memory,
                   context.host, context.diags, context.progress);
  if (!session) return Exit::CouldNotRun;
  ExportInput input{session->model.manifest, session->plan};
  input.suffice = [&](const RuleSet& rules, const Plan& plan) {
    return rules_suffice(context, session->model.manifest, rules, plan);
  };
  input.replicate_unmatched =
      context.options.planning.unmatched != Unmatched::Error;
  input.origin = origin_of(context.options.planning, *session);
  if (!session->rules) {
    input.no_rules = "a saved plan has no rules";
  } else if (input.suffice(*session->rules, session->plan)) {
    input.rules = &*session->rules;
  } else {
    input.no_rules = "this plan depends on flags, which rules cannot express";
  }
  const auto text = export_text(*target, input, context.diags);
  if (!text) return Exit::CouldNotRun;
  if (target->name == kHfTpPlanTarget.name) {
    follow_written_hooks(session->model, session->plan, *text,
                         default_pass(context.options.planning.mode, nullptr,
                                      session->plan.mesh),
                         context.diags);
  } else {
    note_hooks(input, target->name, context.diags);
  }
  return finish_with(context,
                     [&](const TextSink& sink) { return sink(*text); });
}

namespace {

std::vector<std::string> target_names() { return all_names(export_targets()); }

}  // namespace

const std::vector<Flag>& export_flags() {
  static const std::vector<Flag> kFlags = {
      {"to", Takes::Choice, "TARGET", "Output", "what to write", "export",
       [](auto& s, auto& o, auto&) { o.exporting.to = s.value; }, false, false,
       target_names},
  };
  return kFlags;
}

}  // namespace shardplan::cli
