// SPDX-License-Identifier: Apache-2.0
// `shardplan export MODEL --to TARGET`: rules or a plan as another tool reads
// them. The answer is that text alone.
#include "io/export.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/session.h"
#include "resolve/resolve.h"

namespace shardplan::cli {
namespace {

// Whether the rules give this plan again when they are read without any flag
// but the mesh.
bool rules_suffice(const Context& context, const Session& session) {
  const Plan& plan = session.plan;
  if (context.options.unmatched != Unmatched::Error &&
      std::any_of(plan.placements.begin(), plan.placements.end(),
                  [&](const Placement& p) { return plan.is_unmatched(p); })) {
    return false;
  }
  ResolveOptions plain;
  plain.on_indivisible = plan.on_indivisible;
  plain.jobs = std::max(1, context.options.jobs);
  Diagnostics unused = context.diags.fresh();
  const auto again =
      resolve(session.manifest, *session.rules, plan.mesh, plain, unused);
  return again && fingerprint(session.manifest, *again) ==
                      fingerprint(session.manifest, plan);
}

// "--min-size 100 --no-strict": what else the plan was made with.
std::string flags_text(const Options& options) {
  std::string text;
  const auto add = [&](const std::string& flag) {
    text += (text.empty() ? "" : " ") + flag;
  };
  if (options.min_size != 0) {
    add("--min-size " + std::to_string(options.min_size));
  }
  if (options.on_indivisible != OnIndivisible::Drop) {
    add("--on-indivisible " + std::string(policy_name(options.on_indivisible)));
  }
  if (options.unmatched == Unmatched::Replicate) add("--unmatched replicate");
  if (options.unmatched == Unmatched::Auto) add("--unmatched auto");
  if (!options.strict) add("--no-strict");
  for (const std::string& text_of : declaration_texts(options.declarations)) {
    add("--declare " + text_of);
  }
  if (options.mode != Mode::Train) {
    add("--mode " + std::string(mode_name(options.mode)));
  }
  if (options.parity) add("--parity");
  if (options.fallback != RulesFallback::AxisIsUnsharded) {
    add("--fallback " + std::string(fallback_name(options.fallback)));
  }
  if (options.flax != FlaxVersion::Current) add("--flax-compat 2024");
  return text;
}

std::vector<std::string> origin_of(const Options& options,
                                   const Manifest& manifest) {
  std::vector<std::string> lines = {"model: " + manifest.title};
  if (options.plan) {
    lines.push_back("plan: " + *options.plan);
    return lines;
  }
  if (options.pattern != nullptr) {
    lines.push_back("pattern: " + std::string(options.pattern->text()));
  }
  std::string rules;
  for (const std::string& path : options.rules) {
    rules += (rules.empty() ? "" : ", ") + path;
  }
  if (!rules.empty()) lines.push_back("rules: " + rules);
  const std::string flags = flags_text(options);
  if (!flags.empty()) lines.push_back("flags: " + flags);
  return lines;
}

}  // namespace

Exit run_export(Context& context) {
  if (!context.options.to) {
    std::string names;
    for (const ExportTarget& target : export_targets()) {
      names += (names.empty() ? "" : ", ") + std::string(target.name);
    }
    context.diags.error(Code::Usage, {}, "`export` needs `--to`")
        .help("one of " + names);
    return Exit::CouldNotRun;
  }
  const ExportTarget* target = find_export_target(*context.options.to);
  SHARDPLAN_CHECK(target != nullptr);
  const std::optional<Session> session = open_session(context);
  if (!session) return Exit::CouldNotRun;
  ExportInput input{session->manifest, session->plan};
  input.replicate_unmatched = context.options.unmatched != Unmatched::Error;
  input.origin = origin_of(context.options, session->manifest);
  if (!session->rules) {
    input.no_rules = "a saved plan has no rules";
  } else if (rules_suffice(context, *session)) {
    input.rules = &*session->rules;
  } else {
    input.no_rules = "flags had a part in this plan, and rules have no flags";
  }
  const auto text = target->write(input, context.diags);
  if (!text) return Exit::CouldNotRun;
  return finish_with(context,
                     [&](const TextSink& sink) { return sink(*text); });
}

}  // namespace shardplan::cli
