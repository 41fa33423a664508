// SPDX-License-Identifier: Apache-2.0
#include "io/train_state.h"

#include <doctest/doctest.h>

namespace shardplan {
namespace {

TEST_CASE("the names of a training state say what is a parameter") {
  for (const char* name :
       {"params/params/decoder/w", "params.w", "model/decoder/scale", "w",
        "stepper/w", "decoder/optimizer/w", "", "a//b"}) {
    CAPTURE(name);
    CHECK(state_part(name) == StatePart::Parameter);
  }
  for (const char* name : {"opt_state/0/mu/params/w", "opt_state.0.count",
                           "optimizer/opt_state/0/nu/w"}) {
    CAPTURE(name);
    CHECK(state_part(name) == StatePart::Optimizer);
  }
  for (const char* name :
       {"step", "rng", "model/decoder/rngs/params/key", "a.rngs"}) {
    CAPTURE(name);
    CHECK(state_part(name) == StatePart::Counter);
  }
}

}  // namespace
}  // namespace shardplan
