// SPDX-License-Identifier: Apache-2.0
#include "model/architecture/values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "model/architecture/quantisation.h"

namespace shardplan {
namespace {

using RuleKind = ValueRule::Kind;

// The kinds of values, in the order of ValueRule::Kind. The items of a table
// may be of other kinds.
constexpr ConfigValue::Kind kWantedKinds[] = {
    ConfigValue::Kind::Integer,  ConfigValue::Kind::Flag,
    ConfigValue::Kind::Real,     ConfigValue::Kind::Text,
    ConfigValue::Kind::Integers, ConfigValue::Kind::Integer,
};

// Returns the integers in a text such as "3,4,5"; nothing if it is not such a
// list.
std::optional<std::vector<int64_t>> integers_of(std::string_view text) {
  std::vector<int64_t> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    int64_t number = 0;
    while (at != end && *at == ' ') ++at;
    const auto [rest, problem] = std::from_chars(at, end, number);
    const bool more = rest != end && *rest == ',' && rest + 1 != end;
    if (problem != std::errc() || (rest != end && !more)) return std::nullopt;
    numbers.push_back(number);
    at = more ? rest + 1 : end;
  }
  return numbers;
}

// Returns the expression for a word of the config; null if the rule has none.
const Expression* expression_of(const ValueRule& rule, std::string_view word) {
  for (const auto& [text, expression] : rule.words) {
    if (text == word) return &expression;
  }
  return rule.other_words ? &*rule.other_words : nullptr;
}

}  // namespace

ConfigValues::ConfigValues(const Architecture& architecture,
                           ConfigReader& config, int64_t saved_by, Place place,
                           std::shared_ptr<Work> work)
    : architecture_(architecture),
      config_(config),
      work_(std::move(work)),
      place_(place) {
  const auto text_of = [&](std::string_view key) -> std::string_view {
    const auto node = config.at(key);
    return node && node->is_string() ? node->text() : "";
  };
  const std::string_view version = text_of("transformers_version");
  const bool is_major = version.size() > 1 && version[1] == '.';
  if (is_major && version[0] >= '1' && version[0] <= '9') {
    saved_by = version[0] - '0';
  }
  saved_by_ = ConfigValue::of(saved_by);
  if (place == Place::Flat) {
    class_ = find_config_class(architecture.model_types, "");
    return;
  }
  class_ = find_config_class(text_of("model_type"));
  if (class_ != nullptr) return;
  const auto classes = config.at("architectures");
  const bool has_one = classes && classes->is_list() && classes->size() > 0 &&
                       classes->item(0).is_string();
  class_ = find_config_class(architecture.model_types,
                             has_one ? classes->item(0).text() : "");
}

void ConfigValues::set_value(std::string_view name, ConfigValue value) {
  entries_[std::string(name)] = {State::Read, std::move(value), {}, true};
}

void ConfigValues::set_value(std::string_view name,
                             std::vector<ConfigValue> table) {
  entries_[std::string(name)] = {State::Read, {}, std::move(table), true};
}

bool ConfigValues::has_key(std::string_view name) const {
  const ValueRule* const rule = architecture_.find_value(name);
  if (rule == nullptr) return false;
  for (const std::string& key : rule->keys) {
    for (const std::string& spelling : spellings(key)) {
      if (config_.at(spelling)) return true;
    }
  }
  return false;
}

bool ConfigValues::read_all(bool for_forward) {
  bool good = true;
  for (const ConfigSection& part : architecture_.sections) {
    if (part.is_optional && !config_.find(part.key)) continue;
    ConfigValues* const values = section(part.name);
    good = values != nullptr && values->read_all() && good;
  }
  for (const ValueRule& rule : architecture_.values) {
    if (rule.kind == RuleKind::Table) continue;
    if (rule.of_forward && !for_forward) continue;
    std::string why;
    good = entry_of(rule, why) != nullptr && good;
  }
  if (!good) return false;
  for (const Requirement& requirement : architecture_.requirements) {
    if (!requirement.of_names || !for_forward) require(requirement);
  }
  if (for_forward) {
    for (const Requirement& each : architecture_.forward_requirements) {
      require(each);
    }
  }
  refuse_unread_activations();
  // A flat section has the map of the whole config, which checks these keys.
  if (place_ == Place::Own) refuse_keys_of_all_models();
  refuse_unread_keys();
  if (!for_forward) warn_of_unread_keys();
  return config_.ok();
}

// Returns a key and its other names.
std::vector<std::string> ConfigValues::spellings(std::string_view key) const {
  std::vector<std::string> names = {std::string(key)};
  if (class_ != nullptr) {
    std::ranges::move(class_->aliases(key, saved_by_.integer == 4),
                      std::back_inserter(names));
  }
  return names;
}

