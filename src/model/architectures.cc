// SPDX-License-Identifier: Apache-2.0
#include "model/architectures.h"

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "base/checked.h"
#include "base/shipped.h"
#include "base/words.h"
#include "model/config_classes.h"
#include "model/read_once.h"

namespace shardplan {
namespace {

constexpr std::string_view kFolder = "architectures";
// The file of what all architectures share.
constexpr std::string_view kBlocks = "blocks";

// The entry of an architecture file in the index, read from lines that every
// such file has, so that the needed file is found without parsing the others:
// `model_types: [a, b]`, `like: a`, and below `classes:` a class per line, or
// the classes of a beginning (`Llama: [ForCausalLM, Model]`), indented by two
// blanks. A test compares the index with the parsed files.
struct IndexEntry {
  std::string name;
  std::string like;
  std::vector<std::string> model_types;
  std::vector<std::string> classes;
  bool computes = false;
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '[')) {
    text.remove_prefix(1);
  }
  while (!text.empty() && (text.back() == ' ' || text.back() == ']')) {
    text.remove_suffix(1);
  }
  return text;
}

// Returns the items of "[a, b]".
std::vector<std::string> flow_items(std::string_view text) {
  std::vector<std::string> items;
  for (text = trimmed(text); !text.empty();) {
    const size_t comma = std::min(text.find(','), text.size());
    items.emplace_back(trimmed(text.substr(0, comma)));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return items;
}

IndexEntry index_entry(const ShippedFile& file) {
  IndexEntry entry;
  entry.name = shipped_name(file);
  bool in_classes = false;
  for (std::string_view rest = file.text; !rest.empty();) {
    const std::string_view line = next_line(rest);
    constexpr std::string_view kTypes = "model_types:";
    constexpr std::string_view kLike = "like:";
    entry.computes |= line == "computes: true";
    if (line.starts_with(kLike)) {
      entry.like = trimmed(line.substr(kLike.size()));
    }
    if (line.starts_with(kTypes)) {
      entry.model_types = flow_items(line.substr(kTypes.size()));
    }
    if (!line.empty() && line.front() != ' ' && line.front() != '#') {
      in_classes = line.starts_with("classes:");
    } else if (in_classes && line.starts_with("  ") && line.size() > 2 &&
               line[2] != ' ' && line[2] != '#') {
      const size_t colon = std::min(line.find(':'), line.size());
      const std::string name(line.substr(2, colon - 2));
      const std::string_view value =
          line.substr(std::min(colon + 1, line.size()));
      const bool is_one = !value.starts_with(" [") ||
                          value.starts_with(" [{") || value == " []";
      if (is_one) {
        entry.classes.push_back(name);
        continue;
      }
      for (const std::string& ending : flow_items(value)) {
        entry.classes.push_back(name + ending);
      }
    }
  }
  return entry;
}

const std::vector<IndexEntry>& index() {
  static const std::vector<IndexEntry> kIndex = [] {
    std::vector<IndexEntry> entries;
    for (const ShippedFile& file : shipped_files(kFolder)) {
      if (file.path.ends_with(".yaml") && shipped_name(file) != kBlocks) {
        entries.push_back(index_entry(file));
      }
    }
    return entries;
  }();
  return kIndex;
}

// Throws InternalError with the place of the first mistake: a mistake in a
// shipped file is a bug in shardplan.
void check_sound(bool sound, const Diagnostics& diags) {
  if (sound) return;
  const Diagnostic& first = diags.all().front();
  const Span where = first.labels.front().where;
  throw InternalError(where.file->name() + ":" +
                      std::to_string(where.file->position(where.begin).line) +
                      ": " + first.message);
}

// Reads each file once, on first use; architectures never change.
class Library {
 public:
  std::shared_ptr<const Architecture> find(std::string_view name) {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    if (find_named(index(), name) == nullptr) return nullptr;
    return read_.get(name, [&] {
      Diagnostics diags;
      auto result = read_architecture(
          find_shipped(kFolder, name, diags), shared(),
          [this](std::string_view other) { return find(other); }, diags);
      check_sound(result != nullptr, diags);
      return result;
    });
  }

  const Architecture& shared() {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    if (!shared_) {
      Diagnostics diags;
      shared_ = read_shared_architecture(find_shipped(kFolder, kBlocks, diags),
                                         diags);
      check_sound(shared_.has_value(), diags);
    }
    return *shared_;
  }

 private:
  std::recursive_mutex mutex_;
  ReadOnce<Architecture> read_;
  std::optional<Architecture> shared_;
};

Library& library() {
  static Library the_library;
  return the_library;
}

// How well an architecture fits if several have a class that the config names.
// An architecture is preferred if the config has its parts, or if neither has
// parts; then one whose model classes have names like the class. For example,
// transformers 5 also writes LlamaForCausalLM for InternLM 3.
struct ClassFit {
  bool has_parts = false;
  size_t like = 0;  // characters in common
  auto operator<=>(const ClassFit&) const = default;
};

ClassFit fit_of(const IndexEntry& entry, std::string_view class_name,
                const Node& config) {
  ClassFit fit;
  const auto architecture = find_architecture(entry.name);
  const auto& parts = architecture->sections;
  fit.has_parts =
      parts.empty() || std::ranges::any_of(parts, [&](const auto& part) {
        const auto node = config.find(part.key);
        return node && node->is_map();
      });
  // An architecture without parts does not read keys inside a part.
  if (parts.empty() && config.find("text_config")) fit.has_parts = false;
  for (const std::string& type : entry.model_types) {
    const auto own = find_config_class(type);
    if (own != nullptr && class_name.starts_with(own->prefix())) {
      fit.like = std::max(fit.like, own->prefix().size());
    }
  }
  return fit;
}

ArchitectureChoice choice_by_class(const Node& config) {
  const IndexEntry* best = nullptr;
  ClassFit best_fit;
  for (const std::string_view name : named_classes(config)) {
    for (const IndexEntry& entry : index()) {
      if (!contains(entry.classes, name)) continue;
      const ClassFit fit = fit_of(entry, name, config);
      if (best != nullptr && fit <= best_fit) continue;
      best = &entry;
      best_fit = fit;
    }
    if (best != nullptr) break;
  }
  return best == nullptr ? ArchitectureChoice{}
                         : choose_class(find_architecture(best->name), config);
}

// Returns "ForCausalLM" for a class of any type; "Model" for one without a
// head.
std::string_view head_part(std::string_view class_name) {
  const size_t at = class_name.rfind("For");
  if (at != std::string_view::npos) return class_name.substr(at);
  return class_name.ends_with("Model") ? "Model" : std::string_view();
}

// Returns whether no shipped architecture knows the config's type or classes. A
// known class has tensors with its own names and must not be read as another.
bool is_unknown(const Node& config,
                const std::vector<std::string_view>& classes) {
  const auto type = config.find("model_type");
  if (!type || !type->is_string()) return false;
  return std::ranges::none_of(index(), [&](const IndexEntry& entry) {
    return contains(entry.model_types, type->text()) ||
           std::ranges::any_of(classes, [&](std::string_view name) {
             return contains(entry.classes, name);
           });
  });
}

}  // namespace

