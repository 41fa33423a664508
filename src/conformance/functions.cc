// SPDX-License-Identifier: Apache-2.0
// The table of functions under test.
#include "conformance/vector_case.h"

namespace shardplan::conformance {

std::span<const Function> functions() {
  static const std::vector<Function> kAll = [] {
    std::vector<Function> all = {
        {"match_partition_rules", match_partition_rules, is_same_match_error},
        {"get_corrected_named_sharding", get_corrected_named_sharding,
         is_same_correction_error},
        {"with_sharding_constraint", with_sharding_constraint,
         is_same_correction_error},
        {"shard_layout", shard_layout, is_same_layout_error},
    };
    for (const auto* rows :
         {&auto_spec_functions(), &logical_axes_functions(),
          &matmul_functions(), &mesh_functions(), &parallel_linear_functions(),
          &partition_axis_functions(), &pattern_functions(),
          &random_functions(), &ring_functions(), &tp_dense_functions()}) {
      all.insert(all.end(), rows->begin(), rows->end());
    }
    return all;
  }();
  return kAll;
}

}  // namespace shardplan::conformance
