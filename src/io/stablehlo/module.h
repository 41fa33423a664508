// SPDX-License-Identifier: Apache-2.0
// The arguments of a StableHLO module in text form: names, types, shardings.
//
//   sdy.mesh @mesh = <["fsdp"=4, "tp"=2]>
//   func.func public @main(%arg0: tensor<8x16xf32>
//       {sdy.sharding = #sdy.sharding<@mesh, [{"fsdp"}, {}]>} loc("w"), ..)
//
// The arguments are those of `@main`, or of the only public function. Bodies of
// functions are not looked at. A scanner of our own, linear in the text.
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
#include "io/stablehlo/sharding.h"

namespace shardplan {

struct StableHloArgument {
  // From a name attribute (`jax.arg_info`, `mhlo.arg_name`), else its location,
  // else `arg0`.
  std::string name;
  Span where;
  TensorType type;
  std::optional<ShardySharding> sharding;
  std::optional<HloSharding> hlo_sharding;  // where there is no other
};

struct StableHloModule {
  std::vector<StableHloArgument> arguments;
  std::map<std::string, ShardyMesh, std::less<>> meshes;
  std::optional<int64_t> partitions;  // mhlo.num_partitions
};

bool looks_like_stablehlo(std::string_view head);

// Reports SP002, SP005 for element types that we do not have, SP014 for
// shardings that no spec says; several per run.
std::optional<StableHloModule> read_stablehlo(const SourceFile& source,
                                              Diagnostics& diags);

// The mesh of all shardy shardings: null, with nothing reported, when there are
// none. A mesh without axes (JAX's `@empty_mesh`) replicates over that of the
// others. Reports SP002 for an unknown mesh or axis and SP014 when there are
// several meshes, none with axes, or one of single devices; false then.
bool find_mesh(const StableHloModule& module, const ShardyMesh*& mesh,
               Diagnostics& diags);

// `params['layers'][0]['kernel']`, as JAX writes the path of an argument, as
// `params/layers/0/kernel`; anything else as it is.
std::string name_of_location(std::string_view text);

}  // namespace shardplan
