// SPDX-License-Identifier: Apache-2.0
// Architectures: those that are shipped (rules/architectures), and a user's.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "core/manifest.h"
#include "model/architecture/architecture.h"
#include "syntax/document.h"

namespace shardplan {

// An architecture, and which of its classes is meant.
struct ArchitectureChoice {
  std::shared_ptr<const Architecture> architecture;
  const ArchitectureClass* model_class =
      nullptr;  // of the architecture; null: none of its classes
  explicit operator bool() const { return architecture != nullptr; }
};

// The shipped architecture of a config: by `model_type`, without one by
// `architectures`. Empty when there is none. Reports nothing.
ArchitectureChoice choose_architecture(const Node& config);

// The same of a given architecture. Of a config whose type and classes no
// shipped architecture knows, the class with the same head: `FooForCausalLM` is
// read as `LlamaForCausalLM`.
ArchitectureChoice choose_class(
    std::shared_ptr<const Architecture> architecture, const Node& config);

// The part of this model that has its keys at the top of this config; null
// where none has.
const ConfigSection* flat_part(const ArchitectureChoice& whole,
                               const Node& config);

// Model types of shipped architectures, sorted.
std::vector<std::string> known_model_types();

// A shipped architecture by its name, which is its file's; null when there is
// none. It is read once. REQUIRES: shipped files have no mistakes.
std::shared_ptr<const Architecture> find_architecture(std::string_view name);
std::vector<std::string> architecture_names();
// Those that have a class of this name.
std::vector<std::string> architectures_with_class(std::string_view name);
// Those whose forward pass is known.
std::vector<std::string> computing_architectures();
// The same, first those that most others build on: of several with the same
// names the one that the others differ from is meant.
std::vector<std::string> computing_architectures_general_first();

// A user's own; null when something was reported. `find` finds those that it
// names.
std::shared_ptr<const Architecture> read_user_architecture(
    const SourcePtr& source, const FindArchitecture& find, Diagnostics& diags);

}  // namespace shardplan
