// SPDX-License-Identifier: Apache-2.0
// Finds and reads shardplan.yaml, and selects the settings that apply to a run.
#include "cli/config.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "base/text.h"
#include "base/words.h"
#include "cli/commands/simulate/model.h"
#include "cli/flag_values.h"
#include "io/fence.h"
#include "io/hardware.h"
#include "io/load.h"
#include "io/paths.h"
#include "syntax/document.h"

namespace shardplan::cli {
namespace {

constexpr std::string_view kFileName = "shardplan.yaml";
constexpr size_t kMaxFiles = 8;  // in a chain of `extends`

// Values by key. A file that extends another replaces all values of a key.
using Values = std::map<std::string, std::vector<Setting>>;

bool is_file(const std::string& path, Host& host) {
  const auto info = host.file_info(path);
  return info && !info->directory;
}

// Appends the keys that set a flag of `command`, or, if it is "", any flag.
std::vector<std::string> with_flags(std::vector<std::string> keys,
                                    std::string_view command) {
  for (const Flag& flag : flags()) {
    if (flag.configurable &&
        (command.empty() || is_accepted_by(flag, command))) {
      keys.emplace_back(flag.name);
    }
  }
  return keys;
}

std::optional<std::string> scalar_text(const Node& node) {
  if (node.is_null() || node.is_list() || node.is_map()) return std::nullopt;
  return std::string(node.text());
}

// {fsdp: 8, tp: 4} -> "fsdp=8,tp=4"
std::optional<std::string> mesh_value(const Node& map, Diagnostics& diags) {
  std::string text;
  for (size_t i = 0; i < map.size(); ++i) {
    const auto size = scalar_text(map.item(i));
    if (!size) {
      return diags.error(Code::MalformedDocument, map.item(i).span(),
                         "the size of axis " + in_backticks(map.key(i)) +
                             " must be an integer, not " +
                             std::string(kind_name(map.item(i).kind())));
    }
    text += (i == 0 ? "" : ",") + std::string(map.key(i)) + "=" + *size;
  }
  return text;
}

// Returns the long flag name of a key. People write `_` in YAML for the `-` of
// a flag. All views are in one map, `views`, as in rules.
std::string flag_name(std::string_view key) {
  std::string name(key);
  std::ranges::replace(name, '_', '-');
  return name == "views" ? "view" : name;
}

// Reports flags that a configuration may not set, then the keys of a map that
// are not in `known` or mean the same as another one.
bool has_known_keys(const Node& map, const std::vector<std::string>& known,
                    Diagnostics& diags) {
  bool fine = true;
  for (size_t i = 0; i < map.size(); ++i) {
    const Flag* flag = find_flag(flag_name(map.key(i)));
    if (flag == nullptr || flag->configurable) continue;
    fine = false;
    diags
        .error(Code::UnknownKey, map.key_span(i),
               "`" + std::string(flag->name) + "` is not a setting")
        .help("`--" + std::string(flag->name) +
              "` can be given only on the "
              "command line");
  }
  if (!fine) return false;
  std::map<std::string, size_t> seen;
  for (size_t i = 0; i < map.size(); ++i) {
    const auto [first, is_new] = seen.emplace(flag_name(map.key(i)), i);
    if (!is_new) {
      fine = false;
      diags
          .error(Code::DuplicateKey, map.key_span(i),
                 in_backticks(map.key(first->second)) + " and " +
                     in_backticks(map.key(i)) + " are the same setting")
          .label(map.key_span(first->second), "first given here")
          .help("keep one of them");
      continue;
    }
    if (contains(known, flag_name(map.key(i)))) continue;
    report_unknown_key(map.key(i), map.key_span(i), known, diags);
    fine = false;
  }
  return fine;
}

class Reader {
 public:
  Reader(ConfigFrom from, std::string root, Host& host, Diagnostics& diags)
      : found_(from == ConfigFrom::Found),
        root_(std::move(root)),
        host_(host),
        diags_(diags) {}

