// SPDX-License-Identifier: Apache-2.0
#include "resolve/group.h"

#include <doctest/doctest.h>

#include "resolve/resolve.h"
#include "tests/support/builders.h"

namespace shardplan {
namespace {

TEST_CASE("a module is the path before the first number, two parts at most") {
  CHECK(module_of("model.layers.*.mlp.w") == "model.layers");
  CHECK(module_of("h/*/w") == "h");
  CHECK(module_of("lm_head.weight") == "lm_head");
  CHECK(module_of("a/b/c/d") == "a/b");
  CHECK(module_of("w") == "w");
  CHECK(module_of("*/w") == "*/w");
}

TEST_CASE("groups sum tensors, elements and bytes") {
  const Manifest manifest = testing::manifest(
      {{"h/0/w", "bf16[4, 4]"}, {"h/1/w", "bf16[4, 4]"}, {"head/w", "f32[4]"}});
  Diagnostics diags;
  const RuleSet rules = testing::rules({{"none", ""}, {"h/", "tp"}});
  const auto plan = resolve(manifest, rules, testing::mesh("tp=2"), {}, diags);
  REQUIRE(plan.has_value());
  const Folding folding =
      fold(plan->placement_of, [&](size_t i) { return manifest.name(i); });
  const auto dtypes = by_dtype(*plan, folding);
  REQUIRE(dtypes.size() == 2);
  CHECK(dtypes[0].name == "bf16");
  CHECK(dtypes[0].tensors == 2);
  CHECK(dtypes[0].elements == 32);
  CHECK(dtypes[0].bytes == 64);
  CHECK(dtypes[0].bytes_per_device == 32);
  const auto modules = by_module(*plan, folding);
  REQUIRE(modules.size() == 2);
  CHECK(modules[1].name == "head");
  const auto by = by_rule(*plan, folding);
  REQUIRE(by.size() == 2);
  CHECK(by[0].name == "2");
  CHECK(by[1].name == "none");
  CHECK(by[1].bytes == 16);
}

}  // namespace
}  // namespace shardplan
