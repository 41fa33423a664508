// SPDX-License-Identifier: Apache-2.0
// ModulePatterns: a list of modules in the quantisation section of a config.
// Names of modules are matched as in the library that reads the list.
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

#include "model/config_reader.h"

namespace re2 {
class RE2;
}

namespace shardplan {

// The rules by which an entry matches a module.
enum class PatternStyle : uint8_t {
  // transformers 4, FP8 and AWQ: the entry is a part of the name.
  Substring,
  // transformers 4, bitsandbytes: the entry is the last component, the name, or
  // a part of the name before a dot.
  Prefix,
  // transformers 5: the entry is a regular expression that matches the name or
  // one of the enclosing modules, or it is the end of the name.
  Modules,
  // compressed-tensors: the entry is the name or, after `re:`, a regular
  // expression for its beginning.
  Names,
  // ModelOpt: the entry is the name or that of an enclosing module; `*` and `?`
  // are wildcards.
  Globs,
  // GPTQ: the entry is the end of the name.
  Suffix,
};

struct ModuleName;

// Returns whether the text is the name, or that of an enclosing module.
bool is_around(std::string_view text, std::string_view name);
// Returns the name in memory of the module that is saved under `path`: the
// longest beginning in `names` is replaced. Returns `path` if there is none.
std::string name_in_memory(const std::vector<ModuleName>& names,
                           std::string_view path);

class ModulePatterns {
 public:
  // Reads a list of texts, or of lists of texts. Returns nothing if an error
  // was reported: an entry is not a text, or a pattern cannot be compiled.
  static std::optional<ModulePatterns> read(ConfigReader& config,
                                            std::string_view key,
                                            const Node& list);

  // Does the same for texts that the config gives under `key`.
  static std::optional<ModulePatterns> of(
      ConfigReader& config, std::string_view key,
      const std::vector<std::string>& texts);

  // Returns whether an entry matches the module.
  bool matches(std::string_view name, PatternStyle style) const;
  // Returns whether an entry is exactly this text.
  bool has(std::string_view text) const { return texts_.contains(text); }
  // Returns whether an entry is this text, or a regular expression that matches
  // all of it.
  bool is_all_of(std::string_view name) const;
  // Returns the first entry that Python's `re`, and therefore transformers 5,
  // rejects; empty if there is none.
  std::string_view unreadable() const;
  bool empty() const { return entries_.empty(); }
  // Returns whether an entry refers to single modules, not to all modules with
  // the same last component: "a.b", "re:x".
  bool has_paths() const;
  // Returns how many comparisons of names with entries were made so far.
  int64_t compared() const { return compared_; }

 private:
  struct Entry {
    std::string text;
    // The pattern after `re:`, or the whole text; null if it is plain or not a
    // valid regular expression.
    std::shared_ptr<const re2::RE2> regex;
    std::shared_ptr<const re2::RE2> glob;  // null if the text has no `*` or `?`
    size_t lead = 0;  // characters before the first of these
  };
  static bool means(const Entry& entry, std::string_view name,
                    PatternStyle style);
  bool add(ConfigReader& config, std::string_view key, std::string_view text);
  // Returns whether one of these entries matches the module.
  bool any_means(const std::vector<size_t>& entries, std::string_view name,
                 PatternStyle style) const;

  std::vector<Entry> entries_;
  std::set<std::string, std::less<>> texts_;
  // Indices of the entries that are patterns, of which long lists have few.
  std::vector<size_t> patterns_;
  // Models in FP8 list hundreds of modules, and each of tens of thousands of
  // modules is looked up. A text without a pattern matches only names that
  // contain it, so what is between two dots of the text is a component of the
  // name. `by_component_` has the indices of these texts, keyed by the last
  // such component; `others_` has all other indices.
  std::map<std::string, std::vector<size_t>, std::less<>> by_component_;
  std::vector<size_t> others_;
  mutable int64_t compared_ = 0;
};

}  // namespace shardplan
