// SPDX-License-Identifier: Apache-2.0
// What every part of reading an architecture asks; for src/model/architecture
// alone.
#pragma once

#include <string_view>
#include <vector>

#include "model/architecture/architecture.h"

namespace shardplan {

// The modules that a step may be, with the keys of their dimensions in the
// order of ModuleStep::dims.
struct ModuleKind {
  std::string_view name;
  ModuleStep::Kind kind;
  std::vector<std::string_view> dims;
};
inline const std::vector<ModuleKind>& module_kinds() {
  static const std::vector<ModuleKind> kKinds = {
      {"linear", ModuleStep::Kind::Linear, {"to", "from"}},
      {"embedding", ModuleStep::Kind::Embedding, {"rows", "columns"}},
      {"rms_norm", ModuleStep::Kind::RmsNorm, {"size"}},
      {"layer_norm", ModuleStep::Kind::LayerNorm, {"size"}},
      {"parameter", ModuleStep::Kind::Parameter, {}},
      {"buffer", ModuleStep::Kind::Buffer, {}},
  };
  return kKinds;
}

// SP018 for every name in an expression that nothing gives a value, for blocks
// and sections that there are none of, and for arguments that a block does not
// take, whatever a config says.
void check_names(const Architecture& architecture, Diagnostics& diags);

}  // namespace shardplan