// Returns the default of the configuration class for a name that no key gives.
std::optional<ConfigValue> ConfigValues::from_class(const ValueRule& rule) {
  if (class_ == nullptr) return std::nullopt;
  for (const std::string& key : rule.keys) {
    for (const std::string& name : spellings(key)) {
      const auto node = class_->default_of(name, saved_by_.integer == 4);
      if (!node) continue;
      if (!rule.words.empty() &&
          (rule.kind == RuleKind::Integers || node->is_string())) {
        return from_node(rule, key, *node);
      }
      std::optional<ConfigValue> value;
      if (rule.kind == RuleKind::Size && node->integer()) {
        value = ConfigValue::of(*node->integer());
        if (class_->changes_tensors(name)) {
          used_defaults_.push_back(name + " " + std::string(node->text()));
        }
      } else if (rule.kind == RuleKind::Flag && node->boolean()) {
        value = ConfigValue::flag(*node->boolean());
      } else if (rule.kind == RuleKind::Number && node->number()) {
        value = ConfigValue::of(*node->number());
      } else if (rule.kind == RuleKind::Text && node->is_string()) {
        value = ConfigValue::of(std::string(node->text()));
      } else if (rule.kind == RuleKind::Integers && node->is_list()) {
        std::vector<int64_t> numbers;
        for (size_t i = 0; i < node->size(); ++i) {
          numbers.push_back(node->item(i).integer().value_or(0));
        }
        value = ConfigValue::of(std::move(numbers));
      }
      if (value) return value;
    }
  }
  return std::nullopt;
}

const ConfigValue* ConfigValues::find(std::string_view name) {
  std::string why;
  return find(name, why);
}

const ConfigValue* ConfigValues::find(std::string_view name, std::string& why) {
  if (name == kSavedBy) return &saved_by_;
  const size_t dot = name.find('.');
  if (dot != name.npos && architecture_.find_section(name.substr(0, dot))) {
    ConfigValues* const part = section(name.substr(0, dot));
    return part == nullptr ? nullptr : part->find(name.substr(dot + 1), why);
  }
  const ValueRule* const rule = architecture_.find_value(name);
  if (rule == nullptr || rule->kind == RuleKind::Table) {
    why = in_backticks(name) + " is not defined here";
    return nullptr;
  }
  Entry* const entry = entry_of(*rule, why);
  return entry == nullptr ? nullptr : &entry->value;
}

const std::vector<ConfigValue>* ConfigValues::find_table(std::string_view name,
                                                         std::string& why) {
  const ValueRule* const rule = architecture_.find_value(name);
  if (rule == nullptr || rule->kind != RuleKind::Table) return nullptr;
  Entry* const entry = entry_of(*rule, why);
  return entry == nullptr ? nullptr : &entry->table;
}

ConfigValues::Entry* ConfigValues::entry_of(const ValueRule& rule,
                                            std::string& why) {
  Entry& entry = entries_[rule.name];
  if (entry.state == State::Reading) {
    why = in_backticks(rule.name) + " depends on itself";
    return nullptr;
  }
  if (entry.state == State::Unread) {
    entry.state = State::Reading;
    bool good = false;
    if (rule.kind == RuleKind::Table) {
      good = read_table(rule, entry);
    } else if (auto value = read_value(rule)) {
      entry.value = *std::move(value);
      good = true;
    }
    entry.state = good ? State::Read : State::Failed;
  }
  return entry.state == State::Read ? &entry : nullptr;
}

std::optional<ConfigValue> ConfigValues::read_value(const ValueRule& rule) {
  for (const std::string& key : rule.keys) {
    if (!leads_on(key)) return std::nullopt;
    for (const std::string& name : spellings(key)) {
      const auto node = config_.at(name);
      if (!node) continue;
      if (is_ambiguous(rule, name, *node)) return std::nullopt;
      if (!node->is_null()) return from_node(rule, name, *node);
      return otherwise(rule, name, rule.null ? rule.null : rule.otherwise,
                       "null");
    }
  }
  if (rule.is) return otherwise(rule, rule.name, rule.is, "");
  if (!rule.given.empty()) {
    return ConfigValue::flag(config_.find(rule.given).has_value());
  }
  if (const auto counted = config_.find(rule.counted);
      counted && (counted->is_map() || counted->is_list())) {
    return checked(rule, rule.counted, ConfigValue::of(std::ssize(*counted)));
  }
  const std::string& key = rule.keys.front();
  if (rule.absent) return otherwise(rule, key, rule.absent, "missing");
  if (auto value = from_class(rule)) return value;
  // A class whose default is null treats a missing key like null.
  if (!rule.otherwise && rule.null && class_ != nullptr &&
      class_->is_null(key, saved_by_.integer == 4)) {
    return otherwise(rule, key, rule.null, "missing");
  }
  return otherwise(rule, key, rule.otherwise, "missing");
}

