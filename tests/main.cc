// SPDX-License-Identifier: Apache-2.0
#define DOCTEST_CONFIG_IMPLEMENT
#include <cstdlib>

#include <doctest/doctest.h>

#include "tests/support/skip.h"

int main(int argc, char** argv) {
  // The same inputs in every run, unless others are asked for: what fails on
  // one machine fails on all. RapidCheck reads this when the first property
  // is checked.
  setenv("RC_PARAMS", "seed=1", /*overwrite=*/0);
  return shardplan::testing::exit_with_skips(
      doctest::Context(argc, argv).run());
}
