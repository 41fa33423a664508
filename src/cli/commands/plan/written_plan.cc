// SPDX-License-Identifier: Apache-2.0
// Writes a plan as a command line and as a configuration.
#include "cli/commands/plan/written_plan.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include "base/text.h"
#include "base/words.h"
#include "cli/config.h"
#include "cli/flag_values.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "cli/output.h"

namespace shardplan::cli {
namespace {

// Returns whether the text has only letters, digits and these marks.
bool is_plain(std::string_view text, std::string_view marks) {
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    return is_letter(c) || is_digit(c) || contains(marks, c);
  });
}

std::string in_shell(const std::string& text) {
  if (is_plain(text, "@%+=:,./_-")) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

std::string command_text(const std::string& model,
                         const std::vector<PlanFlag>& flags) {
  std::string text = "shardplan analyze " + in_shell(model);
  for (const PlanFlag& flag : flags) {
    text += " --" + flag.name;
    if (!flag.value.empty()) text += " " + in_shell(flag.value);
  }
  return text;
}

// Returns the names of the folders from the root on, and of the file.
std::vector<std::string> parts_of(const std::string& path, Host& host) {
  const std::string from_root =
      path.starts_with('/') ? path : host.working_directory() + "/" + path;
  std::vector<std::string> parts;
  for (std::string& part : split_list(from_root, '/')) {
    if (part.empty() || part == ".") continue;
    if (part == ".." && !parts.empty()) {
      parts.pop_back();
    } else {
      parts.push_back(std::move(part));
    }
  }
  return parts;
}

// Returns how the file `from` refers to `path`, which is relative to the
// working directory.
std::string seen_from(const std::string& from, const std::string& path,
                      Host& host) {
  if (path.starts_with('@') || path.starts_with('/')) return path;
  const std::vector<std::string> here = parts_of(from, host);
  const std::vector<std::string> there = parts_of(path, host);
  size_t shared = 0;
  while (shared + 1 < here.size() && shared + 1 < there.size() &&
         here[shared] == there[shared]) {
    ++shared;
  }
  std::string seen;
  for (size_t i = shared; i + 1 < here.size(); ++i) seen += "../";
  return seen + joined(std::span(there).subspan(shared), "/");
}

// Quotes a text that YAML might not read as that text.
std::string in_yaml(const std::string& text) {
  if (is_plain(text, "=:,./_-") &&
      (is_letter(text.front()) || is_digit(text.front())) &&
      !text.ends_with(':')) {
    return text;
  }
  std::string quoted;
  append_printable_json(quoted, text);
  return quoted;
}

std::string config_text(const std::string& path, const std::string& model,
                        const std::vector<PlanFlag>& flags,
                        const std::optional<std::string>& extended,
                        Host& host) {
  std::string text =
      "# Written by `shardplan plan`; `shardplan check --config` checks it.\n";
  if (extended) {
    text += "extends: " + in_yaml(seen_from(path, *extended, host)) + "\n";
  }
  text +=
      "targets:\n  plan:\n    model: " + in_yaml(seen_from(path, model, host)) +
      "\n";
  std::vector<std::string> names;
  for (const PlanFlag& flag : flags) {
    if (!contains(names, flag.name)) names.push_back(flag.name);
  }
  for (const std::string& name : names) {
    const Flag& known = *find_flag(name);
    std::vector<std::string> values;
    for (const PlanFlag& flag : flags) {
      if (flag.name != name) continue;
      const bool is_file =
          contains(files_of({&known, flag.value, {}, ""}), flag.value);
      values.push_back(known.takes == Takes::Nothing ? "true"
                       : is_file ? in_yaml(seen_from(path, flag.value, host))
                                 : in_yaml(flag.value));
    }
    text +=
        "    " + name + ": " +
        (known.repeats ? "[" + joined(values, ", ") + "]" : values.front()) +
        "\n";
  }
  return text;
}

}  // namespace

void add_given_flags(const Options& options, std::vector<PlanFlag>& flags) {
  // Flags that the plan itself determines, or that concern only this run.
  constexpr std::string_view kAnswered =
      "devices rules remat microbatches mode jobs max-memory config "
      "isolated";
  const std::vector<PlanFlag> own = flags;
  for (const auto& [name, value] : options.given) {
    const Flag& flag = *find_flag(name);
    if ((flag.group == "Inputs" || flag.group == "Memory") &&
        is_accepted_by(flag, "analyze") && !has_word(kAnswered, name) &&
        find_named(own, name) == nullptr) {
      flags.push_back({std::string(name), value});
    }
  }
}

bool hand_over(Context& context, const std::vector<PlanFlag>& flags,
               Report& report) {
  const Options& options = context.options;
  const std::string& model = options.arguments.front();
  report.next_step = command_text(model, flags);
  const auto& path = options.plan.write_config;
  if (!path) return true;
  if (model == "-") {
    context.diags
        .error(Code::Usage, {}, "`--write-config` needs a model in a file")
        .help("write the model to a file instead of standard input");
    return false;
  }
  if (!write_file(
          context, *path,
          config_text(*path, model, flags, options.config, context.host))) {
    return false;
  }
  report.notes.push_back("wrote the target `plan` to " + in_backticks(*path) +
                         ": `shardplan check --config " + in_shell(*path) +
                         "` checks it");
  return true;
}

}  // namespace shardplan::cli
