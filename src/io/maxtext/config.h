// SPDX-License-Identifier: Apache-2.0
// A MaxText config with the files that it names; docs/formats/logical.md.
//
//   base_config: "base.yml"        what it inherits from, key by key
//   model_name: "llama2-7b"        models/llama2-7b.yml, which overrides it
//   custom_mesh_and_rule: "pure-fsdp"
//
// MaxText looks for them beside the file and in a folder of its own, `configs`.
// Here they are looked for beside the file and in the folders above it, also in
// a `configs` there.
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
  // The file, then what it inherits from, the nearest first.
  std::vector<Document> layers;
  std::optional<Document> model;   // of `model_name`
  std::optional<Document> custom;  // of `custom_mesh_and_rule`
  // A `base_config` that was not found.
  std::optional<Node> missing_base;
};

// Whether some line begins with the key, in quotes or not.
bool begins_line(std::string_view head, std::string_view key);

// Without `files` nothing but the source is read. SP001 for a file that cannot
// be read, SP012 for a custom mesh that is not found, a note for a model's.
std::optional<MaxtextConfig> read_maxtext_config(SourcePtr source, Host* files,
                                                 Diagnostics& diags);
std::vector<SourcePtr> sources_of(const MaxtextConfig& config);

// The key in the first layer that has it, in the model's file, in the custom
// mesh's; empty where there is no such file.
std::optional<Node> find_inherited(const MaxtextConfig& config,
                                   std::string_view key);
std::optional<Node> find_of_model(const MaxtextConfig& config,
                                  std::string_view key);
std::optional<Node> find_custom(const MaxtextConfig& config,
                                std::string_view key);

// What a config without mesh axes or rules says of itself where no file comes
// before it.
OverridesOther overridden_by(const MaxtextConfig& config);

// Gives the axes of `rules.mesh` the last of these sizes. Where there is none,
// MaxText's default is taken: fsdp has what is left. SP007 for an axis that the
// mesh lacks.
bool place_sizes(const std::vector<AxisSize>& sizes, RuleSet& rules,
                 Diagnostics& diags);
// Of all files together: a mesh whose sizes neither a file nor a default says
// is none.
void drop_unsized_mesh(RuleSet& rules);
// The same: what the semantic axes of a forward pass mean, by the rules for
// activations. Nothing where these have none for the batch: they are a part of
// a config's.
void settle_activation_labels(RuleSet& rules);

}  // namespace shardplan
