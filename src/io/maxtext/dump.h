// SPDX-License-Identifier: Apache-2.0
// MaxText's golden sharding dumps, as its tests store them:
//
//   named_shardings.json     {".params/['params']/['w']":
//                              {"mesh": {"axis_names": [..], "shape": {..}},
//                               "partition_spec": [..], "shape": [..]}, ..}
//   logical_shardings.json   the same without the mesh, and with names of
//                            logical axes in the specs
//
// The names in a dump join a JAX key path with `/`. Here a name consists only
// of the keys: `params/params/w`, which is also the name of the array in
// MaxText's checkpoints. The final `.value` of Flax NNX is dropped. Source:
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
  RecordedSharding sharding;  // a logical dump has no mesh, and logical names
  std::optional<Shape> shape;
};

struct MaxtextDump {
  bool named = false;
  std::vector<DumpEntry> entries;  // in the file's order
};

// Returns nullopt, with what is malformed reported (SP002), on failure.
std::optional<MaxtextDump> read_maxtext_dump(const SourcePtr& file,
                                             Diagnostics& diags);

// Returns "params/params/w" for ".params/['params']/['w']". Text that is not a
// key path is returned unchanged.
std::string key_path_name(std::string_view path);

}  // namespace shardplan
