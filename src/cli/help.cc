// SPDX-License-Identifier: Apache-2.0
#include "cli/help.h"

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "cli/flag_values.h"
#include "cli/flags.h"

namespace shardplan::cli {
namespace {

constexpr int kWidth = 80;

std::string heading(std::string_view text, bool colour) {
  const std::string name(text);
  return colour ? "\x1b[1m" + name + "\x1b[0m\n" : name + "\n";
}

// Breaks at blanks so that lines starting at column `indent` fit 80 columns;
// the first line is already there.
std::string wrapped(std::string_view text, int indent) {
  std::string result;
  int used = indent;
  for (const std::string& word : split_list(text, ' ')) {
    const int width = display_width(word);
    if (used > indent && used + 1 + width > kWidth) {
      result += "\n" + std::string(static_cast<size_t>(indent), ' ');
      used = indent;
    } else if (used > indent) {
      result += ' ';
      ++used;
    }
    result += word;
    used += width;
  }
  return result + "\n";
}

struct Entry {
  std::string left;
  std::string right;
};

std::string entries_text(const std::vector<Entry>& entries) {
  int width = 0;
  for (const Entry& entry : entries) {
    width = std::max(width, display_width(entry.left));
  }
  std::string text;
  for (const Entry& entry : entries) {
    text += "  " + pad(entry.left, width) + "  ";
    text += wrapped(entry.right, width + 4);
  }
  return text;
}

std::string arguments_help(const std::vector<Argument>& arguments) {
  std::vector<Entry> entries;
  for (const Argument& argument : arguments) {
    entries.push_back({std::string(argument.name), std::string(argument.help)});
  }
  return entries_text(entries);
}

std::string examples_text(const std::vector<std::string_view>& examples) {
  std::string text;
  for (std::string_view example : examples) {
    text += "  $ " + std::string(example) + "\n";
  }
  return text + "\n";
}

Entry flag_entry(const Flag& flag) {
  Entry entry;
  entry.left =
      flag.letter == 0 ? "    " : std::string("-") + flag.letter + ", ";
  entry.left += "--" + std::string(flag.name);
  if (flag.takes != Takes::Nothing) entry.left += " " + std::string(flag.value);
  entry.right = flag.help;
  if (flag.takes == Takes::Choice) {
    std::string choices;
    for (const std::string& choice : flag.choices()) {
      choices += (choices.empty() ? "" : ", ") + choice;
    }
    entry.right += ": " + choices;
  }
  return entry;
}

std::string flags_text(std::string_view command, bool colour) {
  std::string text;
  for (std::string_view group :
       {"Inputs", "Simulation", "Memory", "Output", "Diagnostics"}) {
    std::vector<Entry> entries;
    for (const Flag& flag : flags()) {
      if (flag.group == group && is_taken_by(flag, command)) {
        entries.push_back(flag_entry(flag));
      }
    }
    if (entries.empty()) continue;
    text += "\n" + heading(group, colour) + entries_text(entries);
  }
  return text;
}

}  // namespace

std::string_view version() { return SHARDPLAN_VERSION; }

std::string overview_text(bool colour) {
  std::string text = "shardplan " + std::string(version()) +
                     ": check and resolve how a model is sharded\n\n";
  text += examples_text(
      {"shardplan check model.json --rules @llama --mesh fsdp=4,tp=2",
       "shardplan resolve model.json --rules @llama --mesh fsdp=4,tp=2"});
  size_t width = 0;
  for (const Command& command : commands()) {
    width = std::max(width, command.name.size());
  }
  std::string_view group;
  for (const Command& command : commands()) {
    if (command.group != group) text += heading(command.group, colour);
    group = command.group;
    text += "  " + pad(command.name, static_cast<int>(width)) + "  " +
            wrapped(command.summary, static_cast<int>(width) + 4);
  }
  return text + "\n`shardplan help COMMAND` tells more about one command.\n";
}

std::string command_help_text(const Command& command, bool colour) {
  std::string text = "shardplan " + std::string(command.name) + ": " +
                     std::string(command.summary) + "\n\n";
  text += examples_text(command.examples);
  text += heading("Arguments", colour) + arguments_help(command.arguments);
  if (!command.other_arguments.empty()) {
    text +=
        "\n" +
        heading("Arguments with --" + std::string(command.other_flag), colour) +
        arguments_help(command.other_arguments);
  }
  text += flags_text(command.name, colour);
  text += "\n" + heading("Exit codes", colour);
  for (size_t i = 0; i < command.exits.size(); ++i) {
    if (command.exits[i].empty()) continue;
    text += "  " + std::to_string(i) + "  " + wrapped(command.exits[i], 5);
  }
  text += "  3  a bug in shardplan\n";
  return text + "\nMore: " + std::string(command.page) + "\n";
}

}  // namespace shardplan::cli