// Returns whether the outer components of a key, as far as they exist, are
// maps, or lists of which the key selects an item. Reports other values.
bool ConfigValues::leads_on(std::string_view key) {
  for (size_t dot = key.find('.'); dot != key.npos;
       dot = key.find('.', dot + 1)) {
    const std::string_view outer = key.substr(0, dot);
    const auto node = config_.find(outer);
    if (!node || node->is_map()) continue;
    const bool is_item = key.find_first_not_of("0123456789.", dot) == key.npos;
    if (node->is_list() && is_item) continue;
    config_.ill_typed(outer, *node, kind_name(NodeKind::Map));
    return false;
  }
  return true;
}

// Returns whether another name of the key has a different size, and reports it:
// which one transformers uses depends on its version and on their order.
bool ConfigValues::is_ambiguous(const ValueRule& rule, std::string_view key,
                                const Node& node) {
  const auto size = node.integer();
  if (rule.kind != RuleKind::Size || !size) return false;
  for (const std::string& name : spellings(key)) {
    const auto other = config_.at(name);
    const auto value = other ? other->integer() : std::nullopt;
    if (!value || *value == *size) continue;
    config_
        .refuse(key, config_.shown(key) + " and " + config_.shown(name) +
                         " name the same value but differ")
        .fact(std::to_string(*size) + " and " + std::to_string(*value));
    return true;
  }
  return false;
}

std::optional<ConfigValue> ConfigValues::evaluated(const Expression& expression,
                                                   std::string& why) {
  return evaluate(
      expression,
      [this](std::string_view name, std::string& reason) {
        return find(name, reason);
      },
      *work_, why);
}

// Returns the value that the architecture gives instead of the config.
std::optional<ConfigValue> ConfigValues::otherwise(
    const ValueRule& rule, std::string_view key,
    const std::optional<Expression>& expression, std::string_view state) {
  const std::string shown = config_.shown(key);
  if (!expression) {
    auto problem = config_.refuse(key, shown + " is " + std::string(state));
    std::vector<std::string> keys;
    const Node& map = config_.map();
    for (size_t i = 0; i < map.size(); ++i) keys.emplace_back(map.key(i));
    const auto near = config_.at(key) ? std::nullopt : nearest(key, keys);
    if (near) problem.help("the config has " + in_backticks(*near));
    return problem;
  }
  std::string why;
  auto value = evaluated(*expression, why);
  if (value) return checked(rule, key, *std::move(value));
  if (why.empty()) return std::nullopt;  // reported
  if (work_->is_spent()) return refuse_spent_work();
  return config_
      .refuse(key,
              (state.empty() ? ""
                             : shown + " is " + std::string(state) + ", and ") +
                  in_backticks(expression->text) + " has no value: " + why)
      .fact("by architecture " + in_backticks(architecture_.name));
}

std::optional<ConfigValue> ConfigValues::checked(const ValueRule& rule,
                                                 std::string_view key,
                                                 ConfigValue value) {
  const ConfigValue::Kind wanted = nth(kWantedKinds, rule.kind);
  if (wanted == ConfigValue::Kind::Real &&
      value.kind == ConfigValue::Kind::Integer) {
    value = ConfigValue::of(value.as_real());
  }
  if (value.kind != wanted) {
    return config_.refuse(key, in_backticks(rule.name) + " of architecture " +
                                   in_backticks(architecture_.name) + " is " +
                                   std::string(value_kind_name(value.kind)) +
                                   ", not " +
                                   std::string(value_kind_name(wanted)));
  }
  // An architecture may use 0 to mean that there is none.
  const bool bounded = rule.kind == RuleKind::Size;
  if (bounded && (value.integer < 0 || value.integer > rule.most)) {
    return config_
        .refuse(key, in_backticks(rule.name) + " is " +
                         std::to_string(value.integer))
        .fact("it must be 0 to " + count_text(rule.most));
  }
  return value;
}

