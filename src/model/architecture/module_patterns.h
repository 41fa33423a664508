// SPDX-License-Identifier: Apache-2.0
// ModulePatterns: lists of modules in the quantisation of a config, matched
// against names of modules as the library does that reads the list.
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

// How an entry means a module.
enum class PatternStyle : uint8_t {
  // transformers 4, FP8 and AWQ: the last component, or a part of the name.
  Substring,
  // transformers 4, bitsandbytes: the last component, the name, or what stands
  // before a dot in it.
  Prefix,
  // transformers 5: a regular expression for the name or for one of the modules
  // around it, or how the name ends.
  Modules,
  // compressed-tensors: the name, or after `re:` a regular expression for how
  // the name begins.
  Names,
  // ModelOpt: the name or that of a module around it; `*`, `?`.
  Globs,
  // GPTQ: how the name ends.
  Suffix,
};

struct ModuleName;

// Whether the text is the name, or that of a module around it.
bool is_around(std::string_view text, std::string_view name);
// What the module that is saved under `path` is called in memory: by the
// longest of `names` that it begins with, else as it is saved.
std::string name_in_memory(const std::vector<ModuleName>& names,
                           std::string_view path);

class ModulePatterns {
 public:
  // Reads a list of texts, or of lists of such. Empty when something was
  // reported: an entry that is no text, or a pattern that cannot be read.
  static std::optional<ModulePatterns> read(ConfigReader& config,
                                            std::string_view key,
                                            const Node& list);

  // The same of texts that the config says under `key`.
  static std::optional<ModulePatterns> of(
      ConfigReader& config, std::string_view key,
      const std::vector<std::string>& texts);

  // Whether an entry means the module.
  bool matches(std::string_view name, PatternStyle style) const;
  // Whether there is an entry of that very text.
  bool has(std::string_view text) const { return texts_.contains(text); }
  // Whether an entry is that text, or a regular expression for all of it.
  bool is_all_of(std::string_view name) const;
  // The first entry that Python's `re`, and so transformers 5, does not take;
  // empty where there is none.
  std::string_view unreadable() const;
  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  // Whether an entry means single modules, not all of a name: "a.b", "re:x".
  bool has_paths() const;
  // How many entries names were compared with so far: what it cost.
  int64_t compared() const { return compared_; }

 private:
  struct Entry {
    std::string text;
    // Of what stands behind `re:`, or of the whole; null where it is none.
    std::shared_ptr<const re2::RE2> regex;
    std::shared_ptr<const re2::RE2> glob;  // null without `*` and `?`
    size_t lead = 0;  // characters of the glob before the first of these
  };
  static bool means(const Entry& entry, std::string_view name,
                    PatternStyle style);
  bool add(ConfigReader& config, std::string_view key, std::string_view text);
  // Whether one of these entries means the module.
  bool any_means(const std::vector<size_t>& entries, std::string_view name,
                 PatternStyle style) const;

  std::vector<Entry> entries_;
  std::set<std::string, std::less<>> texts_;
  // Those that are more than a name: of long lists, few.
  std::vector<size_t> patterns_;
  // Models in FP8 list hundreds of modules, and each of tens of thousands is
  // asked. Texts that are no pattern mean names alone that contain them, so
  // that what stands between two dots of a text is a component of the name:
  // texts by their last one, and the others.
  std::map<std::string, std::vector<size_t>, std::less<>> by_component_;
  std::vector<size_t> others_;
  mutable int64_t compared_ = 0;
};

}  // namespace shardplan
