// SPDX-License-Identifier: Apache-2.0
// MaxText's golden sharding dumps, as its tests keep them:
//
//   named_shardings.json     {".params/['params']/['w']":
//                              {"mesh": {"axis_names": [..], "shape": {..}},
//                               "partition_spec": [..], "shape": [..]}, ..}
//   logical_shardings.json   the same without the mesh, and with names of
//                            logical axes in the specs
//
// A key joins a JAX key path with `/`. Names here are its keys alone:
// `params/params/w`, which is also what MaxText's checkpoints call the array;
// the `.value` that Flax NNX puts last is left off. Facts:
// github.com/AI-Hypercomputer/maxtext, tests/utils/sharding_dump.py.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/source.h"
#include "core/types.h"
#include "io/spec_node.h"

namespace shardplan {

inline constexpr std::string_view kNamedShardings = "named_shardings.json";
inline constexpr std::string_view kLogicalShardings = "logical_shardings.json";

bool is_maxtext_dump(std::string_view head);

struct DumpEntry {
  RecordedSharding sharding;  // of a logical dump: no mesh, logical names
  std::optional<Shape> shape;
};

struct MaxtextDump {
  bool named = false;
  std::vector<DumpEntry> entries;  // in the file's order
};

// Reports what is malformed (SP002) and returns empty.
std::optional<MaxtextDump> read_maxtext_dump(const SourcePtr& file,
                                             Diagnostics& diags);

// ".params/['params']/['w']" -> "params/params/w". What is not a key path stays
// as it is.
std::string key_path_name(std::string_view path);

}  // namespace shardplan
