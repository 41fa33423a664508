// SPDX-License-Identifier: Apache-2.0
// src/resolve/units_layers.cc
#include "tests/support/units.h"

namespace shardplan {
namespace {

using testing::check_units;
using testing::manifest;

TEST_CASE("every tensor of scanned layers has the stack among its dimensions") {
  const LayoutHints hints = layout_hints(
      manifest({{"model/layers/mlp/up_proj/kernel", "bf16[24, 64, 256]"},
                {"model/layers/mlp/down_proj/kernel", "bf16[24, 256, 64]"},
                {"model/layers/norm/scale", "bf16[24, 64]"},
                {"model/embed/embedding", "bf16[1000, 64]"}}));
  check_units(
      {{"model/layers/mlp/up_proj/kernel", "bf16[24, 64, 256]",
        "0: 24 stacked layer"},
       {"model/layers/norm/scale", "bf16[24, 64]", "0: 24 stacked layer"},
       {"model/embed/embedding", "bf16[1000, 64]", ""},
       // Another stack, and one layer by itself.
       {"other/layers/norm/scale", "bf16[24, 64]", ""},
       {"model/layers/0/norm/scale", "bf16[24, 64]", ""}},
      {}, hints);
}

TEST_CASE("MaxText stacks along the second dimension") {
  const LayoutHints hints = layout_hints(manifest(
      {{"decoder/layers/self_attention/query/kernel", "f32[64, 24, 8, 16]"},
       {"decoder/layers/mlp/wi_0/kernel", "f32[64, 24, 256]"},
       {"decoder/layers/mlp/wo/kernel", "f32[256, 24, 64]"},
       {"decoder/layers/pre_norm/scale", "f32[64, 24]"}}));
  check_units(
      {{"decoder/layers/mlp/wo/kernel", "f32[256, 24, 64]",
        "1: 24 stacked layer"},
       {"decoder/layers/pre_norm/scale", "f32[64, 24]", "1: 24 stacked layer"}},
      {}, hints);
}

}  // namespace
}  // namespace shardplan
