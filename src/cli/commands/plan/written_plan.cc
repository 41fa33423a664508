// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/plan/written_plan.h"

#include <algorithm>
#include <map>
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

// Returns whether `c` is a letter or a digit.
bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
         (c >= 'A' && c <= 'Z');
}

// Returns whether the text has only letters, digits and these marks.
bool is_plain(std::string_view text, std::string_view marks) {
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    return is_word(c) || marks.find(c) != std::string_view::npos;
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
  for (size_t i = shared; i < there.size(); ++i) {
    seen += there[i] + (i + 1 < there.size() ? "/" : "");
  }
  return seen;
}

// Quotes a text that YAML might not read as that text.
std::string in_yaml(const std::string& text) {
  if (is_plain(text, "=:,./_-") && is_word(text.front()) &&
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
  std::vector<std::string_view> names;
  for (const PlanFlag& flag : flags) {
    if (!contains(names, std::string_view(flag.name))) {
      names.push_back(flag.name);
    }
  }
  for (const std::string_view name : names) {
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
        "    " + std::string(name) + ": " +
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
  for (const GivenFlag& given : options.given) {
    const std::string_view name = given.name;
    const Flag& flag = *find_flag(name);
    const bool counts =
        (flag.group == "Inputs" || flag.group == "Memory") &&
        is_accepted_by(flag, "analyze") && !has_word(kAnswered, name) &&
        std::ranges::none_of(
            own, [&](const PlanFlag& each) { return each.name == name; });
    if (counts) flags.push_back({std::string(name), given.value});
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
  const std::string text =
      config_text(*path, model, flags, options.config, context.host);
  if (!write_file(context, *path,
                  [&](const TextSink& sink) { return sink(text); })) {
    return false;
  }
  report.notes.push_back("wrote the target `plan` to " + in_backticks(*path) +
                         ": `shardplan check --config " + in_shell(*path) +
                         "` checks it");
  return true;
}

}  // namespace shardplan::cli
