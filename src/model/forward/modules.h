// SPDX-License-Identifier: Apache-2.0
// The modules of an architecture in a forward pass: linear layers, embeddings
// and norms.
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

// A module of a block, with the scope of its expressions.
struct FoundModule {
  const ModuleStep* step = nullptr;
  ValueScope scope;
};

// Finds a module by its name, also within switches. A block step without a name
// has the name of its block. Sets `good` to false if a condition has no value
// (SP009).
std::optional<FoundModule> find_module(const std::vector<ModuleStep>& steps,
                                       const ValueScope& scope,
                                       std::string_view name, bool& good);

// Returns the name of a module's weight in the convention, from the module's
// own name: "layers.0.mlp.up_proj.weight".
std::string weight_name(const ModuleStep& step, std::string_view module);

// A module within a repetition: "norms.{h}.weight".
struct RepeatedModule {
  const ModuleStep* repeat = nullptr;
  const ModuleStep* module = nullptr;
};
std::optional<RepeatedModule> find_repeated(
    const std::vector<ModuleStep>& steps, std::string_view name);
// Returns the weights of all `count` repetitions as one value, [count, ..]; ""
// if their shape has no value (SP009). `prefix` precedes the names of the
// steps.
std::string write_repeated(ForwardWriter& out, const RepeatedModule& module,
                           const ValueScope& scope, const std::string& prefix,
                           int64_t count, std::string result);

// Returns the first weight of the modules below `prefix` if the checkpoint has
// none of their weights. Returns "" if it has one or there are no modules. The
// weights of a block that contains only blocks are those of its first one.
std::string missing_weight(const ForwardWriter& out,
                           const Architecture& architecture,
                           const std::vector<ModuleStep>& steps,
                           const ValueScope& scope, const std::string& prefix,
                           int depth = 0);

struct ModuleUse {
  const ModuleStep& step;
  std::string name;  // in the convention: "layers.0.mlp.up_proj"
  std::string x;
  std::string result;
  ValueLabels axes;
  const ConfigValue* epsilon = nullptr;  // for a norm
};

// Writes the computation of a module. Returns why it is impossible, or "". If
// an expression of the module has no value, that has also been reported
// (SP009).
std::string write_module(ForwardWriter& out, const ValueScope& scope,
                         const ModuleUse& use);

// Returns the shape of a module's weight; nothing, with the reason reported, if
// a dimension has no value.
std::optional<Shape> module_shape(const ModuleStep& step,
                                  const ValueScope& scope);

}  // namespace shardplan
