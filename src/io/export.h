// SPDX-License-Identifier: Apache-2.0
// Exporting: a plan, or the rules it was made with, as another tool reads it.
//
// One table of targets. A target with rules of its own writes the rules where
// they were given and can be said there; else it writes the resolved table, one
// entry per parameter or per layer. What it cannot say is SP014, never an
// approximation. Reading back what was written, on the same mesh and without
// further flags, gives the same plan.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "core/manifest.h"
#include "core/plan.h"
#include "core/rules.h"

namespace shardplan {

struct ExportInput {
  const Manifest& manifest;
  const Plan& plan;
  // The rules, where they alone make the plan's specs under its
  // `on_indivisible`; null for a saved plan, and where flags had a part in it.
  const RuleSet* rules = nullptr;
  // Why there are none: "a saved plan has no rules". Empty when there are.
  std::string no_rules = {};
  // Parameters that no rule is found in are meant to be replicated.
  bool replicate_unmatched = false;
  // What the plan was made of, as the user named it, a line each:
  // "rules: rules.yaml".
  std::vector<std::string> origin = {};
};

struct ExportTarget {
  std::string_view name;  // as --to takes it
  std::string_view summary;
  // The whole text. Empty, with every reason reported, when anything cannot be
  // said.
  std::optional<std::string> (*write)(const ExportInput&, Diagnostics&);
};
std::span<const ExportTarget> export_targets();
const ExportTarget* find_export_target(std::string_view name);

}  // namespace shardplan
