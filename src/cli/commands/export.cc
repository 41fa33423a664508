// SPDX-License-Identifier: Apache-2.0
// `shardplan export MODEL --to TARGET`: rules or a plan in the format of
// another tool. The answer is only that text.
#include "io/export.h"

#include <algorithm>
#include <optional>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "cli/commands.h"
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
  std::vector<std::string> flags;
  const auto add = [&](bool given, const std::string& flag) {
    if (given) flags.push_back(flag);
  };
  add(planning.min_size != 0,
      "--min-size " + std::to_string(planning.min_size));
  const OnIndivisible policy =
      planning.on_indivisible.value_or(OnIndivisible::Drop);
  add(policy != OnIndivisible::Drop,
      "--on-indivisible " + std::string(policy_name(policy)));
  add(planning.unmatched == Unmatched::Replicate, "--unmatched replicate");
  add(planning.unmatched == Unmatched::Auto, "--unmatched auto");
  add(!planning.strict, "--no-strict");
  for (const std::string& text : declaration_texts(planning.declarations)) {
    add(true, "--declare " + text);
  }
  add(planning.mode != Mode::Train,
      "--mode " + std::string(mode_name(planning.mode)));
  add(planning.parity, "--parity");
  add(planning.fallback != RulesFallback::AxisIsUnsharded,
      "--fallback " + std::string(fallback_name(planning.fallback)));
  add(planning.flax != FlaxVersion::Current, "--flax-compat 2024");
  return joined(flags, " ");
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
    std::vector<std::string> sets;
    for (const SourcePtr& source : session.rules->sources) {
      const std::string file = file_name_of(source->name());
      const std::string set = "@" + file.substr(0, file.rfind('.'));
      if (!contains(sets, set)) sets.push_back(set);
    }
    rules = joined(sets, ", ");
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
  const std::optional<Session> session = open_session(context);
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
  return finish_text(context, *text);
}

std::vector<Flag> export_flags() {
  return {
      {"to", Takes::Choice, "TARGET", "Output", "what to write", "export",
       [](auto& s, auto& o, auto&) { o.exporting.to = s.value; }, false, false,
       [] { return all_names(export_targets()); }},
  };
}

}  // namespace shardplan::cli
