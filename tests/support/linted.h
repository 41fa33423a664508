// SPDX-License-Identifier: Apache-2.0
// Resolves and lints in one call, for the tests of each lint:
//
//   linted({{"w", "f32[6]"}}, {{"w", "tp"}}, "tp=4").find(Code::...)
#pragma once

#include <string>
#include <vector>

#include "findings/findings.h"
#include "resolve/resolve.h"
#include "tests/support/builders.h"

namespace shardplan::testing {

struct Linted {
  RuleSet rules;  // keeps the places of the diagnostics alive
  Diagnostics diags;

  // The diagnostics with that code, in order.
  std::vector<Diagnostic> find(Code code) const {
    std::vector<Diagnostic> found;
    for (const Diagnostic& diagnostic : diags.all()) {
      if (diagnostic.code == code) found.push_back(diagnostic);
    }
    return found;
  }
};

inline Linted lint_of(const Manifest& manifest, RuleSet rules,
                      const Mesh& on_mesh, const ResolveOptions& resolving = {},
                      const LintOptions& options = {}, Diagnostics diags = {}) {
  Linted result{std::move(rules), std::move(diags)};
  mark_inactive_views(result.rules, on_mesh);
  const auto plan =
      resolve(manifest, result.rules, on_mesh, resolving, result.diags);
  if (!plan) bad_text("not resolved", mesh_text(on_mesh));
  const auto memory = device_memory(manifest, *plan, result.diags);
  if (!memory) bad_text("no memory", mesh_text(on_mesh));
  const Folding folding =
      fold(plan->placement_of, [&](size_t i) { return manifest.name(i); });
  lint(make_lint_input(manifest, *plan, folding, &result.rules, *memory,
                       options),
       kPlanSides, result.diags);
  return result;
}

inline Linted lint_of(const Manifest& manifest, RuleSet rules,
                      const std::string& mesh_as_text,
                      const ResolveOptions& resolving = {},
                      const LintOptions& options = {}, Diagnostics diags = {}) {
  return lint_of(manifest, std::move(rules), mesh(mesh_as_text), resolving,
                 options, std::move(diags));
}

}  // namespace shardplan::testing
