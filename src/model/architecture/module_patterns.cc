// SPDX-License-Identifier: Apache-2.0
#include "model/architecture/module_patterns.h"

#include <algorithm>
#include <utility>

#include <re2/re2.h>

#include "base/text.h"
#include "base/words.h"
#include "model/architecture/architecture.h"

namespace shardplan {
namespace {

using re2::RE2;

constexpr int64_t kPatternMemory = int64_t{1} << 20;
constexpr size_t kMaxEntries = 100'000;
constexpr std::string_view kRegexMark = "re:";

std::shared_ptr<const RE2> compiled(std::string_view pattern) {
  RE2::Options options(RE2::Quiet);
  options.set_max_mem(kPatternMemory);
  options.set_never_capture(true);
  return std::make_shared<const RE2>(
      re2::StringPiece(pattern.data(), pattern.size()), options);
}

re2::StringPiece piece(std::string_view text) {
  return {text.data(), text.size()};
}

bool is_plain(std::string_view text) {
  return text.find_first_of("*+?()[]{}|^$\\") == text.npos;
}

// Translates `*` and `?` of fnmatch, which also match dots. Brackets are not
// supported.
std::string glob_regex(std::string_view glob) {
  std::string regex;
  for (const char c : glob) {
    if (c == '*') {
      regex += ".*";
    } else if (c == '?') {
      regex += '.';
    } else {
      regex += RE2::QuoteMeta(re2::StringPiece(&c, 1));
    }
  }
  return regex;
}

std::string_view last_component(std::string_view name) {
  return name.substr(name.rfind('.') + 1);
}

// Returns the last component with a dot on either side; empty if there is none.
std::string_view inner_component(std::string_view text) {
  const size_t last = text.rfind('.');
  if (last == text.npos || last == 0) return {};
  const size_t before = text.rfind('.', last - 1);
  if (before == text.npos) return {};
  return text.substr(before + 1, last - before - 1);
}

// Returns where `path` continues after the components in `names`, or nothing if
// it does not begin with them. A `*` is any number, which is appended to
// `numbers`.
std::optional<size_t> rest_behind(std::string_view names, std::string_view path,
                                  std::vector<std::string_view>& numbers) {
  size_t at = 0;
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = std::min(names.find('.', begin), names.size());
    const size_t stop = std::min(path.find('.', at), path.size());
    if (at > path.size()) return std::nullopt;
    const std::string_view mine = path.substr(at, stop - at);
    const std::string_view wanted = names.substr(begin, end - begin);
    const bool fits =
        wanted == "*" ? std::ranges::all_of(mine, is_digit) : wanted == mine;
    if (!fits) return std::nullopt;
    if (wanted == "*") numbers.push_back(mine);
    begin = end + 1;
    at = stop + 1;
  }
  return std::min(at - 1, path.size());
}

std::string with_numbers(std::string_view names,
                         const std::vector<std::string_view>& numbers) {
  std::string result;
  size_t next = 0;
  for (const char c : names) {
    if (c != '*') {
      result += c;
    } else if (next < numbers.size()) {
      result += numbers[next++];
    }
  }
  return result;
}

}  // namespace

bool is_around(std::string_view text, std::string_view name) {
  return name.starts_with(text) &&
         (name.size() == text.size() || name[text.size()] == '.');
}

std::string name_in_memory(const std::vector<ModuleName>& names,
                           std::string_view path) {
  std::string best(path);
  size_t longest = 0;
  for (const ModuleName& name : names) {
    std::vector<std::string_view> numbers;
    const auto rest = rest_behind(name.saved, path, numbers);
    if (!rest || name.saved.size() <= longest) continue;
    longest = name.saved.size();
    best = with_numbers(name.in_memory, numbers);
    best += path.substr(*rest);
  }
  return best;
}

std::optional<ModulePatterns> ModulePatterns::read(ConfigReader& config,
                                                   std::string_view key,
                                                   const Node& list) {
  if (!list.is_list()) {
    config.ill_typed(key, list, kind_name(NodeKind::List));
    return std::nullopt;
  }
  std::vector<std::string> texts;
  for (size_t i = 0; i < list.size(); ++i) {
    const Node item = list.item(i);
    for (size_t k = 0; k < (item.is_list() ? item.size() : 1); ++k) {
      const Node entry = item.is_list() ? item.item(k) : item;
      texts.emplace_back(entry.is_string() ? entry.text() : "");
    }
  }
  return of(config, key, texts);
}

std::optional<ModulePatterns> ModulePatterns::of(
    ConfigReader& config, std::string_view key,
    const std::vector<std::string>& texts) {
  ModulePatterns patterns;
  for (const std::string& text : texts) {
    if (!patterns.add(config, key, text)) return std::nullopt;
  }
  return patterns;
}

