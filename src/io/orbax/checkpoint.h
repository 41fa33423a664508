// SPDX-License-Identifier: Apache-2.0
// What Orbax writes beside the arrays of a checkpoint.
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
// `_sharding` is JSON too, from base64 of the dotted name to JSON in a text:
// {"sharding_type": "NamedSharding", "shape": [..], "axis_names": [..],
// "partition_spec": [..], ..}. Facts: github.com/google/orbax,
// checkpoint/orbax/checkpoint/_src/metadata, and what 0.12 writes.
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

namespace shardplan {

inline constexpr std::string_view kOrbaxMetadata = "_METADATA";
inline constexpr std::string_view kOrbaxSharding = "_sharding";

bool is_orbax_metadata(std::string_view head);
bool is_orbax_sharding(std::string_view head);

// A directory with `_METADATA`, and what was chosen to come to it: "the newest
// of 3 steps is read, `run/300`; .."; empty where there was no choice.
struct OrbaxItem {
  std::string path;
  std::string remark;
};

// `directory` itself, an item in it (of several `items`, `state`, `default` or
// `params` before others), or that of the newest step of a CheckpointManager's
// root, which has folders `100`, `200` or `step_100`.
std::optional<OrbaxItem> find_orbax_item(const std::string& directory,
                                         Host& host);

// A leaf of the tree.
struct OrbaxLeaf {
  std::string name;    // its keys, joined with `/`
  std::string dotted;  // joined with `.`, as files and `_sharding` have it
  Span where;
  std::string value_type;  // "jax.Array", "np.ndarray", "scalar", "string", ..
  bool empty = false;      // an empty container: nothing is stored
  std::optional<Shape> write_shape;
};

struct OrbaxTree {
  std::vector<OrbaxLeaf> leaves;  // in the file's order
  bool use_ocdbt = false;
};

// Each reports what is malformed (SP002) and returns empty.
std::optional<OrbaxTree> read_orbax_metadata(const SourcePtr& file,
                                             Diagnostics& diags);
// Names are dotted. Shardings other than named ones and those of one device
// are left out with a warning.
std::optional<std::vector<RecordedSharding>> read_orbax_sharding(
    const SourcePtr& file, Diagnostics& diags);

}  // namespace shardplan
