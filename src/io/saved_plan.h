// SPDX-License-Identifier: Apache-2.0
// A saved plan, and the functions that read and write one (io/plan).
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "base/diagnostic.h"
#include "base/source.h"
#include "core/manifest.h"
#include "core/plan.h"

namespace shardplan {

struct SavedPlan {
  Manifest manifest;  // names and types of the parameters that the plan places
  Plan plan;
};

std::optional<SavedPlan> read_plan(SourcePtr source, Diagnostics& diags);

// Returns false when `write` failed.
bool write_plan(const Manifest& manifest, const Plan& plan,
                const std::function<bool(std::string_view)>& write);

// Returns whether a text looks like a saved plan, judging by its beginning.
bool is_plan(std::string_view head);

}  // namespace shardplan
