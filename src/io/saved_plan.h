// SPDX-License-Identifier: Apache-2.0
// Saved plans, as they are read and written (io/plan).
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
  Manifest manifest;  // names and types of the parameters that it places
  Plan plan;
};

std::optional<SavedPlan> read_plan(SourcePtr source, Diagnostics& diags);

// False when `write` failed.
bool write_plan(const Manifest& manifest, const Plan& plan,
                const std::function<bool(std::string_view)>& write);

// Whether a text looks like a saved plan; looks at its beginning only.
bool is_plan(std::string_view head);

}  // namespace shardplan
