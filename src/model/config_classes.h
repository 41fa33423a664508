// SPDX-License-Identifier: Apache-2.0
// Configuration classes of transformers: what each takes for keys that a
// config.json does not have, and which keys change the tensors of a model.
//
// Recorded from the library, in two versions, by
// tests/data/record_config_classes.py in rules/architectures.
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
  // REQUIRES: a line of the recording.
  explicit ConfigClass(Document line) : line_(std::move(line)) {}

  // "MistralConfig of transformers 5.23.0"
  std::string title() const;
  // How names of its models begin: "Mistral".
  std::string_view prefix() const;
  // What the class takes where there is no such key. Empty where that is null,
  // follows from other keys, or the class has no such key. `older`: as
  // transformers 4 has it.
  std::optional<Node> default_of(std::string_view key, bool older) const;
  // Whether what it takes there is null.
  bool is_null(std::string_view key, bool older) const;
  // Whether the class, in one of the versions, takes that value where there is
  // no such key.
  bool is_default(std::string_view key, const Node& value) const;
  // Other names of a key; `older`: as transformers 4 has them.
  std::vector<std::string> aliases(std::string_view key, bool older) const;
  // Keys that change names or shapes of tensors.
  bool changes_tensors(std::string_view key) const;

 private:
  std::optional<Node> member(std::string_view key) const;
  // What is recorded of the key, null or not.
  std::optional<Node> declared(std::string_view key, bool older) const;

  Document line_;
};

// By `model_type`; null where it was not recorded.
std::shared_ptr<const ConfigClass> find_config_class(
    std::string_view model_type);
// Of these types that whose models have names like `class_name`, the longest
// beginning first; else that of the first type.
std::shared_ptr<const ConfigClass> find_config_class(
    std::span<const std::string> model_types, std::string_view class_name);

}  // namespace shardplan
