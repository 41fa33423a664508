// SPDX-License-Identifier: Apache-2.0
// Configuration classes of transformers: their defaults for keys that a
// config.json lacks, and the keys that change a model's tensors.
//
// tests/data/record_config_classes.py in rules/architectures recorded them from
// two versions of the library.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "syntax/document.h"

namespace shardplan {

class ConfigClass {
 public:
  // REQUIRES: `line` is a line of the recording.
  explicit ConfigClass(Document line) : line_(std::move(line)) {}

  // Returns "MistralConfig of transformers 5.23.0".
  std::string title() const;
  // Returns how the names of its model classes begin: "Mistral".
  std::string_view prefix() const;
  // Returns the class's default for a key. Returns empty if the default is null
  // or computed from other keys, or if the class has no such key. `older`: the
  // default in transformers 4.
  std::optional<Node> default_of(std::string_view key, bool older) const;
  // Returns whether the default for the key is null.
  bool is_null(std::string_view key, bool older) const;
  // Returns whether `value` is the default for the key in at least one of the
  // versions.
  bool is_default(std::string_view key, const Node& value) const;
  // Returns other names of a key; `older`: the names in transformers 4.
  std::vector<std::string> aliases(std::string_view key, bool older) const;
  // Returns whether the key changes names or shapes of tensors.
  bool changes_tensors(std::string_view key) const;

 private:
  std::optional<Node> member(std::string_view key) const;
  // Returns the recorded default of the key, which may be null.
  std::optional<Node> declared(std::string_view key, bool older) const;

  Document line_;
};

// Returns the class of a `model_type`; null if it was not recorded.
std::shared_ptr<const ConfigClass> find_config_class(
    std::string_view model_type);
// Returns, among the classes of these types, the one with the longest prefix
// that `class_name` begins with; if there is none, the class of the first type.
std::shared_ptr<const ConfigClass> find_config_class(
    std::span<const std::string> model_types, std::string_view class_name);

}  // namespace shardplan