bool ModulePatterns::add(ConfigReader& config, std::string_view key,
                         std::string_view text) {
  if (text.empty()) {
    config.refuse(key,
                  config.shown(key) + " has an entry that names no module");
    return false;
  }
  if (entries_.size() == kMaxEntries) {
    config.refuse(key, config.shown(key) + " has too many entries");
    return false;
  }
  Entry entry{std::string(text), nullptr, nullptr};
  const bool marked = entry.text.starts_with(kRegexMark);
  const std::string_view pattern =
      std::string_view(entry.text).substr(marked ? kRegexMark.size() : 0);
  if (marked || !is_plain(pattern)) entry.regex = compiled(pattern);
  // A glob such as `*.attn.*` is not a valid regular expression and need not
  // be.
  if (entry.regex != nullptr && !entry.regex->ok()) {
    if (marked) {
      config
          .refuse(key, in_backticks(entry.text) +
                           " cannot be read: " + entry.regex->error())
          .fact("in " + config.shown(key));
      return false;
    }
    entry.regex = nullptr;
  }
  if (!marked && pattern.find_first_of("*?") != pattern.npos) {
    entry.glob = compiled(glob_regex(pattern));
    entry.lead = pattern.find_first_of("*?");
  }
  texts_.insert(entry.text);
  const bool is_pattern = entry.regex != nullptr || entry.glob != nullptr;
  const std::string_view inner = inner_component(entry.text);
  if (is_pattern) patterns_.push_back(entries_.size());
  if (is_pattern || inner.empty()) {
    others_.push_back(entries_.size());
  } else {
    by_component_[std::string(inner)].push_back(entries_.size());
  }
  entries_.push_back(std::move(entry));
  return true;
}

bool ModulePatterns::means(const Entry& entry, std::string_view name,
                           PatternStyle style) {
  const std::string_view text = entry.text;
  switch (style) {
    case PatternStyle::Substring:
      return contains(name, text);
    case PatternStyle::Prefix:
      return text == last_component(name) || text == name ||
             contains(name, std::string(text) + ".");
    case PatternStyle::Modules: {
      if (name.ends_with(text)) return true;
      if (entry.regex == nullptr || text.starts_with(kRegexMark)) {
        // To transformers its dots match any character, which no real list
        // relies on.
        return is_around(text, name) ||
               (text.ends_with('.') && name.starts_with(text));
      }
      for (size_t end = 1; end <= name.size(); ++end) {
        const bool boundary =
            end == name.size() || name[end] == '.' || name[end - 1] == '.';
        if (boundary &&
            RE2::FullMatch(piece(name.substr(0, end)), *entry.regex)) {
          return true;
        }
      }
      return false;
    }
    case PatternStyle::Names:
      if (!text.starts_with(kRegexMark)) return text == name;
      return entry.regex->Match(piece(name), 0, name.size(), RE2::ANCHOR_START,
                                nullptr, 0);
    case PatternStyle::Globs:
      if (entry.glob != nullptr) {
        return name.starts_with(text.substr(0, entry.lead)) &&
               RE2::FullMatch(piece(name), *entry.glob);
      }
      return is_around(text, name);
    case PatternStyle::Suffix:
      return name.ends_with(text);
  }
  return false;
}

bool ModulePatterns::is_all_of(std::string_view name) const {
  if (has(name)) return true;
  compared_ += std::ssize(patterns_);
  return std::ranges::any_of(patterns_, [&](size_t i) {
    const Entry& entry = entries_[i];
    return entry.regex != nullptr && !entry.text.starts_with(kRegexMark) &&
           RE2::FullMatch(piece(name), *entry.regex);
  });
}

std::string_view ModulePatterns::unreadable() const {
  for (const Entry& entry : entries_) {
    if (entry.regex == nullptr && !is_plain(entry.text)) return entry.text;
  }
  return {};
}

bool ModulePatterns::any_means(const std::vector<size_t>& entries,
                               std::string_view name,
                               PatternStyle style) const {
  compared_ += std::ssize(entries);
  return std::ranges::any_of(
      entries, [&](size_t i) { return means(entries_[i], name, style); });
}

bool ModulePatterns::matches(std::string_view name, PatternStyle style) const {
  if (has(name)) return true;
  if (style == PatternStyle::Globs) {
    for (size_t dot = name.find('.'); dot != name.npos;
         dot = name.find('.', dot + 1)) {
      if (has(name.substr(0, dot))) return true;
    }
  }
  if (style == PatternStyle::Names || style == PatternStyle::Globs) {
    return any_means(patterns_, name, style);
  }
  if (any_means(others_, name, style)) return true;
  for (std::string_view rest = name; !rest.empty() && !by_component_.empty();) {
    const auto found = by_component_.find(next_part(rest, '.'));
    if (found != by_component_.end() && any_means(found->second, name, style)) {
      return true;
    }
  }
  return false;
}

bool ModulePatterns::has_paths() const {
  return !patterns_.empty() ||
         std::ranges::any_of(entries_, [](const Entry& entry) {
           return contains(entry.text, ".");
         });
}

}  // namespace shardplan
