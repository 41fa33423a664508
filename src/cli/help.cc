// SPDX-License-Identifier: Apache-2.0
// Prints `shardplan help`, 80 columns wide, from the tables of commands and
// flags and from the pages of docs/.
//
// The help of a command fits on one screen: it shows the usual flags
// (Command::usual). Some commands accept a hundred flags; `--help all` lists
// them by topic, and `--help TOPIC` lists those of one topic.
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "base/words.h"
#include "cli/args.h"
#include "cli/flag_values.h"
#include "cli/pages.h"

namespace shardplan::cli {
namespace {

constexpr int kWidth = 80;

// The topics of flags. A topic with `flags` has only these flags of its group;
// a later topic of the same group has the rest.
struct FlagTopic {
  std::string_view name;  // as the user writes it after `--help`
  std::string_view title;
  std::string_view group;  // matches Flag::group
  std::string_view flags = {};
};
constexpr FlagTopic kTopics[] = {
    {"inputs", "Inputs", "Inputs"},
    {"simulation", "Simulation", "Simulation"},
    {"serving", "Serving", "Memory",
     "engine gpu-memory-utilization mem-fraction-static max-batched-tokens "
     "max-seqs expert-parallel dp-attention max-loras max-lora-rank "
     "lora-target-modules fully-sharded-loras input-tokens output-tokens "
     "concurrency draft kv-dtype kv-block kv-axes max-ttft max-tpot"},
    {"memory", "Memory and time", "Memory"},
    {"output", "Output", "Output"},
    {"findings", "Findings", "Diagnostics"},
};

std::string bold(std::string_view text, bool colour) {
  const std::string name(text);
  return colour ? "\x1b[1m" + name + "\x1b[0m" : name;
}

std::string heading(std::string_view text, bool colour) {
  return bold(text, colour) + "\n";
}

// Breaks the text at blanks so that lines that start at column `indent` fit 80
// columns. The first line is already indented.
std::string wrapped(std::string_view text, int indent) {
  std::string result;
  int used = indent;
  for (const std::string& word : split_list(text, ' ')) {
    const int width = display_width(word);
    if (used > indent && used + 1 + width > kWidth) {
      result += "\n" + pad("", indent);
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

// Maps the values of a choice that the help text already lists to the flag that
// listed them.
using ShownChoices = std::map<std::string, std::string_view>;

Entry flag_entry(const Flag& flag, ShownChoices& shown) {
  Entry entry;
  entry.left =
      flag.letter == 0 ? "    " : std::string("-") + flag.letter + ", ";
  entry.left += "--" + std::string(flag.name);
  if (flag.takes != Takes::Nothing) entry.left += " " + std::string(flag.value);
  entry.right = flag.help;
  if (flag.takes == Takes::Choice) {
    const std::string choices = joined(flag.choices(), ", ");
    const auto [first, is_new] = shown.try_emplace(choices, flag.name);
    entry.right += is_new ? ": " + choices
                          : "; values as for --" + std::string(first->second);
  }
  return entry;
}

// Returns the first topic that has the flag.
const FlagTopic& topic_of(const Flag& flag) {
  return *std::ranges::find_if(kTopics, [&](const FlagTopic& topic) {
    return topic.group == flag.group &&
           (topic.flags.empty() || has_word(topic.flags, flag.name));
  });
}

bool is_of_topic(const Flag& flag, const FlagTopic& topic,
                 const Command& command) {
  return is_accepted_by(flag, command.name) && &topic_of(flag) == &topic;
}

// Returns the flags that `is_listed` selects; "" if there are none.
template <typename Test>
std::string flags_text(std::string_view title, bool colour, ShownChoices& shown,
                       Test is_listed) {
  std::vector<Entry> entries;
  for (const Flag& flag : flags()) {
    if (is_listed(flag)) entries.push_back(flag_entry(flag, shown));
  }
  if (entries.empty()) return "";
  return "\n" + heading(title, colour) + entries_text(entries);
}

std::string topic_text(const FlagTopic& topic, const Command& command,
                       bool colour, ShownChoices& shown) {
  return flags_text(topic.title, colour, shown, [&](const Flag& flag) {
    return is_of_topic(flag, topic, command);
  });
}

std::string usual_text(const Command& command, bool colour) {
  const auto is_usual = [&](const Flag& flag) {
    return has_word(command.usual, flag.name);
  };
  std::vector<std::string> topics;  // of the other flags
  for (const FlagTopic& topic : kTopics) {
    if (std::ranges::any_of(flags(), [&](const Flag& flag) {
          return is_of_topic(flag, topic, command) && !is_usual(flag);
        })) {
      topics.emplace_back(topic.name);
    }
  }
  ShownChoices shown;
  const std::string all = "shardplan " + std::string(command.name) + " --help";
  return flags_text("Common options", colour, shown, is_usual) + "\n" +
         wrapped("All options: `" + all + " all`, or by topic: `" + all + " " +
                     joined(topics, "`, `") + "`.",
                 0);
}

// Returns "guide" for "guide.md" and "rules" for "formats/rules.md", but
// "plan.md" if a command is named `plan`.
std::string page_name(std::string_view path) {
  const std::string_view file = path.substr(path.rfind('/') + 1);
  const std::string_view stem = file.substr(0, file.rfind('.'));
  return std::string(find_command(stem) == nullptr ? stem : file);
}

// Replaces links by their text: `[SP203](SP203.md)` -> `SP203`.
std::string without_links(std::string_view line) {
  std::string text;
  for (;;) {
    const size_t open = line.find('[');
    const size_t middle = line.find("](", open == line.npos ? 0 : open);
    const size_t close = middle == line.npos ? middle : line.find(')', middle);
    if (open == line.npos || close == line.npos) return text.append(line);
    text.append(line.substr(0, open));
    text.append(line.substr(open + 1, middle - open - 1));
    line.remove_prefix(close + 1);
  }
}

// Returns "rules.yaml" for "```yaml title=rules.yaml"; "" without a title.
std::string_view fence_title(std::string_view line) {
  constexpr std::string_view kTitle = "title=";
  const size_t at = line.find(kTitle);
  return at == line.npos ? "" : line.substr(at + kTitle.size());
}

std::string plain_line(std::string_view line, bool colour) {
  const size_t marks = line.find_first_not_of('#');
  if (marks == 0 || marks == line.npos || line[marks] != ' ') {
    return without_links(line);
  }
  return bold(line.substr(marks + 1), colour);
}

}  // namespace

std::string_view version() { return SHARDPLAN_VERSION; }

const Page* find_help_page(std::string_view word) {
  for (const Page& page : help_pages()) {
    const std::string name = page_name(page.path);
    if (word == name || word == page.path || word == name + ".md") return &page;
  }
  return nullptr;
}

std::vector<std::string> help_page_names() {
  std::vector<std::string> names;
  for (const bool of_format : {false, true}) {
    for (const Page& page : help_pages()) {
      if (contains(page.path, '/') == of_format) {
        names.push_back(page_name(page.path));
      }
    }
  }
  return names;
}

std::string overview_text(bool colour) {
  std::string text = "shardplan " + std::string(version()) +
                     ": check, plan and simulate how a model is sharded\n\n";
  text += examples_text(
      {"shardplan plan config.json --devices 64 --hardware h100-sxm",
       "shardplan check config.json --rules rules.yaml --mesh fsdp=4,tp=2"});
  int width = 0;
  for (const Command& command : commands()) {
    width = std::max(width, display_width(command.name));
  }
  std::string_view group;
  for (const Command& command : commands()) {
    if (command.group != group) text += heading(command.group, colour);
    group = command.group;
    text += "  " + pad(command.name, width) + "  " +
            wrapped(command.summary, width + 4);
  }
  text += heading("Pages", colour);
  text += "  " + wrapped(joined(help_page_names(), ", "), 2);
  return text +
         "\n`shardplan help COMMAND` describes one command, `shardplan help "
         "PAGE` shows\none page.\n";
}

std::string command_help_text(const Command& command, std::string_view topic,
                              bool colour) {
  std::string text = "shardplan " + std::string(command.name) + ": " +
                     std::string(command.summary) + "\n\n";
  ShownChoices shown;
  if (const FlagTopic* const only = find_named(kTopics, topic)) {
    const std::string flags_of = topic_text(*only, command, colour, shown);
    return flags_of.empty() ? text + "no options on this topic\n"
                            : text.substr(0, text.size() - 1) + flags_of;
  }
  text += examples_text(command.examples);
  text += heading("Arguments", colour) + arguments_help(command.arguments);
  if (!command.other_arguments.empty()) {
    std::vector<std::string> names;
    for (const std::string_view flag : command.other_flags) {
      names.push_back("--" + std::string(flag));
    }
    text += "\n" +
            heading("Arguments with " + joined(names, ", ", " or "), colour) +
            arguments_help(command.other_arguments);
  }
  if (topic == "all" || command.usual.empty()) {
    for (const FlagTopic& each : kTopics) {
      text += topic_text(each, command, colour, shown);
    }
  } else {
    text += usual_text(command, colour);
  }
  text += "\n" + heading("Exit codes", colour);
  for (size_t i = 0; i < command.exits.size(); ++i) {
    if (command.exits[i].empty()) continue;
    text += "  " + std::to_string(i) + "  " + wrapped(command.exits[i], 5);
  }
  text += "  3  a bug in shardplan\n";
  return text + "\nMore: `shardplan help " + page_name(command.page) + "`\n";
}

std::string plain_page(std::string_view page, bool colour) {
  std::string text;
  bool fenced = false;
  while (!page.empty()) {
    const std::string_view line = next_line(page);
    if (line.starts_with("```")) {
      fenced = !fenced;
      const std::string_view title = fence_title(line);
      if (!title.empty()) text.append("  ").append(title).append(":\n");
    } else if (fenced) {
      text.append(line.empty() ? "" : "    ").append(line).append("\n");
    } else {
      text.append(plain_line(line, colour)).append("\n");
    }
  }
  return text;
}

}  // namespace shardplan::cli
