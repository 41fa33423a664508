// SPDX-License-Identifier: Apache-2.0
// MaxText's configs.
#include "tests/fuzz/fuzz_dialect.h"

FUZZ_TARGET(maxtext) {
  return shardplan::fuzz::read_rules_as("maxtext", data, size);
}