// Returns the value of a word that the config has at a key, which `verb`
// introduces: "is" or "has".
std::optional<ConfigValue> ConfigValues::word(const ValueRule& rule,
                                              std::string_view key,
                                              std::string_view text,
                                              std::string_view verb) {
  if (const Expression* const meant = expression_of(rule, text)) {
    return otherwise(rule, key, *meant, "");
  }
  std::vector<std::string> known;
  for (const auto& [word, expression] : rule.words) known.push_back(word);
  return config_
      .refuse(key, config_.shown(key) + " " + std::string(verb) + " " +
                       in_backticks(text) + ", which is not supported")
      .fact("supported: " + joined(known, ", "));
}

// Reads a list of words, or a text whose letters are words.
std::optional<ConfigValue> ConfigValues::list_of_words(const ValueRule& rule,
                                                       std::string_view key,
                                                       const Node& node) {
  ValueRule of_item = rule;
  of_item.kind = RuleKind::Size;
  of_item.most = kMaxSize;
  std::vector<int64_t> items;
  const bool is_text = node.is_string();
  for (size_t i = 0; i < (is_text ? node.text().size() : node.size()); ++i) {
    auto item = is_text ? std::nullopt : node.item(i).integer();
    if (!item) {
      const auto meant =
          word(of_item, key,
               is_text ? node.text().substr(i, 1) : node.item(i).text(), "has");
      if (!meant) return std::nullopt;
      item = meant->integer;
    }
    items.push_back(*item);
  }
  return ConfigValue::of(std::move(items));
}

std::optional<ConfigValue> ConfigValues::from_node(const ValueRule& rule,
                                                   std::string_view key,
                                                   const Node& node) {
  if (rule.kind == RuleKind::Integers && !rule.words.empty() &&
      (node.is_string() || node.is_list())) {
    return list_of_words(rule, key, node);
  }
  if (!rule.words.empty() && node.is_string()) {
    return word(rule, key, node.text(), "is");
  }
  switch (rule.kind) {
    case RuleKind::Size: {
      const int64_t errors = config_.errors();
      const int64_t size = config_.bounded(key, rule.least, rule.most, {});
      if (config_.errors() != errors) return std::nullopt;
      return ConfigValue::of(size);
    }
    case RuleKind::Flag: {
      const auto flag = node.boolean();
      if (flag) return ConfigValue::flag(*flag);
      return config_.ill_typed(key, node, kind_name(NodeKind::Bool));
    }
    case RuleKind::Number: {
      const auto number = node.number();
      if (!number) {
        return config_.ill_typed(key, node, kind_name(NodeKind::Real));
      }
      const bool fits = !rule.of_forward || *number > 0;
      if (std::isfinite(*number) && fits) return ConfigValue::of(*number);
      auto problem = config_.refuse(
          key, config_.shown(key) + " is " + std::string(node.text()));
      if (!fits) problem.fact("it must be more than 0");
      return problem;
    }
    case RuleKind::Text:
      if (!node.is_string()) {
        return config_.ill_typed(key, node, kind_name(NodeKind::String));
      }
      if (node.text().size() > kMaxTextValue) {
        return config_.refuse(key, config_.shown(key) + " is too long")
            .fact("the limit is " + count_text(kMaxTextValue) + " bytes");
      }
      return ConfigValue::of(std::string(node.text()));
    default: {
      // A single integer is a list of one.
      if (const auto one = node.integer()) {
        return ConfigValue::of(std::vector<int64_t>{*one});
      }
      if (node.is_string()) {
        auto items = integers_of(node.text());
        if (!items) return config_.ill_typed(key, node, "a list of integers");
        return ConfigValue::of(*std::move(items));
      }
      const int64_t errors = config_.errors();
      auto list = config_.integers(key);
      if (config_.errors() != errors) return std::nullopt;
      return ConfigValue::of(std::move(list));
    }
  }
}

// Returns whether a list has one item per layer. Any list does if the program
// has set the number of layers.
bool ConfigValues::fits_layers(std::string_view key, const Node& list) {
  const auto entry = entries_.find("layers");
  if (entry != entries_.end() && entry->second.given) return true;
  const ValueRule* const rule = architecture_.find_value("layers");
  if (rule == nullptr) return true;
  const ConfigValue* const layers = find("layers");
  if (layers == nullptr) return false;
  const auto items = std::ssize(list);
  if (layers->integer == items) return true;
  config_
      .refuse(key, config_.shown(key) + " has " + plural(items, "item") +
                       " for " + plural(layers->integer, "layer"))
      .fact("by architecture " + in_backticks(architecture_.name));
  return false;
}

// Returns the number of items of a table that is not a list in the config.
std::optional<int64_t> ConfigValues::layer_count() {
  const ConfigValue* const layers = find("layers");
  if (layers == nullptr || layers->integer > kMaxCount) return std::nullopt;
  return layers->integer;
}

