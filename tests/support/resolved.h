// SPDX-License-Identifier: Apache-2.0
// Models of tests/data resolved as the program does it, for comparing the plan
// with recordings of other programs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/real_host.h"
#include "core/manifest.h"
#include "core/plan.h"
#include "io/load.h"
#include "resolve/resolve.h"
#include "tests/support/builders.h"
#include "tests/support/hf_config.h"
#include "tests/support/json_axes.h"

namespace shardplan::testing {

// ["tp", ["fsdp", "sp"], null]
inline PartitionSpec spec_of(const nlohmann::json& entries) {
  PartitionSpec spec;
  for (const nlohmann::json& entry : entries) {
    AxisNames& axes = spec.dims.emplace_back();
    if (entry.is_string()) axes = {entry.get<std::string>()};
    if (entry.is_array()) axes = entry.get<AxisNames>();
  }
  return spec;
}

struct Resolved {
  Manifest manifest;
  Plan plan;
};

// `model` and rules (unless "@NAME") are paths below tests/data.
inline Resolved resolve_sample(const std::string& model,
                               const std::string& rules,
                               const std::string& mesh) {
  const auto host = make_real_host();
  Diagnostics diags;
  auto manifest = load_manifest(data_path(model).string(), *host, diags);
  REQUIRE_MESSAGE(manifest, model);
  const std::vector<std::string> paths = {
      rules.starts_with('@') ? rules : data_path(rules).string()};
  const auto set = load_rules(paths, std::nullopt, {}, *host, diags);
  REQUIRE_MESSAGE(set, rules);
  auto plan = resolve(*manifest, *set, testing::mesh(mesh), {}, diags);
  REQUIRE(plan);
  return {std::move(*manifest), std::move(*plan)};
}

}  // namespace shardplan::testing
