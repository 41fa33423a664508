// SPDX-License-Identifier: Apache-2.0
// Lists of logical axis rules.
#include "tests/fuzz/fuzz_dialect.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return shardplan::fuzz::read_rules_as("flax", data, size);
}