  // Adds the settings of `path` over those of the files that it extends.
  // Returns false if something is wrong.
  bool read(const std::string& path, Span from) {
    if (!may_read(path, from)) return false;
    SourcePtr source = read_source(path, kWholeFile, host_, diags_);
    if (source == nullptr) return false;
    paths_.push_back(path);
    diags_.add_source(source);
    Diagnostics problems;
    const auto document = parse_settings(source, problems);
    if (!document) {
      report(problems, path, from);
      return false;
    }
    diags_.add_all(problems);
    const Node root = document->root();
    if (root.is_null()) return true;  // the file has only comments
    const std::string directory = directory_of(path);
    if (const auto base = root.find("extends")) {
      if (!require(*base, NodeKind::String, "`extends`", diags_) ||
          !read(join_path(directory, std::string(base->text())),
                base->span())) {
        return false;
      }
    }
    directory_ = directory;
    return read_keys(root);
  }

  Config result() && {
    Config config;
    for (const Flag& flag : flags()) {
      const auto found = values_.find(std::string(flag.name));
      if (found == values_.end()) continue;
      config.settings.insert(config.settings.end(), found->second.begin(),
                             found->second.end());
    }
    config.targets = std::move(targets_);
    config.files = std::move(paths_);
    return config;
  }

 private:
  bool may_read(const std::string& path, Span from) {
    if (contains(paths_, path)) {
      diags_.error(Code::Usage, from, in_backticks(path) + " extends itself");
      return false;
    }
    if (paths_.size() >= kMaxFiles) {
      diags_.error(Code::Usage, from,
                   "more than " + std::to_string(kMaxFiles) +
                       " configuration files extend one another");
      return false;
    }
    return !found_ ||
           (stays_inside(path, from) && is_trusted(path, root_, host_, diags_));
  }

  bool stays_inside(const std::string& path, Span from) {
    if (stays_within(path, root_, host_)) return true;
    diags_
        .error(Code::Usage, from,
               "an automatically found configuration may not name " +
                   in_backticks(path))
        .fact("it may name files in " + in_backticks(root_) +
              " (its repository, or its folder outside one) except in `.git`")
        .help("a configuration given by `--config FILE` may name any file");
    return false;
  }

  // Parses a document whose keys are all settings, or an empty document.
  static std::optional<Document> parse_settings(const SourcePtr& source,
                                                Diagnostics& problems) {
    auto document = parse_document(source, problems);
    if (!document) return std::nullopt;
    const Node root = document->root();
    if (root.is_null()) return document;
    if (!require(root, NodeKind::Map, "the configuration", problems) ||
        !has_known_keys(root, with_flags({"extends", "targets"}, ""),
                        problems)) {
      return std::nullopt;
    }
    return document;
  }

  // Reports why `path` is not a configuration. The problems of a file that
  // another file refers to are not quoted: whoever wrote the reference, or
  // whoever reads a job's log, may not be allowed to see other files of this
  // machine.
  void report(Diagnostics& problems, const std::string& path, Span from) {
    const bool led_here =
        found_ ? from || !is_itself(path) : !stays_within(path, root_, host_);
    if (!led_here) {
      diags_.add_all(problems);
      return;
    }
    diags_
        .error(Code::Usage, from,
               in_backticks(path) + " is not a configuration")
        .fact("its lines are not shown because another file refers to it")
        .help("`--config " + path + "` shows the problem");
  }

  // Returns false if the file is a symbolic link.
  bool is_itself(const std::string& path) {
    const auto folder = host_.real_path(folder_of(path));
    const auto real = host_.real_path(path);
    return folder && real && directory_of(*real) == *folder &&
           real->ends_with("/" + std::string(kFileName));
  }

  bool read_keys(const Node& root) {
    bool fine = true;
    for (size_t i = 0; i < root.size(); ++i) {
      if (root.key(i) == "targets") fine = read_targets(root.item(i)) && fine;
      const Flag* flag = find_flag(flag_name(root.key(i)));
      if (flag == nullptr) continue;  // `extends`, `targets`
      std::vector<Setting>& settings = values_[std::string(flag->name)];
      settings.clear();
      fine = read_value(*flag, root.item(i), settings) && fine;
    }
    return fine;
  }

