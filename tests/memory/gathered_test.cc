// SPDX-License-Identifier: Apache-2.0
#include "memory/gathered.h"

#include <string>

#include <doctest/doctest.h>

#include "tests/support/builders.h"
#include "tests/support/placed.h"

namespace shardplan {
namespace {

int64_t gathered(const std::string& type, const std::string& spec,
                 const StateOptions& options = {}, int stacked_dim = -1) {
  const Mesh mesh = testing::mesh("fsdp=4,tp=2");
  const Placement placement = testing::placement(type, spec, mesh);
  const auto leaves =
      state_leaves(placement, mesh, OnIndivisible::Drop, options);
  return gathered_bytes(placement, leaves.front(), mesh, OnIndivisible::Drop,
                        options, stacked_dim);
}

TEST_CASE("a weight is gathered over the axes of the batch, not over others") {
  CHECK(gathered("bf16[8, 4]", "fsdp, tp") == 8 * 2 * 2);
  CHECK(gathered("bf16[8, 4]", "(tp, fsdp)") == 4 * 4 * 2);
  // Nothing to gather: it is used where it is.
  CHECK(gathered("bf16[8, 4]", "tp") == 0);
  CHECK(gathered("bf16[8, 4]", "") == 0);
}

TEST_CASE("gathered weights have the compute dtype") {
  StateOptions options;
  options.compute_dtype = DType::BF16;
  CHECK(gathered("f32[8, 4]", "fsdp", options) == 8 * 4 * 2);
  CHECK(gathered("i8[8, 4]", "fsdp", options) == 8 * 4);
}

TEST_CASE("ZeRO-3 gathers over its own axes too") {
  StateOptions options;
  options.zero = 3;
  options.zero_axes = {"tp"};
  CHECK(gathered("f32[8, 4]", "", options) == 8 * 4 * 4);
  CHECK(gathered("f32[7, 3]", "", options) == 0);  // could not be sharded
  options.zero_style = ZeroStyle::Fsdp2;
  CHECK(gathered("f32[7, 3]", "", options) == 7 * 3 * 4);
  options.zero = 2;
  CHECK(gathered("f32[8, 4]", "", options) == 0);
}

TEST_CASE("of stacked layers one is gathered") {
  CHECK(gathered("f32[6, 8, 4]", "None, fsdp, tp", {}, 0) == 8 * 2 * 4);
  CHECK(gathered("f32[8, 8, 4]", "fsdp", {}, 0) == 8 * 4 * 4);
  // MaxText stacks along the second dimension.
  CHECK(gathered("f32[8, 6, 4]", "fsdp, None, tp", {}, 1) == 8 * 2 * 4);
  CHECK(gathered("f32[8, 6]", "fsdp", {}, 1) == 8 * 4);
}

TEST_CASE("the largest units count, as many as live at once") {
  CHECK(largest_gathered({{10, 3}, {25, 1}}, 1) == 25);
  CHECK(largest_gathered({{10, 3}, {25, 1}}, 3) == 45);
  CHECK(largest_gathered({{10, 3}, {25, 1}}, 9) == 55);
  CHECK(largest_gathered({}, 2) == 0);
}

}  // namespace
}  // namespace shardplan
