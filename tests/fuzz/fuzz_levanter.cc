// SPDX-License-Identifier: Apache-2.0
// Levanter's trainer configs.
#include "tests/fuzz/fuzz_dialect.h"

FUZZ_TARGET(levanter) {
  return shardplan::fuzz::read_rules_as("levanter", data, size);
}
