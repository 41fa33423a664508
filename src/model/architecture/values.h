// SPDX-License-Identifier: Apache-2.0
// ConfigValues: the values of an architecture's names in one config, read from
// the config when first used.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/work.h"
#include "model/architecture/architecture.h"
#include "model/config_classes.h"
#include "model/config_reader.h"

namespace shardplan {

// Replaces each `{name}` with the name's value, or with "" if that is not an
// integer.
std::string filled_text(
    const std::string& text,
    const std::function<const ConfigValue*(std::string_view)>& find);

class ConfigValues {
 public:
  // Own: the map is for the architecture's configuration class alone. Flat: it
  // is the map of the whole config, which also has the keys of this section;
  // `model_type` and `architectures` in it are those of the whole.
  enum class Place : uint8_t { Own, Flat };

  // Does not read any name yet. The architecture and the reader must outlive
  // the object. `saved_by` is the major version of transformers that wrote the
  // config, if known from elsewhere; a version in the config takes precedence.
  // Sections share the `work` of the whole config.
  ConfigValues(const Architecture& architecture, ConfigReader& config,
               int64_t saved_by = 0, Place place = Place::Own,
               std::shared_ptr<Work> work = std::make_shared<Work>());

  const Architecture& architecture() const { return architecture_; }
  ConfigReader& config() const { return config_; }

  // Returns the work that all evaluations of this model's expressions share.
  Work& work() const { return *work_; }
  // Reports that the work is spent, once. REQUIRES: it is spent.
  std::nullopt_t refuse_spent_work() const;

  // Sets the value of a name, whatever the config says. REQUIRES: the name has
  // not been read.
  void set_value(std::string_view name, ConfigValue value);
  void set_value(std::string_view name, std::vector<ConfigValue> table);
  // Returns whether the config has a key for the name, even if it is null.
  bool has_key(std::string_view name) const;

  // Reads every name except tables and checks every requirement, here and in
  // the sections; with `for_forward`, also those of forward passes here.
  // Returns false if an error was reported.
  bool read_all(bool for_forward = false);

  // Returns the value of a name such as `heads` or `vision.hidden`, which is
  // read on first use. Returns null if it has none; if `why` is empty, that has
  // been reported.
  const ConfigValue* find(std::string_view name, std::string& why);
  // Does the same without a reason.
  const ConfigValue* find(std::string_view name);
  // Returns the values of a table, one per layer; null as above.
  const std::vector<ConfigValue>* find_table(std::string_view name,
                                             std::string& why);

  // Returns remarks, here and of the sections: what the architecture does not
  // describe; the defaults of configuration classes that were used for missing
  // keys, "using defaults of MistralConfig of transformers 5.23.0 for keys
  // missing from the config: num_key_value_heads 8"; and the architecture's
  // notes. REQUIRES: read_all() returned true.
  std::vector<std::string> remarks();

  // Returns the values of a section; null if the config has no such map, which
  // has then been reported.
  ConfigValues* section(std::string_view name);

 private:
  enum class State : uint8_t { Unread, Reading, Failed, Read };
  struct Entry {
    State state = State::Unread;
    ConfigValue value;
    std::vector<ConfigValue> table;
    bool given = false;  // set by the program, whatever the config says
  };

  Entry* entry_of(const ValueRule& rule, std::string& why);
  std::optional<ConfigValue> read_value(const ValueRule& rule);
  std::optional<ConfigValue> from_node(const ValueRule& rule,
                                       std::string_view key, const Node& node);
  std::optional<ConfigValue> list_of_words(const ValueRule& rule,
                                           std::string_view key,
                                           const Node& node);
  std::optional<ConfigValue> word(const ValueRule& rule, std::string_view key,
                                  std::string_view text, std::string_view verb);
  std::optional<ConfigValue> otherwise(
      const ValueRule& rule, std::string_view key,
      const std::optional<Expression>& expression, std::string_view state);
  bool read_table(const ValueRule& rule, Entry& entry);
  bool read_layer_map(const ValueRule& rule, const std::string& key,
                      const Node& map, Entry& entry);
  std::optional<int64_t> layer_count();
  bool add_of_layer(const std::string& key, const Expression& expression,
                    int64_t layer, Entry& entry);
  bool leads_on(std::string_view key);
  bool fits_layers(std::string_view key, const Node& list);
  bool is_ambiguous(const ValueRule& rule, std::string_view key,
                    const Node& node);
  std::optional<ConfigValue> checked(const ValueRule& rule,
                                     std::string_view key, ConfigValue value);
  void require(const Requirement& requirement);
  std::optional<ConfigValue> from_class(const ValueRule& rule);
  std::vector<std::string> spellings(std::string_view key) const;
  std::set<std::string, std::less<>> read_keys() const;
  std::vector<std::string> left_out() const;
  void refuse_unread_keys();
  std::vector<std::string> unread_keys(const ConfigSection& part,
                                       ConfigValues* text);
  bool is_value(const ValueRule& rule, const Node& node);
  void warn_of_unread_keys();
  void refuse_unread_activations();
  void refuse_keys_of_all_models();
  std::string filled(const std::string& text);

  std::optional<ConfigValue> evaluated(const Expression& expression,
                                       std::string& why);

  const Architecture& architecture_;
  ConfigReader& config_;
  std::shared_ptr<Work> work_;
  Place place_;
  std::shared_ptr<const ConfigClass> class_;
  ConfigValue saved_by_;  // 0: unknown
  std::vector<std::string> used_defaults_;
  std::map<std::string, Entry, std::less<>> entries_;
  struct Part {
    std::unique_ptr<ConfigReader> reader;
    std::shared_ptr<const Architecture> architecture;
    std::unique_ptr<ConfigValues> values;  // null if there is no such map
  };
  std::map<std::string, Part, std::less<>> parts_;
};

}  // namespace shardplan
