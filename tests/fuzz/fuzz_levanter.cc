// SPDX-License-Identifier: Apache-2.0
// Levanter's trainer configs.
#include "tests/fuzz/fuzz_dialect.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return shardplan::fuzz::read_rules_as("levanter", data, size);
}
