// SPDX-License-Identifier: Apache-2.0
// A plan with its findings and their fixes, and what becomes of it when a fix
// is really made: files are edited and read again, everything is resolved anew.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "advise/advise.h"
#include "advise/rule_edit.h"
#include "io/dialects.h"
#include "tests/support/builders.h"

namespace shardplan::testing {

// Rules as a file says them, with real places.
inline RuleSet read_rules(const std::string& text) {
  RuleSet rules;
  Diagnostics diags;
  const auto source = std::make_shared<SourceFile>("rules.yaml", text);
  if (!kYamlRules.read(source, {}, rules, diags)) {
    bad_text("no rules", text);
  }
  return rules;
}

struct Advised {
  Manifest manifest;
  std::string text;  // of the rules
  RuleSet rules;
  Mesh mesh;
  ResolveOptions resolving;
  LintOptions linting;
  Diagnostics diags;
  Plan plan;
  int64_t fullest = 0;  // bytes of the fullest device
  int64_t work = 0;     // of finding fixes

  std::vector<Diagnostic> find(Code code) const {
    std::vector<Diagnostic> found;
    for (const Diagnostic& diagnostic : diags.all()) {
      if (diagnostic.code == code) found.push_back(diagnostic);
    }
    return found;
  }
};

// `severities` carries --deny and --allow.
inline Advised advised(Manifest manifest, const std::string& text, Mesh mesh,
                       const ResolveOptions& resolving = {},
                       const Diagnostics& severities = {}) {
  RuleSet rules = read_rules(text);
  Diagnostics diags = severities.fresh();
  auto plan = resolve(manifest, rules, mesh, resolving, diags);
  if (!plan) bad_text("not resolved", text);
  Advised result{std::move(manifest), text, std::move(rules), std::move(mesh),
                 resolving,           {},   std::move(diags), *std::move(plan)};
  const auto memory = device_memory(result.manifest, result.plan, result.diags);
  if (!memory) bad_text("no memory", text);
  result.fullest = memory->max;
  const Folding folding = fold(result.plan.placement_of, [&](size_t i) {
    return result.manifest.name(i);
  });
  const size_t first = result.diags.all().size();
  lint(make_lint_input(result.manifest, result.plan, folding, &result.rules,
                       *memory, result.linting),
       kPlanSides, result.diags);
  result.work = advise({result.manifest, result.rules, result.plan, folding,
                        *memory, result.resolving, result.linting},
                       {first, result.diags.all().size()}, result.diags);
  return result;
}

// The same once the fix is made. Empty for one that is to be made by hand.
inline std::optional<Advised> made(const Advised& before,
                                   const Diagnostic& finding, const Fix& fix) {
  Manifest manifest;
  manifest.facts = before.manifest.facts;
  std::string text = before.text;
  std::vector<Axis> axes = before.mesh.axes();
  const std::vector<std::string>& names =
      fix.parameters.empty() ? finding.parameters : fix.parameters;
  const std::set<std::string> padded(names.begin(), names.end());
  for (size_t i = 0; i < before.manifest.size(); ++i) {
    TensorType type = before.manifest.type(i);
    const std::string name(before.manifest.name(i));
    if (fix.kind == FixKind::PadDimension && padded.count(name) == 1) {
      type.shape.at(static_cast<size_t>(fix.dim)) = fix.size;
    }
    if (!manifest.add(name, type, {})) bad_text("too large", name);
  }
  ResolveOptions resolving = before.resolving;
  if (fix.kind == FixKind::Declare &&
      !add_declaration(fix.declaration, resolving.declarations)) {
    bad_text("no declaration", fix.declaration);
  }
  if (fix.kind == FixKind::AxisSize) {
    for (Axis& axis : axes) {
      if (axis.name == fix.axis) axis.size = fix.size;
    }
  } else if (fix.kind == FixKind::RuleEdit) {
    if (fix.edits.empty()) return std::nullopt;
    text = edited(text, fix.edits);
  }
  return advised(std::move(manifest), text, Mesh(std::move(axes)), resolving,
                 before.diags);
}

// Whether two diagnostics are about the same: code, dimension, axis, and a
// parameter that both name; without parameters the rule's pattern.
inline bool is_same(const Diagnostic& a, const Plan& plan_a,
                    const Diagnostic& b, const Plan& plan_b) {
  if (a.code != b.code || a.subject.dim != b.subject.dim ||
      a.subject.axis != b.subject.axis) {
    return false;
  }
  if (!a.parameters.empty()) {
    const std::set<std::string> names(a.parameters.begin(), a.parameters.end());
    for (const std::string& name : b.parameters) {
      if (names.count(name) == 1) return true;
    }
    return false;
  }
  const auto pattern = [](const Diagnostic& d, const Plan& plan) {
    return d.subject.rule == 0
               ? std::string()
               : plan.rules.at(static_cast<size_t>(d.subject.rule) - 1).pattern;
  };
  return b.parameters.empty() && pattern(a, plan_a) == pattern(b, plan_b);
}

// What a fix promised and did not keep; empty when all is well.
inline std::string broken_promise(const Advised& before,
                                  const Diagnostic& finding, const Fix& fix) {
  const std::string what = code_id(finding.code) + ": " + fix.text + ": ";
  const std::optional<Advised> after = made(before, finding, fix);
  if (!after) return "";
  for (const Diagnostic& other : after->diags.all()) {
    if (is_same(finding, before.plan, other, after->plan)) {
      return what + "the finding stays: " + other.message;
    }
    if (other.severity != Severity::Error) continue;
    bool known = false;
    for (const Diagnostic& old : before.diags.all()) {
      known = known || is_same(other, after->plan, old, before.plan);
    }
    if (!known) return what + "a new error: " + other.message;
  }
  const int64_t bytes = after->fullest - before.fullest;
  if (bytes != fix.bytes_per_device) {
    return what + std::to_string(bytes) + " bytes instead of " +
           std::to_string(fix.bytes_per_device);
  }
  return "";
}

// All promises of all fixes; how many there were in `count`.
inline std::string broken_promises(const Advised& before, int& count) {
  std::string text;
  for (const Diagnostic& finding : before.diags.all()) {
    for (const Fix& fix : finding.fixes) {
      ++count;
      text += broken_promise(before, finding, fix);
    }
  }
  return text;
}

}  // namespace shardplan::testing
