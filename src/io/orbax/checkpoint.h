// SPDX-License-Identifier: Apache-2.0
// The files that Orbax writes next to the arrays of a checkpoint.
//
//   step/                        or the item itself
//     items/ | state/ | default/ | params/ | ..
//       _METADATA                names, and the shape of what one process wrote
//       _sharding                mesh and spec of each array
//       NAME/.zarray             shape and dtype, without OCDBT only
//
// `_METADATA` is JSON: {"tree_metadata": {"('params', 'w')": {"key_metadata":
// [{"key": "params", "key_type": 2}, ..], "value_metadata": {"value_type":
// "jax.Array", "skip_deserialize": false, "write_shape": [..]}}}, ..}.
// `_sharding` is JSON as well. It maps the base64 of a dotted name to a string
// that is again JSON: {"sharding_type": "NamedSharding", "shape": [..],
// "axis_names": [..], "partition_spec": [..], ..}. Source:
// github.com/google/orbax, checkpoint/orbax/checkpoint/_src/metadata, and the
// output of 0.12.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/host.h"
#include "base/source.h"
#include "core/types.h"
#include "io/spec_node.h"
#include "syntax/document.h"

namespace shardplan {

inline constexpr std::string_view kOrbaxMetadata = "_METADATA";
inline constexpr std::string_view kOrbaxSharding = "_sharding";

bool is_orbax_metadata(std::string_view head);
bool is_orbax_sharding(std::string_view head);

// A directory with `_METADATA`, and the choice that led to it: "read the newest
// of 3 steps ..: `run/300`; .."; empty if there was no choice.
struct OrbaxItem {
  std::string path;
  std::string remark;
};

// Finds `directory` itself, an item in it (`items`, `state`, `default` or
// `params` before others), or the item of the newest step of a
// CheckpointManager's root, which has folders `100`, `200` or `step_100`.
std::optional<OrbaxItem> find_orbax_item(const std::string& directory,
                                         Host& host);

// A leaf of the tree.
struct OrbaxLeaf {
  std::string name;    // the keys, joined with `/`
  std::string dotted;  // joined with `.`, as in files and `_sharding`
  Span where;
  std::string value_type;  // "jax.Array", "np.ndarray", "scalar", "string", ..
  bool empty = false;      // an empty container: nothing is stored
  std::optional<Shape> write_shape;
};

struct OrbaxTree {
  std::vector<OrbaxLeaf> leaves;  // in the file's order
  bool use_ocdbt = false;
};

// Returns the sizes; nullopt unless the node is a list of sizes.
std::optional<Shape> read_sizes(const Node& list);

// Both return nullopt, with what is malformed reported (SP002), on failure.
std::optional<OrbaxTree> read_orbax_metadata(const SourcePtr& file,
                                             Diagnostics& diags);
// Names are dotted. Shardings that are neither named nor for one device are
// left out with a warning.
std::optional<std::vector<RecordedSharding>> read_orbax_sharding(
    const SourcePtr& file, Diagnostics& diags);

}  // namespace shardplan
