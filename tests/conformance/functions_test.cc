// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "conformance/vector_case.h"

namespace shardplan::conformance {
namespace {

TEST_CASE("every function is there once, with an answer and kinds of errors") {
  std::set<std::string> names;
  for (const Function& function : functions()) {
    CAPTURE(function.name);
    CHECK(names.insert(std::string(function.name)).second);
    const bool is_whole =
        function.answer != nullptr && function.same_kind != nullptr;
    CHECK(is_whole);
  }
  for (const char* name :
       {"match_partition_rules", "flax.logical_to_mesh_axes",
        "PartitionManager.resolve", "create_pattern_based_partition_spec",
        "get_matmul_output_sharding", "auto_partition_spec", "create_mesh",
        "get_safe_hash_int", "async_scatter_split", "split_array_over_mesh"}) {
    CHECK_MESSAGE(names.count(name) == 1, name);
  }
}

TEST_CASE("every deviation is of a function that is there") {
  for (const Deviation& deviation : deviations()) {
    bool found = false;
    for (const Function& function : functions()) {
      found = found || function.name == deviation.function;
    }
    CHECK_MESSAGE(found, deviation.function);
  }
}

}  // namespace
}  // namespace shardplan::conformance
