// SPDX-License-Identifier: Apache-2.0
// Lists of logical axis rules.
#include "tests/fuzz/fuzz_dialect.h"

FUZZ_TARGET(flax) { return shardplan::fuzz::read_rules_as("flax", data, size); }