bool ConfigValues::add_of_layer(const std::string& key,
                                const Expression& expression, int64_t layer,
                                Entry& entry) {
  std::string why;
  const ConfigValue index = ConfigValue::of(layer);
  auto value = evaluate(
      expression,
      [&](std::string_view name, std::string& reason) -> const ConfigValue* {
        if (name == "i") return &index;
        const auto* const table = find_table(name, reason);
        if (table == nullptr) return find(name, reason);
        if (layer < std::ssize(*table)) return &nth(*table, layer);
        reason = in_backticks(name) + " has " + std::to_string(table->size()) +
                 " items";
        return nullptr;
      },
      *work_, why);
  if (value) {
    entry.table.push_back(*std::move(value));
    return true;
  }
  if (!why.empty() && work_->is_spent()) {
    refuse_spent_work();
  } else if (!why.empty()) {
    config_.refuse(key, in_backticks(expression.text) + " has no value: " + why)
        .fact("by architecture " + in_backticks(architecture_.name))
        .fact("in layer " + std::to_string(layer));
  }
  return false;
}

// Reads a table from a map of layers. A layer that is not in the map, or has no
// such entry, gets the value of the others.
bool ConfigValues::read_layer_map(const ValueRule& rule, const std::string& key,
                                  const Node& map, Entry& entry) {
  const auto layers = layer_count();
  if (!layers) return false;
  std::map<int64_t, int64_t> sizes;
  for (size_t i = 0; i < map.size(); ++i) {
    const std::string_view name = map.key(i);
    const auto layer = parse_integer(name);  // "7" or "07"
    if (!layer || *layer < 0 || *layer >= *layers || !map.item(i).is_map()) {
      config_
          .refuse(key, config_.shown(key) + " has an entry " +
                           in_backticks(name) +
                           " that is not a layer, or not a map")
          .fact(plural(*layers, "layer"));
      return false;
    }
    const auto value = map.item(i).find(rule.entry);
    if (!value) continue;
    const auto number = value->integer();
    if (number && *number >= 1 && *number <= kMaxSize &&
        sizes.emplace(*layer, *number).second) {
      continue;
    }
    config_.refuse(key, config_.shown(key) + " gives " +
                            in_backticks(value->text()) + " as " +
                            in_backticks(rule.entry) + " of layer " +
                            std::to_string(*layer) +
                            ", which is not a size, or is given twice");
    return false;
  }
  for (int64_t layer = 0; layer < *layers; ++layer) {
    const auto found = sizes.find(layer);
    if (found != sizes.end()) {
      entry.table.push_back(ConfigValue::of(found->second));
    } else if (!add_of_layer(key, *rule.otherwise, layer, entry)) {
      return false;
    }
  }
  return true;
}

bool ConfigValues::read_table(const ValueRule& rule, Entry& entry) {
  for (const std::string& key : rule.keys) {
    if (!leads_on(key)) return false;
    const auto list = config_.find(key);
    if (!list) continue;
    if (!rule.entry.empty() && list->is_map()) {
      return read_layer_map(rule, key, *list, entry);
    }
    if (!list->is_list() || !rule.entry.empty()) {
      config_.ill_typed(key, *list, kind_name(NodeKind::List));
      return false;
    }
    if (!fits_layers(key, *list)) return false;
    for (size_t i = 0; i < list->size(); ++i) {
      const Node item = list->item(i);
      if (const auto* const meant = expression_of(rule, item.text())) {
        if (!add_of_layer(key, *meant, std::ssize(entry.table), entry)) {
          return false;
        }
      } else if (const auto number = item.integer()) {
        entry.table.push_back(ConfigValue::of(*number));
      } else if (const auto flag = item.boolean()) {
        entry.table.push_back(ConfigValue::flag(*flag));
      } else {
        config_.refuse(key, config_.shown(key) + " has " +
                                in_backticks(item.text()) +
                                ", which is not supported");
        return false;
      }
    }
    return true;
  }
  const std::string key = rule.keys.empty() ? rule.name : rule.keys.front();
  // A null map is a map without layers.
  const bool no_layers = !rule.entry.empty() && config_.at(key);
  const auto& each = rule.is                     ? rule.is
                     : rule.absent && !no_layers ? rule.absent
                                                 : rule.otherwise;
  if (!each) {
    config_.refuse(key, config_.shown(key) + " is missing");
    return false;
  }
  const auto layers = layer_count();
  if (!layers) return false;
  for (int64_t i = 0; i < *layers; ++i) {
    if (!add_of_layer(key, *each, i, entry)) return false;
  }
  return true;
}

}  // namespace shardplan
