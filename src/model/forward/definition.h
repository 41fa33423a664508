// SPDX-License-Identifier: Apache-2.0
// ForwardDefinition: a model whose forward pass is known: its architecture and
// class, and the values that its config and tensors give to the architecture's
// names.
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

struct ForwardDefinition : ArchitectureChoice {
  // The config.json; an empty map if there is none. map() is the part of it
  // that contains the sizes: `text_config` if `nested`, else all of it.
  std::shared_ptr<const Document> config;
  bool has_config = false;
  // Without a config: other architectures that have the same names.
  std::vector<std::string> also_matching;
  bool nested = false;
  // map() also has the keys of the whole config (ConfigValues::Place).
  bool flat = false;
  // Values that apply whatever the config says: from shapes and facts, or of a
  // smaller model.
  std::map<std::string, ConfigValue, std::less<>> known_values;
  std::map<std::string, std::vector<ConfigValue>, std::less<>> known_tables;
  // The sizes are smaller than those of the config's model.
  bool is_small = false;

  ConfigValues::Place place() const {
    return flat ? ConfigValues::Place::Flat : ConfigValues::Place::Own;
  }
  Node map() const;
  Span where() const;  // the config, for messages; null if there is none
};

// The values of a model, with the reader that they use.
struct OpenValues {
  ConfigReader reader;
  ConfigValues values;

  OpenValues(const ForwardDefinition& model, Diagnostics& diags);
};

// Returns the value of a name of the model's architecture, if it has one.
std::optional<ConfigValue> model_value(const ForwardDefinition& model,
                                       std::string_view name);
std::optional<int64_t> model_size(const ForwardDefinition& model,
                                  std::string_view name);
// Returns a table of integers, one per layer; empty if there is none.
std::vector<int64_t> model_table(const ForwardDefinition& model,
                                 std::string_view name);

// Returns whether all steps of a class are blocks with a forward pass.
bool is_computed(const Architecture& architecture,
                 const ArchitectureClass& model_class);

}  // namespace shardplan
