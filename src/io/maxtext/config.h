// SPDX-License-Identifier: Apache-2.0
// A MaxText config with the files that it names; see docs/formats/logical.md.
//
//   base_config: "base.yml"        what it inherits from, key by key
//   model_name: "llama2-7b"        models/llama2-7b.yml, which overrides it
//   custom_mesh_and_rule: "pure-fsdp"
//
// MaxText looks for these files in the folder of the config and in its own
// folder `configs`. This reader looks in the folder of the config and in all
// folders above it, and in a `configs` in each of them.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/host.h"
#include "core/rules.h"
#include "syntax/document.h"

namespace shardplan {

struct MaxtextConfig {
  // The file, followed by the files that it inherits from, nearest first.
  std::vector<Document> layers;
  std::optional<Document> model;   // from `model_name`
  std::optional<Document> custom;  // from `custom_mesh_and_rule`
  // A `base_config` that was not found.
  std::optional<Node> missing_base;
};

// Returns whether a line begins with the key, with or without a quote.
bool begins_line(std::string_view head, std::string_view key);

// Reads the config; without `files`, reads only `source`. Reports SP001 for a
// file that cannot be read, SP012 for a custom mesh that is not found, and a
// note for a model file that is not found.
std::optional<MaxtextConfig> read_maxtext_config(SourcePtr source, Host* files,
                                                 Diagnostics& diags);
std::vector<SourcePtr> sources_of(const MaxtextConfig& config);

// Returns the value of the key in the first layer that has it.
std::optional<Node> find_inherited(const MaxtextConfig& config,
                                   std::string_view key);
// Returns the value of the key in the file, if both exist.
std::optional<Node> find_in(const std::optional<Document>& file,
                            std::string_view key);
// Returns the `model_name`, if it names a model.
std::optional<Node> find_model_name(const MaxtextConfig& config);

// Returns the error for a config without mesh axes or rules that no other file
// precedes.
OverridesOther overridden_by(const MaxtextConfig& config);

// Sets the sizes of the axes of `rules.mesh` from `rules.sizes`; for each axis
// the last size wins. Without sizes, MaxText's default applies: fsdp gets all
// remaining devices. Reports SP007 for an axis that the mesh lacks. REQUIRES:
// there is a mesh.
bool place_sizes(RuleSet& rules, Diagnostics& diags);
// Drops a mesh if no file and no default gives its sizes. Called once all files
// are read.
void drop_unsized_mesh(RuleSet& rules);
// Derives the semantic axes of a forward pass from the rules for activations.
// Called once all files are read. Does nothing if no rule is for the batch,
// because such rules are incomplete.
void settle_activation_labels(RuleSet& rules);

}  // namespace shardplan
