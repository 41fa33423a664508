// SPDX-License-Identifier: Apache-2.0
// The rules of a model for which none are given.
#pragma once

#include <string>

#include "base/host.h"
#include "core/manifest.h"
#include "session/plan_request.h"

namespace shardplan {

// The shipped set that is written for the model's type, "@llama"; empty where
// no config says the type, or no set has it.
std::string fitting_set(const Manifest& manifest);

// The set that is used where no rules are given, and why.
struct DefaultSet {
  std::string name;  // "": there is none
  std::string why;
};

// The set for the model's type where it has a rule for all that follows from
// the config, else that for every architecture.
DefaultSet default_set(const Manifest& manifest, const PlanRequest& request,
                       Host& host);

}  // namespace shardplan
