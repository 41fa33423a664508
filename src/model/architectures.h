// SPDX-License-Identifier: Apache-2.0
// Finds architectures: those that are shipped (rules/architectures), and a
// user's own.
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

// An architecture, and the class of it that a config selects.
struct ArchitectureChoice {
  std::shared_ptr<const Architecture> architecture;
  const ArchitectureClass* model_class =
      nullptr;  // of the architecture; null: no class matches
  explicit operator bool() const { return architecture != nullptr; }
};

// Returns the shipped architecture of a config: by `model_type` or, if the
// config has none, by `architectures`. Returns empty if there is none. Reports
// nothing.
ArchitectureChoice choose_architecture(const Node& config);

// Returns the given architecture with the class that the config names. If no
// shipped architecture knows the config's type and classes, the class with the
// same head is used: `FooForCausalLM` is read as `LlamaForCausalLM`.
ArchitectureChoice choose_class(
    std::shared_ptr<const Architecture> architecture, const Node& config);

// Returns the classes that a config names, in order.
std::vector<std::string_view> named_classes(const Node& config);

// Returns the part of this model whose keys are at the top level of this
// config; null if no part's are.
const ConfigSection* flat_part(const ArchitectureChoice& whole,
                               const Node& config);

// Returns the model types of shipped architectures, sorted.
std::vector<std::string> known_model_types();

// Returns the shipped architecture of that name, which is its file's name; null
// if there is none. Each file is read only once. A mistake in a shipped file
// throws InternalError.
std::shared_ptr<const Architecture> find_architecture(std::string_view name);
std::vector<std::string> architecture_names();
// Returns the architectures that have a class of this name.
std::vector<std::string> architectures_with_class(std::string_view name);
// Returns the architectures whose forward pass is known.
std::vector<std::string> computing_architectures();
// Returns the same, ordered by how many others build on them: if several have
// the same parameter names, the one that others are derived from is meant.
std::vector<std::string> computing_architectures_general_first();

// Reads a user's own architecture; `find` finds the architectures that it
// names. Returns null, with the reason reported, on failure.
std::shared_ptr<const Architecture> read_user_architecture(
    const SourcePtr& source, const FindArchitecture& find, Diagnostics& diags);

}  // namespace shardplan
