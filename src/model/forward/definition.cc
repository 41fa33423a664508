// SPDX-License-Identifier: Apache-2.0
#include "model/forward/definition.h"

#include <algorithm>

#include "model/forward/class_steps.h"

namespace shardplan {

Node ForwardDefinition::map() const {
  const Node root = config->root();
  return nested ? *root.find("text_config") : root;
}

Span ForwardDefinition::where() const {
  if (!has_config) return {};
  const Span place = config->root().span();
  return {place.file, place.begin, std::min(place.begin + 1, place.end)};
}

OpenValues::OpenValues(const ForwardDefinition& model, Diagnostics& diags)
    : reader(model.map(), model.nested ? "text_config." : "", diags),
      values(*model.architecture, reader, 0, model.place()) {
  for (const auto& [name, value] : model.known_values)
    values.set_value(name, value);
  for (const auto& [name, table] : model.known_tables) {
    values.set_value(name, table);
  }
}

std::optional<ConfigValue> model_value(const ForwardDefinition& model,
                                       std::string_view name) {
  Diagnostics quiet;
  OpenValues open(model, quiet);
  const ConfigValue* const found = open.values.find(name);
  if (found == nullptr) return std::nullopt;
  return *found;
}

std::optional<int64_t> model_size(const ForwardDefinition& model,
                                  std::string_view name) {
  const auto found = model_value(model, name);
  if (!found || found->kind != ConfigValue::Kind::Integer) return std::nullopt;
  return found->integer;
}

std::vector<int64_t> model_table(const ForwardDefinition& model,
                                 std::string_view name) {
  Diagnostics quiet;
  OpenValues open(model, quiet);
  std::string why;
  std::vector<int64_t> numbers;
  const auto* const table = open.values.find_table(name, why);
  for (size_t i = 0; table != nullptr && i < table->size(); ++i) {
    numbers.push_back((*table)[i].integer);
  }
  return numbers;
}

bool is_computed(const Architecture& architecture,
                 const ArchitectureClass& model_class) {
  return std::ranges::all_of(model_class.steps, [&](const ModuleStep& step) {
    return computed_block(architecture, step) != nullptr;
  });
}

}  // namespace shardplan