std::vector<std::string_view> named_classes(const Node& config) {
  std::vector<std::string_view> names;
  const auto list = config.find("architectures");
  for (size_t i = 0; list && list->is_list() && i < list->size(); ++i) {
    names.push_back(list->item(i).text());
  }
  return names;
}

ArchitectureChoice choose_architecture(const Node& config) {
  if (!config.is_map()) return {};
  const auto model_type = config.find("model_type");
  const bool typed = model_type && !model_type->is_null();
  for (const IndexEntry& entry : index()) {
    if (!typed || !contains(entry.model_types, model_type->text())) continue;
    return choose_class(find_architecture(entry.name), config);
  }
  return typed ? ArchitectureChoice{} : choice_by_class(config);
}

ArchitectureChoice choose_class(
    std::shared_ptr<const Architecture> architecture, const Node& config) {
  ArchitectureChoice choice{std::move(architecture), nullptr};
  const auto& known = choice.architecture->classes;
  const ArchitectureClass*& found = choice.model_class;
  const auto named = named_classes(config);
  if (named.empty()) found = &known.front();
  for (const std::string_view name : named) {
    if (found == nullptr) found = choice.architecture->find_class(name);
  }
  if (found != nullptr || !is_unknown(config, named)) return choice;
  for (const std::string_view name : named) {
    const std::string_view head = head_part(name);
    for (const ArchitectureClass& each : known) {
      if (found != nullptr || head.empty()) break;
      if (head_part(each.class_name) == head) found = &each;
    }
  }
  return choice;
}

const ConfigSection* flat_part(const ArchitectureChoice& whole,
                               const Node& config) {
  if (!whole) return nullptr;
  for (const ConfigSection& part : whole.architecture->sections) {
    if (part.is_flat(config)) return &part;
  }
  return nullptr;
}

std::vector<std::string> known_model_types() {
  std::vector<std::string> names;
  for (const IndexEntry& entry : index()) {
    names.insert(names.end(), entry.model_types.begin(),
                 entry.model_types.end());
  }
  std::ranges::sort(names);
  return names;
}

std::shared_ptr<const Architecture> find_architecture(std::string_view name) {
  return library().find(name);
}

std::vector<std::string> architecture_names() { return all_names(index()); }

std::vector<std::string> architectures_with_class(std::string_view name) {
  std::vector<std::string> names;
  for (const IndexEntry& entry : index()) {
    if (contains(entry.classes, name)) names.push_back(entry.name);
  }
  return names;
}

std::vector<std::string> computing_architectures() {
  std::vector<std::string> names;
  for (const IndexEntry& entry : index()) {
    if (entry.computes) names.push_back(entry.name);
  }
  return names;
}

std::vector<std::string> computing_architectures_general_first() {
  std::map<std::string, int> builders;
  for (const IndexEntry& entry : index()) {
    for (const IndexEntry* at = &entry; !at->like.empty();
         at = find_named(index(), at->like)) {
      ++builders[at->like];
    }
  }
  std::vector<std::string> names = computing_architectures();
  std::ranges::stable_sort(names, std::greater(), [&](const std::string& name) {
    return builders[name];
  });
  return names;
}

std::shared_ptr<const Architecture> read_user_architecture(
    const SourcePtr& source, const FindArchitecture& find, Diagnostics& diags) {
  return read_architecture(source, library().shared(), find, diags);
}

}  // namespace shardplan