  // Replaces all targets of a file that is extended, as any other key does.
  bool read_targets(const Node& map) {
    targets_.clear();
    if (!require(map, NodeKind::Map, "`targets`", diags_)) return false;
    bool fine = true;
    for (size_t i = 0; i < map.size(); ++i) {
      const Target named = {std::string(map.key(i)), map.key_span(i), "", {}};
      fine = read_target(named, map.item(i)) && fine;
    }
    return fine;
  }

  // One value of a key: a word for the target's name, and what it sets.
  struct Choice {
    std::string word;
    std::string model;  // for the key `model`; else empty
    std::vector<Setting> settings;
  };

  // A target with one choice for each key so far.
  struct Combination {
    Target target;
    std::vector<std::string> words;  // that tell it from others
  };

  bool read_target(const Target& named, const Node& map) {
    const std::string what = "target `" + named.name + "`";
    if (!require(map, NodeKind::Map, what, diags_) ||
        !has_known_keys(map, with_flags({"model"}, "check"), diags_)) {
      return false;
    }
    if (!map.find("model")) {
      diags_
          .error(Code::MalformedDocument, named.where, what + " has no `model`")
          .help("add `model: path/to/config.json`");
      return false;
    }
    std::vector<Combination> made = {{named, {}}};
    for (size_t i = 0; i < map.size(); ++i) {
      const auto choices = choices_of(flag_name(map.key(i)), map.item(i));
      if (!choices || !multiply(*choices, named, made)) return false;
    }
    for (auto& [target, words] : made) {
      if (!words.empty()) target.name += "[" + joined(words, ", ") + "]";
      if (find_named(targets_, target.name) != nullptr) {
        diags_.error(Code::DuplicateKey, target.where,
                     "two targets are named `" + target.name + "`");
        return false;
      }
      targets_.push_back(std::move(target));
    }
    return true;
  }

  // Extends every combination by every choice; the choices of the last key vary
  // fastest.
  bool multiply(const std::vector<Choice>& choices, const Target& named,
                std::vector<Combination>& made) {
    if (choices.size() > kMaxTargets / made.size()) {
      diags_
          .error(Code::Usage, named.where,
                 "target `" + named.name + "` expands to more than " +
                     std::to_string(kMaxTargets) + " targets")
          .fact("each key with a list of values multiplies them");
      return false;
    }
    std::vector<Combination> all;
    for (const Combination& combination : made) {
      for (const Choice& choice : choices) {
        auto& [target, words] = all.emplace_back(combination);
        if (!choice.model.empty()) target.model = choice.model;
        target.settings.insert(target.settings.end(), choice.settings.begin(),
                               choice.settings.end());
        if (choices.size() > 1) words.push_back(choice.word);
      }
    }
    made = std::move(all);
    return true;
  }

  // Returns the values of one key of a target: several if the key has a single
  // value but the file lists several.
  std::optional<std::vector<Choice>> choices_of(const std::string& key,
                                                const Node& node) {
    const Flag* flag = find_flag(key);  // null: `model`
    const bool is_matrix =
        node.is_list() &&
        (flag == nullptr || (!flag->repeats && flag->name != "axes"));
    if (is_matrix && node.size() == 0) {
      return diags_.error(
          Code::MalformedDocument, node.span(),
          "`" + key + "` is an empty list, so it defines no target");
    }
    std::vector<Choice> choices;
    for (size_t i = 0; i < (is_matrix ? node.size() : 1); ++i) {
      const Node value = is_matrix ? node.item(i) : node;
      Choice choice;
      if (flag == nullptr) {
        const auto path = require(value, NodeKind::String, "`model`", diags_);
        if (!path) return std::nullopt;
        choice.word = std::string(path->text());
        choice.model = join_path(directory_, choice.word);
        if (found_ && !stays_inside(choice.model, path->span())) {
          return std::nullopt;
        }
      } else {
        if (!read_value(*flag, value, choice.settings)) return std::nullopt;
        choice.word =
            choice.settings.empty() ? "no " + key : choice.settings[0].value;
      }
      choices.push_back(std::move(choice));
    }
    return choices;
  }

