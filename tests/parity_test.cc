// SPDX-License-Identifier: Apache-2.0
// Keeps docs/parity.md complete: each class and function of the originals has
// one row, and the files that rows name are there.
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/source_dir.h"

namespace shardplan {
namespace {

// As the sources define them; nested ones behind their owner.
const std::map<std::string, std::string> kOriginals = {
    {"eformer: escale.partition.constraints",
     "names_in_current_mesh make_shard_and_gather_fns "
     "make_shard_and_gather_fns.make_shard_fn make_shard_fn._self_shard "
     "make_shard_fn.shard_fn make_shard_and_gather_fns.make_gather_fn "
     "make_gather_fn._self_gather make_gather_fn.gather_fn "
     "get_names_from_partition_spec with_sharding_constraint "
     "with_sharding_constraint._apply_sharding_to_array "
     "with_sharding_constraint.apply_to_leaf get_corrected_named_sharding "
     "match_partition_rules match_partition_rules.get_partition_spec "
     "analyze_sharding_strategy analyze_sharding_strategy.analyze_leaf "
     "create_pattern_based_partition_spec "
     "create_pattern_based_partition_spec.get_partition_spec "
     "extract_sharding_structure get_shardings_with_structure "
     "get_incontext_mesh get_axes_size_in_mesh get_mesh_axis_names "
     "get_mesh_axis_size get_submesh_device_index extract_shardings "
     "extract_shardings.cond get_partition_spec get_partition_spec._call"},
    {"eformer: escale.partition.manager",
     "hash_fn get_safe_hash_int PartitionAxis PartitionAxis.__post_init__ "
     "__post_init__.resolve_field __post_init__.get_resolved "
     "PartitionAxis._safety_check PartitionAxis.resolve_axis "
     "PartitionAxis.resolve_spec PartitionManager "
     "PartitionManager.__post_init__ PartitionManager.shard "
     "PartitionManager.resolve PartitionManager.__str__ "
     "PartitionManager.__repr__ apply_logical_sharding"},
    {"flax.linen.spmd",
     "_AxisRules set_logical_axis_rules get_logical_axis_rules "
     "logical_axis_rules _UnassignedAxis _UnassignedAxis.__repr__ "
     "_UnassignedAxis.__bool__ _mesh_assignment_free _logical_to_mesh_axes "
     "logical_to_mesh_axes logical_to_mesh logical_to_mesh_sharding "
     "_global_mesh_defined RulesFallback _with_sharding_constraint "
     "_with_sharding_constraint_one_fallback _is_logical_spec "
     "with_logical_constraint LogicallyPartitioned LogicallyPartitioned.unbox "
     "with_logical_partitioning with_logical_partitioning.wrapper"},
    {"EasyDeL: layers.linear",
     "get_sharding get_output_partition_spec get_matmul_output_sharding "
     "TensorParallelConfig TensorParallelConfig.__post_init__ ParallelLinear "
     "ParallelLinear.__init__ ParallelLinear._scale_operator "
     "ParallelLinear.collective_forward ParallelLinear.native_forward "
     "ParallelLinear.__call__ RowParallelLinear ColumnParallelLinear"},
    {"xlstm_jax: distributed.tensor_parallel",
     "ModelParallelismWrapper scale_init TPDense async_gather "
     "async_gather_bidirectional async_gather_split async_scatter "
     "async_scatter_split TPAsyncDense"},
};

std::vector<std::string> page_lines() {
  std::ifstream file(source_dir() / "docs/parity.md");
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// Names in the first column, by the title of their section.
std::map<std::string, std::vector<std::string>> rows_of_page() {
  std::map<std::string, std::vector<std::string>> rows;
  std::string title;
  for (const std::string& line : page_lines()) {
    if (line.starts_with("#")) title = line.substr(line.find(' ') + 1);
    if (line.starts_with("| `")) {
      rows[title].push_back(line.substr(3, line.find('`', 3) - 3));
    }
  }
  return rows;
}

TEST_CASE("every class and function of the originals has one row") {
  const auto rows = rows_of_page();
  for (const auto& original : kOriginals) {
    const std::string& title = original.first;
    CAPTURE(title);
    REQUIRE(rows.count(title) == 1);
    std::istringstream words(original.second);
    std::vector<std::string> expected;
    for (std::string word; words >> word;) expected.push_back(word);
    CHECK(rows.at(title) == expected);
  }
}

TEST_CASE("files that the page names are there") {
  int files = 0;
  for (const std::string& line : page_lines()) {
    for (size_t at = line.find('`'); at != std::string::npos;) {
      const size_t end = line.find('`', at + 1);
      if (end == std::string::npos) break;
      const std::string word = line.substr(at + 1, end - at - 1);
      at = line.find('`', end + 1);
      if (word.find(' ') != std::string::npos ||
          !(word.starts_with("src/") || word.starts_with("tests/"))) {
        continue;
      }
      CHECK_MESSAGE(std::filesystem::exists(source_dir() / word), word);
      ++files;
    }
  }
  CHECK(files > 30);
}

}  // namespace
}  // namespace shardplan
