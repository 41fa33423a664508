// SPDX-License-Identifier: Apache-2.0
// ForwardDefinition: a model whose forward pass is known, and what its config
// and its tensors say of the names of its architecture.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "model/architecture/values.h"
#include "model/architectures.h"
#include "model/config_reader.h"
#include "syntax/document.h"

namespace shardplan {

// A model whose forward pass is known: its architecture and class, and what
// their names stand for in it.
struct ForwardDefinition : ArchitectureChoice {
  // Its config.json, and the map in it that says its sizes (`text_config`, or
  // all of it); without one, an empty map.
  std::shared_ptr<const Document> config;
  bool has_config = false;
  // Without a config, other architectures that have the same names.
  std::vector<std::string> also_matching;
  bool nested = false;
  // That map has the keys of the whole as well (ConfigValues::Place).
  bool flat = false;
  // Names whose values are known, whatever the config says: from shapes and
  // facts, or of a smaller model.
  std::map<std::string, ConfigValue, std::less<>> known_values;
  std::map<std::string, std::vector<ConfigValue>, std::less<>> known_tables;
  // Its sizes are smaller than those of the model that the config is of.
  bool is_small = false;

  ConfigValues::Place place() const {
    return flat ? ConfigValues::Place::Flat : ConfigValues::Place::Own;
  }
  Node map() const;
  Span where() const;  // of the config, for messages; null without one
};

// A model's values, with what they are read from.
struct OpenValues {
  ConfigReader reader;
  ConfigValues values;

  OpenValues(const ForwardDefinition& model, Diagnostics& diags);
};

// The value of a name of its architecture; empty where it has none.
std::optional<ConfigValue> model_value(const ForwardDefinition& model,
                                       std::string_view name);
std::optional<int64_t> model_size(const ForwardDefinition& model,
                                  std::string_view name);
// Of a table of integers, one per layer; nothing where there is none.
std::vector<int64_t> model_table(const ForwardDefinition& model,
                                 std::string_view name);

// Whether all that a class has is computed: blocks, one after another.
bool is_computed(const Architecture& architecture,
                 const ArchitectureClass& model_class);

}  // namespace shardplan