  bool read_value(const Flag& flag, const Node& node,
                  std::vector<Setting>& settings) {
    const bool read = read_values(flag, node, settings);
    if (!read || !found_) return read;
    for (const Setting& setting : settings) {
      for (const std::string& file : files_of(setting)) {
        if (!stays_inside(file, setting.where)) return false;
      }
    }
    return true;
  }

  bool read_values(const Flag& flag, const Node& node,
                   std::vector<Setting>& settings) {
    if (flag.takes == Takes::Nothing) {
      const auto on = require(node, NodeKind::Bool,
                              "`" + std::string(flag.name) + "`", diags_);
      if (on && on->boolean().value_or(false)) {
        settings.push_back({&flag, "", node.span(), directory_});
      }
      return on.has_value();
    }
    if (flag.name == "mesh" && node.is_map()) {
      const auto text = mesh_value(node, diags_);
      if (text) settings.push_back({&flag, *text, node.span(), directory_});
      return text.has_value();
    }
    if (flag.name == "view" && node.is_map()) {
      return read_views(flag, node, settings);
    }
    if (!node.is_list() || !(flag.repeats || flag.name == "axes")) {
      return read_scalar(flag, node, settings);
    }
    bool fine = true;
    for (size_t i = 0; i < node.size() && (fine || flag.repeats); ++i) {
      fine = read_scalar(flag, node.item(i), settings) && fine;
    }
    if (fine && flag.name == "axes" && !settings.empty()) {
      const std::string axes = joined_of(settings, ",", &Setting::value);
      settings = {{&flag, axes, node.span(), directory_}};
    }
    return fine;
  }

  // Reads {experts: {ep: 8, edp: 4}}; each inner map may also be text.
  bool read_views(const Flag& flag, const Node& map,
                  std::vector<Setting>& settings) {
    for (size_t i = 0; i < map.size(); ++i) {
      const Node& axes = map.item(i);
      const auto text =
          axes.is_map() ? mesh_value(axes, diags_) : scalar_text(axes);
      if (!text) {
        if (!axes.is_map()) {
          diags_
              .error(Code::MalformedDocument, axes.span(),
                     "the axes of view " + in_backticks(map.key(i)) +
                         " must be a map of axis to size, not " +
                         std::string(kind_name(axes.kind())))
              .help("write `views: {experts: {ep: 8, edp: 4}}`");
        }
        return false;
      }
      settings.push_back({&flag, std::string(map.key(i)) + ":" + *text,
                          axes.span(), directory_});
    }
    return true;
  }

  bool read_scalar(const Flag& flag, const Node& node,
                   std::vector<Setting>& settings) {
    if (const auto text = scalar_text(node)) {
      settings.push_back({&flag, *text, node.span(), directory_});
      return true;
    }
    diags_.error(Code::MalformedDocument, node.span(),
                 "`" + std::string(flag.name) + "` must be one value" +
                     (flag.repeats ? " or a list of them" : "") + ", not " +
                     std::string(kind_name(node.kind())));
    return false;
  }

