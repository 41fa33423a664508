// SPDX-License-Identifier: Apache-2.0
// What one module of an architecture computes: linear layers, embeddings and
// norms.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"
#include "model/architecture/architecture.h"
#include "model/architecture/scope.h"
#include "model/forward/writer.h"

namespace shardplan {

// A module of a block, and what its expressions see.
struct FoundModule {
  const ModuleStep* step = nullptr;
  ValueScope scope;
};

// Through the switches that stand between; a block without a name has that of
// what it is. `good` becomes false where a condition has no value (SP009).
std::optional<FoundModule> find_module(const std::vector<ModuleStep>& steps,
                                       const ValueScope& scope,
                                       std::string_view name, bool& good);

// A module of those that are repeated: "norms.{h}.weight".
struct RepeatedModule {
  const ModuleStep* repeat = nullptr;
  const ModuleStep* module = nullptr;
};
std::optional<RepeatedModule> find_repeated(
    const std::vector<ModuleStep>& steps, std::string_view name);
// The weights of all `count` of them as one value, [count, ..]; "" where their
// shape has no value (SP009). `prefix` is before the names of the steps.
std::string write_repeated(ForwardWriter& out, const RepeatedModule& module,
                           const ValueScope& scope, const std::string& prefix,
                           int64_t count, std::string result);

// The first weight of the modules below `prefix`, where the checkpoint has that
// of none; "" where it has one, or there are no modules. A block that has no
// modules of its own has those of its first block.
std::string missing_weight(const ForwardWriter& out,
                           const Architecture& architecture,
                           const std::vector<ModuleStep>& steps,
                           const ValueScope& scope, const std::string& prefix,
                           int depth = 0);

struct ModuleUse {
  const ModuleStep& step;
  std::string name;  // of the convention: "layers.0.mlp.up_proj"
  std::string x;
  std::string result;
  ValueLabels axes;
  const ConfigValue* epsilon = nullptr;  // of a norm
};

// Why it cannot be computed, beside what is reported: an expression of the
// module has no value (SP009); "" where that is not so.
std::string write_module(ForwardWriter& out, const ValueScope& scope,
                         const ModuleUse& use);

// The shape of its weight; empty, and reported, where a dimension has no value.
std::optional<Shape> module_shape(const ModuleStep& step,
                                  const ValueScope& scope);

}  // namespace shardplan
