// SPDX-License-Identifier: Apache-2.0
// Tables in Python source.
#include "tests/fuzz/fuzz_dialect.h"

FUZZ_TARGET(python) {
  return shardplan::fuzz::read_rules_as("python", data, size);
}
