// SPDX-License-Identifier: Apache-2.0
// Checks a config: the requirements of its architecture hold, every key that
// changes tensors is read, and its parts have supported model types. Also
// writes the remarks about a config.
#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/words.h"
#include "model/architecture/quantisation.h"
#include "model/architecture/values.h"
#include "model/architectures.h"

namespace shardplan {

namespace {

// The key of the text model in a config.
constexpr std::string_view kTextPart = "text_config";

// Keys by which configs announce layers after the last one (multi-token
// prediction).
constexpr std::string_view kFurtherLayers[] = {
    "mtp_num_hidden_layers", "mtp_num_layers", "num_mtp_layers",
    "num_mtp_modules", "num_nextn_predict_layers"};

// Maps of a config that are named like parts of a model but are not.
constexpr std::string_view kNoParts[] = {
    "quantization_config", "compression_config", "quant_config",
    "quantize_config",     "generation_config",  "per_layer_config",
    "rope_config",         "init_config"};

// Returns the architecture for the section's own `model_type`. Returns null,
// and reports the type, if the section does not support it.
std::shared_ptr<const Architecture> section_architecture(
    const ConfigSection& section, ConfigReader& reader) {
  const auto node = reader.find("model_type");
  if (!node || node->text().empty()) return section.architecture;
  const std::string_view type = node->text();
  auto expected = section.architecture->model_types;
  const auto has = [&](const Architecture& one) {
    const auto& types = one.model_types;
    return contains(types, type);
  };
  for (const auto& other : section.others) {
    if (has(*other)) return other;
    expected.insert(expected.end(), other->model_types.begin(),
                    other->model_types.end());
  }
  if (section.architecture->model_types.empty() || has(*section.architecture)) {
    return section.architecture;
  }
  if (section.by_model_type) {
    if (auto own = choose_architecture(reader.map()).architecture) return own;
  }
  unsupported(reader, "model_type",
              reader.shown("model_type") + " is " + in_backticks(type) +
                  ", which is not supported" +
                  (section.by_model_type ? "" : " here"))
      .fact("supported: " + (section.by_model_type
                                 ? joined(known_model_types(), ", ")
                                 : joined(expected, ", ")));
  return nullptr;
}

// The work of creating a section, which counts because sections can contain
// sections.
constexpr int64_t kSectionWork = 1000;

}  // namespace

// Returns remarks about what the config announces but the architecture does not
// describe.
std::vector<std::string> ConfigValues::left_out() const {
  std::vector<std::string> all;
  const auto known = read_keys();
  const Node& map = config_.map();
  const std::string by = " are left out: architecture " +
                         in_backticks(architecture_.name) +
                         " does not describe them";
  for (const std::string_view key : kFurtherLayers) {
    const auto value = map.find(key);
    const auto layers = value ? value->integer() : std::nullopt;
    if (!layers || *layers < 1 || known.contains(key)) continue;
    all.push_back("multi-token prediction layers (" + config_.shown(key) +
                  " is " + std::to_string(*layers) + ")" + by);
  }
  // A flat section has the map of the whole config, which checks these keys.
  for (size_t i = 0; place_ == Place::Own && i < map.size(); ++i) {
    const std::string_view key = map.key(i);
    const auto& sections = architecture_.sections;
    if (!key.ends_with("_config") || !map.item(i).is_map() ||
        known.contains(key) || contains(kNoParts, key) ||
        std::ranges::any_of(
            sections, [&](const ConfigSection& s) { return s.key == key; })) {
      continue;
    }
    all.push_back("the tensors of " + config_.shown(key) + by);
  }
  return all;
}

std::vector<std::string> ConfigValues::remarks() {
  std::vector<std::string> all = left_out();
  if (!used_defaults_.empty()) {
    const std::string part = config_.path();
    all.push_back("using defaults of " + class_->title() +
                  " for keys missing from " +
                  (part.empty() ? "the config" : in_backticks(part)) + ": " +
                  joined(used_defaults_, ", "));
  }
  for (const ArchitectureNote& note : architecture_.notes) {
    std::string why;
    const auto setting =
        note.when ? evaluated(*note.when, why) : ConfigValue::flag(true);
    if (setting && setting->kind == ConfigValue::Kind::Flag &&
        setting->integer != 0) {
      all.push_back(filled(note.text));
    }
  }
  for (const auto& [name, part] : parts_) {
    if (part.values == nullptr) continue;
    for (std::string& remark : part.values->remarks()) {
      all.push_back(std::move(remark));
    }
  }
  return all;
}

// Returns the keys that determine the names and shapes of tensors.
std::set<std::string, std::less<>> ConfigValues::read_keys() const {
  std::set<std::string, std::less<>> known;
  for (const ValueRule& rule : architecture_.values) {
    if (rule.of_forward) continue;
    if (!rule.counted.empty()) known.insert(rule.counted);
    if (!rule.given.empty()) known.insert(rule.given);
    for (const std::string& key : rule.keys) {
      known.insert(key.substr(0, key.find('.')));
      for (std::string& name : spellings(key)) known.insert(std::move(name));
    }
  }
  return known;
}

// Refuses activations with their own parameters, which a model then has at each
// of its activations. An architecture that describes these parameters reads the
// key.
void ConfigValues::refuse_unread_activations() {
  const auto known = read_keys();
  const Node& map = config_.map();
  for (size_t i = 0; i < map.size(); ++i) {
    const Node value = map.item(i);
    const std::string_view text = value.is_string() ? value.text() : "";
    if ((text != "xielu" && text != "prelu") || known.contains(map.key(i))) {
      continue;
    }
    unsupported(config_, map.key(i),
                config_.shown(map.key(i)) + " is " + in_backticks(text) +
                    ", an activation with its own parameters")
        .fact("architecture " + in_backticks(architecture_.name) +
              " does not describe these parameters");
  }
}

// Refuses keys that any model may have, whatever its architecture. Only
// transformers 4 has pruned heads and stores shared tensors several times; only
// transformers 5 has layers that differ from the others.
void ConfigValues::refuse_keys_of_all_models() {
  const Node& map = config_.map();
  const auto pruned = map.find("pruned_heads");
  if (pruned && pruned->is_map() && pruned->size() > 0) {
    unsupported(config_, "pruned_heads",
                "pruned heads are not supported: which tensors they shrink is "
                "unknown");
  }
  const ConfigValue* const tied = find("tied");
  const auto traced = map.find("torchscript");
  if (traced && traced->boolean().value_or(false) &&
      (tied == nullptr || tied->integer != 0)) {
    unsupported(config_, "torchscript",
                "`torchscript` is true: shared tensors may be stored once or "
                "once per module")
        .fact("transformers 4 stores one copy per module, 5 stores one in all");
  }
  constexpr std::string_view kLayers = "per_layer_config";
  const auto layers = map.find(kLayers);
  for (size_t i = 0; layers && layers->is_map() && i < layers->size(); ++i) {
    const Node layer = layers->item(i);
    for (size_t k = 0; layer.is_map() && k < layer.size(); ++k) {
      const bool is_read =
          std::ranges::any_of(architecture_.values, [&](const ValueRule& rule) {
            return rule.entry == layer.key(k) && !rule.keys.empty() &&
                   rule.keys.front() == kLayers;
          });
      if (is_read) continue;
      unsupported(config_, kLayers,
                  config_.shown(kLayers) + " gives layer " +
                      in_backticks(layers->key(i)) + " a different " +
                      in_backticks(layer.key(k)) + ", which is not supported")
          .fact("by architecture " + in_backticks(architecture_.name));
      return;
    }
  }
}

// Refuses keys that change the tensors but that no name reads.
void ConfigValues::refuse_unread_keys() {
  if (class_ == nullptr) return;
  auto known = read_keys();
  known.insert(architecture_.ignored_keys.begin(),
               architecture_.ignored_keys.end());
  for (const ConfigSection& part : architecture_.sections) {
    known.insert(part.key);
  }
  const Node& map = config_.map();
  std::vector<std::string> unread;
  for (size_t i = 0; i < map.size(); ++i) {
    const std::string_view key = map.key(i);
    const Node value = map.item(i);
    if (known.contains(key) || value.is_null() ||
        !class_->changes_tensors(key) || class_->is_default(key, value)) {
      continue;
    }
    unread.emplace_back(key);
  }
  if (unread.empty()) return;
  config_
      .refuse(unread.front(),
              quoted_names(unread) +
                  (unread.size() == 1 ? " is not supported but changes"
                                      : " are not supported but change") +
                  " the tensors of the model")
      .fact("by architecture " + in_backticks(architecture_.name))
      .help(
          "an architecture file must read every key that changes tensors, or "
          "list it in `ignored_keys`")
      .help(std::string(kUseTensors));
}

// Returns the keys at the top level of the config that the text model reads
// from a map of its own, in the order of the config. If `text` is given, only
// those that its map lacks and that have a value other than the one used.
std::vector<std::string> ConfigValues::unread_keys(const ConfigSection& part,
                                                   ConfigValues* text) {
  std::vector<std::string> unread;
  if (part.key != kTextPart) return unread;
  auto known = read_keys();
  known.insert(architecture_.ignored_keys.begin(),
               architecture_.ignored_keys.end());
  std::set<std::string, std::less<>> keys;
  for (const ValueRule& rule : part.architecture->values) {
    if (rule.of_forward || (text != nullptr && text->has_key(rule.name)))
      continue;
    for (const std::string& key : rule.keys) {
      const bool of_whole = known.contains(key) || key == "model_type";
      const auto here = of_whole ? std::nullopt : config_.find(key);
      if (!here || (text != nullptr && text->is_value(rule, *here))) continue;
      keys.insert(key);
    }
  }
  const Node& map = config_.map();
  for (size_t i = 0; i < map.size(); ++i) {
    if (keys.contains(map.key(i))) unread.emplace_back(map.key(i));
  }
  return unread;
}

// Returns whether the value of `rule` equals that of the node.
bool ConfigValues::is_value(const ValueRule& rule, const Node& node) {
  std::string why;
  if (rule.kind == ValueRule::Kind::Table) return false;
  const Entry* const entry = entry_of(rule, why);
  if (entry == nullptr) return false;
  switch (entry->value.kind) {
    case ConfigValue::Kind::Integer:
      return node.integer() == entry->value.integer;
    case ConfigValue::Kind::Flag:
      return node.boolean() == (entry->value.integer != 0);
    case ConfigValue::Kind::Real:
      return node.number() == entry->value.real;
    default:
      return node.is_string() && node.text() == entry->value.text;
  }
}

// Warns of keys of the text model at the top level of the config. transformers
// does not read them if the text model has its own map or the defaults of its
// class.
void ConfigValues::warn_of_unread_keys() {
  for (const ConfigSection& part : architecture_.sections) {
    if (part.key != kTextPart || part.is_flat(config_.map())) continue;
    ConfigValues* const text = section(part.name);
    const auto unread = unread_keys(part, text);
    if (unread.empty()) continue;
    auto problem = config_.warn(
        unread.front(),
        some_names(unread) + " at the top level of the config " +
            (unread.size() == 1 ? "is" : "are") +
            " not read: the text model comes from " + config_.shown(part.key) +
            ", or from the defaults of its class");
    for (const ValueRule& rule : part.architecture->values) {
      std::string why;
      if (rule.kind == ValueRule::Kind::Table || rule.of_forward) continue;
      for (const std::string& key : rule.keys) {
        if (!contains(unread, key)) continue;
        const Entry* const entry = text->entry_of(rule, why);
        if (entry == nullptr ||
            entry->value.kind != ConfigValue::Kind::Integer) {
          continue;
        }
        problem.fact(text->config_.shown(key) + " is read as " +
                     std::to_string(entry->value.integer) + ", not " +
                     std::string(config_.find(key)->text()));
      }
    }
    problem.help("to apply them, move them into " + config_.shown(part.key));
  }
}

std::string filled_text(
    const std::string& text,
    const std::function<const ConfigValue*(std::string_view)>& find) {
  std::string result;
  size_t at = 0;
  while (at < text.size()) {
    const size_t begin = text.find('{', at);
    const size_t end = text.find('}', begin);
    if (begin == text.npos || end == text.npos) break;
    result += text.substr(at, begin - at);
    const ConfigValue* const value =
        find(text.substr(begin + 1, end - begin - 1));
    if (value != nullptr && value->kind == ConfigValue::Kind::Integer) {
      result += count_text(value->integer);
    }
    at = end + 1;
  }
  return result + text.substr(at);
}

std::string ConfigValues::filled(const std::string& text) {
  return filled_text(text,
                     [this](std::string_view name) { return find(name); });
}

std::nullopt_t ConfigValues::refuse_spent_work() const {
  if (!work_->report_once()) return std::nullopt;
  if (work_->is_too_deep()) {
    return config_
        .refuse("", "names and brackets of the model nest deeper than " +
                        count_text(Nested::kMost))
        .fact("by architecture " + in_backticks(architecture_.name))
        .help("make fewer values refer to one another");
  }
  return config_.refuse("", "the model takes too much work to compute")
      .fact(
          "expressions, steps times layers and rules times tensors are "
          "limited to " +
          count_text(work_->most()) + " together")
      .help("use fewer layers, or fewer and simpler steps, tables and rules");
}

void ConfigValues::require(const Requirement& requirement) {
  std::string why;
  const auto holds = evaluated(requirement.that, why);
  if (!holds && why.empty()) return;
  if (!holds && work_->is_spent()) {
    refuse_spent_work();
    return;
  }
  if (holds && holds->kind == ConfigValue::Kind::Flag && holds->integer != 0)
    return;
  auto problem = config_.refuse(requirement.key, filled(requirement.message));
  if (!holds) problem.fact(why);
  for (const std::string& fact : requirement.facts) problem.fact(filled(fact));
}

ConfigValues* ConfigValues::section(std::string_view name) {
  const auto known = parts_.find(name);
  if (known != parts_.end()) return known->second.values.get();
  if (!work_->spend(kSectionWork)) {
    refuse_spent_work();
    return nullptr;
  }
  Part& part = parts_[std::string(name)];
  const ConfigSection* const of = architecture_.find_section(name);
  SHARDPLAN_CHECK(of != nullptr);
  if (of->is_flat(config_.map())) {
    part.reader = std::make_unique<ConfigReader>(config_);
    part.architecture = of->architecture;
    part.values =
        std::make_unique<ConfigValues>(*part.architecture, *part.reader,
                                       saved_by_.integer, Place::Flat, work_);
    return part.values.get();
  }
  const bool is_missing = !config_.find(of->key);
  if (is_missing && !of->has_defaults) {
    auto problem =
        config_.refuse(of->key, config_.shown(of->key) + " is missing");
    const auto unread = unread_keys(*of, nullptr);
    if (!unread.empty()) {
      problem
          .fact(some_names(unread) + " at the top level of the config " +
                (unread.size() == 1 ? "is" : "are") + " not read")
          .help("put the keys of the text model into " +
                config_.shown(of->key));
    }
    return nullptr;
  }
  if (auto reader = is_missing ? config_.empty_section(of->key)
                               : config_.section(of->key)) {
    part.reader = std::make_unique<ConfigReader>(*std::move(reader));
    part.architecture = section_architecture(*of, *part.reader);
    if (part.architecture == nullptr) return nullptr;
    part.values = std::make_unique<ConfigValues>(
        *part.architecture, *part.reader, saved_by_.integer, Place::Own, work_);
  }
  return part.values.get();
}

}  // namespace shardplan
