// SPDX-License-Identifier: Apache-2.0
// The arguments of a StableHLO module in text form: names, types, shardings.
//
//   sdy.mesh @mesh = <["fsdp"=4, "tp"=2]>
//   func.func public @main(%arg0: tensor<8x16xf32>
//       {sdy.sharding = #sdy.sharding<@mesh, [{"fsdp"}, {}]>} loc("w"), ..)
//
// The arguments are those of `@main`, or of the only public function. The
// bodies of functions are not read. The scanner is linear in the length of the
// text.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/source.h"
#include "core/types.h"
#include "io/stablehlo/hlo_sharding.h"
#include "io/stablehlo/shardy.h"

namespace shardplan {

struct StableHloArgument {
  // The value of a name attribute (`jax.arg_info`, `mhlo.arg_name`), else the
  // location, else `arg0`.
  std::string name;
  Span where;
  TensorType type;
  std::optional<ShardySharding> sharding;
  std::optional<HloSharding> hlo_sharding;  // if `sharding` is absent
};

struct StableHloModule {
  std::vector<StableHloArgument> arguments;
  std::map<std::string, ShardyMesh, std::less<>> meshes;
  std::optional<int64_t> partitions;  // mhlo.num_partitions
};

bool looks_like_stablehlo(std::string_view head);

// Reports SP002, SP005 for unsupported element types, and SP014 for shardings
// that no spec expresses; several errors per run.
std::optional<StableHloModule> read_stablehlo(const SourceFile& source,
                                              Diagnostics& diags);

// Finds the mesh of all Shardy shardings. Without any, `mesh` is null and
// nothing is reported. A mesh without axes (JAX's `@empty_mesh`) replicates
// over the mesh of the others. Returns false, with SP002 reported for an
// unknown mesh or axis, and SP014 if there are several meshes, if none has
// axes, or if one names a single device.
bool find_mesh(const StableHloModule& module, const ShardyMesh*& mesh,
               Diagnostics& diags);

// Rewrites an argument's path as JAX writes it,
// `params['layers'][0]['kernel']`, to `params/layers/0/kernel`. Returns any
// other text unchanged.
std::string name_of_location(std::string_view text);

}  // namespace shardplan
