// SPDX-License-Identifier: Apache-2.0
// DefaultSet: the rule set for a model when the request gives no rules.
#pragma once

#include <string>

#include "base/host.h"
#include "core/manifest.h"
#include "session/plan_request.h"

namespace shardplan {

// The set that places dimensions by architecture labels.
inline constexpr const char* kEveryModel = "@all_models";

// Returns the shipped set written for the model's type, "@llama"; "" if no
// config states the type, or if no set has its name.
std::string fitting_set(const Manifest& manifest);

// The set to use when no rules are given, and the models that it is for.
struct DefaultSet {
  std::string name;  // "": there is none
  std::string why;   // "model type `llama`"
};

// Returns the set for the model's type if it has a rule for every name that
// follows from the config, else the set for any architecture.
DefaultSet default_set(const Manifest& manifest, const PlanRequest& request,
                       Host& host);

}  // namespace shardplan
