// SPDX-License-Identifier: Apache-2.0
// Exporting: a plan, or the rules it was made with, as another tool reads it.
//
// One table of targets. A target with rules of its own writes the rules where
// they were given and can be said there; else it writes the resolved table, one
// entry per parameter. What it cannot say is SP014, never an approximation.
// Reading back what was written gives the same plan.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/diagnostic.h"
#include "core/manifest.h"
#include "core/plan.h"
#include "core/rules.h"

namespace shardplan {

struct ExportInput {
  const Manifest& manifest;
  const Plan& plan;
  const RuleSet* rules = nullptr;  // null for a saved plan
};

struct ExportTarget {
  std::string_view name;  // as --to takes it
  std::string_view summary;
  // The whole text. Empty, with every reason reported, when anything cannot be
  // said.
  std::optional<std::string> (*write)(const ExportInput&, Diagnostics&);
};
std::span<const ExportTarget> export_targets();

}  // namespace shardplan