  bool found_;
  std::string root_;
  Host& host_;
  Diagnostics& diags_;
  std::string directory_;  // of the file whose keys are read
  std::vector<std::string> paths_;
  Values values_;
  std::vector<Target> targets_;
};

// Returns whether the setting determines something that a saved plan already
// contains.
bool makes_a_plan(std::string_view name) {
  return has_word(
      "rules dialect table set pattern flax-compat mesh devices slices "
      "axes min-size on-indivisible no-strict declare",
      name);
}

// Settings that describe the other mesh on which a saved plan's specs are to be
// placed.
constexpr std::string_view kMakesAMesh = "mesh devices slices axes";

bool overrides(std::string_view flag, std::string_view key) {
  constexpr std::string_view kFormat = "format json";
  constexpr std::string_view kSetByTopology = "devices slices hardware";
  return flag == key || (has_word(kFormat, flag) && has_word(kFormat, key)) ||
         (flag == "topology" && has_word(kSetByTopology, key)) ||
         (flag == "plan" && (makes_a_plan(key) || key == "view")) ||
         (makes_a_plan(flag) && key == "plan");
}

}  // namespace

std::optional<std::string> find_config(Host& host) {
  if (is_file(std::string(kFileName), host)) return std::string(kFileName);
  std::string directory = host.working_directory();
  const auto start = host.file_info(directory);
  while (!host.file_info(join_path(directory, ".git"))) {
    directory = directory == "/" ? "" : directory_of(directory);
    const auto info = host.file_info(directory);
    if (directory.empty() || (start && info && info->device != start->device)) {
      break;
    }
    std::string path = join_path(directory, std::string(kFileName));
    if (is_file(path, host)) return path;
  }
  return std::nullopt;
}

std::optional<Config> read_config(const std::string& path, ConfigFrom from,
                                  Host& host, Diagnostics& diags) {
  Reader reader(from, repository_of(path, host), host, diags);
  if (!reader.read(path, {})) return std::nullopt;
  return std::move(reader).result();
}

std::vector<std::string> files_of(const Setting& setting) {
  const std::string& value = setting.value;
  const std::string_view flag = setting.flag->name;
  if (setting.flag->takes == Takes::File) {
    const std::string path = path_of(setting);
    if (path == "-" || path.starts_with('@')) return {};
    return {path};
  }
  std::vector<std::string> files;
  if (flag == "hardware") {
    files = split_list(value);
    std::erase_if(files, std::not_fn(is_hardware_path));
    // Every command except `sweep` reads a name with a comma as one file.
    if (files.size() > 1) files.push_back(value);
  } else if (flag == "input-ids" && !is_written_out(value)) {
    files = {value};
  } else if (flag == "input" && contains(value, '=')) {  // NAME=FILE
    files = {value.substr(value.find('=') + 1)};
  }
  for (std::string& file : files) file = join_path(setting.directory, file);
  return files;
}

std::vector<Setting> remaining_settings(const std::vector<Setting>& config,
                                        const std::vector<Setting>& flags,
                                        std::string_view command) {
  const bool lacks_shard =
      command == "inspect" && find_setting(flags, "shard") == nullptr;
  const bool lacks_before =
      command == "diff" && find_setting(flags, "before") == nullptr;
  std::vector<Setting> remaining = config;
  std::erase_if(remaining, [&](const Setting& setting) {
    const Flag& key = *setting.flag;
    return !is_accepted_by(key, command) || (lacks_shard && makes_plan(key)) ||
           (lacks_before && needs_before(key)) ||
           std::ranges::any_of(flags, [&](const Setting& flag) {
             return overrides(flag.flag->name, key.name);
           });
  });
  return remaining;
}

void check_conflicts(const std::vector<Setting>& settings, Diagnostics& diags) {
  const Setting* const plan = find_setting(settings, "plan");
  const bool other_mesh = find_setting(settings, "mesh") != nullptr;
  const auto other = std::ranges::find_if(settings, [&](const Setting& s) {
    return makes_a_plan(s.flag->name) &&
           !(other_mesh && has_word(kMakesAMesh, s.flag->name));
  });
  if (plan != nullptr && other != settings.end()) {
    diags
        .error(Code::Usage, other->where,
               title_of(*other) + " cannot be used with " + title_of(*plan))
        .help("a saved plan contains its own mesh, rules and placements")
        .help("`--mesh` applies its requested specs to another mesh");
  }
  const Setting* const json = find_setting(settings, "json");
  const Setting* const format = find_setting(settings, "format");
  if (json != nullptr && format != nullptr && format->value != "json") {
    diags.error(Code::Usage, format->where,
                title_of(*json) + " cannot be used with " + title_of(*format) +
                    " of " + in_backticks(format->value));
  }
}

}  // namespace shardplan::cli
