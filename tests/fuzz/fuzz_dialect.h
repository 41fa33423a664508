// SPDX-License-Identifier: Apache-2.0
// Rules of one dialect: a refusal has a reason, and what is read can be
// resolved.
#pragma once

#include <string>

#include "core/manifest.h"
#include "io/load.h"
#include "resolve/resolve.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/memory_host.h"

namespace shardplan::fuzz {

inline Manifest labelled_model() {
  Manifest manifest;
  manifest.add("h/0/mlp/kernel", {DType::F32, {8, 12}}, {});
  manifest.set_axes(0, {"embed", "mlp"});
  manifest.add("wte/embedding", {DType::F32, {16, 8}}, {});
  manifest.set_axes(1, {"vocab", std::nullopt});
  manifest.add("step", {DType::I32, {}}, {});
  return manifest;
}

// Nothing lost: every parameter has a placement, of its own rank or `[]`.
inline void resolve_and_check(const RuleSet& rules) {
  const Manifest manifest = labelled_model();
  const Mesh mesh({{"fsdp", 2}, {"tp", 2}});
  Diagnostics diags;
  const auto plan = resolve(manifest, rules, mesh, {}, diags);
  require(plan.has_value() || diags.has_errors(), "a refusal has a reason");
  if (!plan) return;
  require(plan->placement_of.size() == manifest.size(), "all are placed");
  for (size_t i = 0; i < manifest.size(); ++i) {
    const Placement& placement = plan->of(i);
    require(placement.spec.dims.empty() ||
                placement.spec.dims.size() == placement.type.shape.size(),
            "a spec has the rank, or is empty");
  }
}

inline int read_rules_as(const char* dialect, const uint8_t* data,
                         size_t size) {
  testing::MemoryHost host;
  host.files["rules"] = std::string(text_of(data, size));
  Diagnostics diags;
  const std::string paths[] = {"rules"};
  const auto rules = load_rules(paths, dialect, {}, host, diags);
  require(rules.has_value() || diags.has_errors(), "a refusal has a reason");
  if (rules) resolve_and_check(*rules);
  return 0;
}

}  // namespace shardplan::fuzz
