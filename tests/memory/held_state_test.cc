// SPDX-License-Identifier: Apache-2.0
#include "memory/held_state.h"

#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/placed.h"

namespace shardplan {
namespace {

// Bytes by role on the first device, with all parameters on it.
std::map<std::string, int64_t> held_bytes(const Manifest& manifest,
                                          const Plan& plan,
                                          const StateOptions& options) {
  const HeldState held = hold_state(plan, options, nullptr);
  std::vector<int64_t> counts(plan.placements.size());
  for (size_t i = 0; i < manifest.size(); ++i) ++counts[plan.placement_of[i]];
  std::map<std::string, int64_t> bytes;
  visit_held(held, plan.mesh, options, counts,
             std::vector<int64_t>(plan.mesh.axes().size()),
             [&](size_t sum, StateKind, Int128 size) {
               bytes[std::string(held.sums[sum].role)] +=
                   static_cast<int64_t>(size);
             });
  return bytes;
}

StateOptions zero1(ZeroStyle style, Optimizer optimizer = Optimizer::Lion) {
  StateOptions options;
  options.optimizer = optimizer;
  options.zero = 1;
  options.zero_axes = {"dp"};
  options.zero_style = style;
  return options;
}

TEST_CASE("deepspeed pads one buffer per dtype of weights") {
  const Manifest manifest =
      testing::manifest({{"a", "bf16[5]"}, {"b", "bf16[6]"}, {"c", "f32[3]"}});
  const Plan plan =
      testing::placed(manifest, testing::rules({{".", ""}}), "dp=4");
  const auto bytes = held_bytes(manifest, plan, zero1(ZeroStyle::DeepSpeed));
  // 11 and 3 elements, padded to multiples of 8.
  CHECK(bytes.at("param") == 16 * 2 + 8 * 4);
  CHECK(bytes.at("grad") == 11 * 2 + 3 * 4);
  CHECK(bytes.at("master") == 16 / 4 * 4);
  CHECK(bytes.at("mu") == 16 / 4 * 4 + 8 / 4 * 4);
}

TEST_CASE("megatron begins parameters at multiples of 64 elements") {
  const Manifest manifest =
      testing::manifest({{"a", "bf16[65]"}, {"b", "bf16[100]"}});
  const Plan plan =
      testing::placed(manifest, testing::rules({{".", ""}}), "dp=4");
  const auto bytes = held_bytes(manifest, plan, zero1(ZeroStyle::Megatron));
  CHECK(bytes.at("param") == 256 * 2);
  CHECK(bytes.at("grad") == 256 * 2);
  CHECK(bytes.at("mu") == 256 / 4 * 4);
}

TEST_CASE("weights that use an axis have a buffer of their own") {
  const Manifest manifest =
      testing::manifest({{"dense", "f32[3]"}, {"experts", "f32[8]"}});
  const Plan plan = testing::placed(
      manifest, testing::rules({{"experts", "dp"}, {"dense", ""}}), "dp=4");
  const auto bytes = held_bytes(manifest, plan, zero1(ZeroStyle::DeepSpeed));
  // 3 elements padded to 8 over 4 ranks; 2 local ones over one rank.
  CHECK(bytes.at("mu") == (2 + 2) * 4);
}

TEST_CASE("muon's matrices and other weights are apart") {
  const Manifest manifest =
      testing::manifest({{"w", "f32[3, 3]"}, {"b", "f32[3]"}});
  const Plan plan =
      testing::placed(manifest, testing::rules({{".", ""}}), "dp=4");
  const auto bytes =
      held_bytes(manifest, plan, zero1(ZeroStyle::DeepSpeed, Optimizer::Muon));
  CHECK(bytes.at("mu") == (16 + 8) / 4 * 4);
  CHECK(bytes.at("nu") == 8 / 4 * 4);
}

}  // namespace
}  // namespace shardplan
