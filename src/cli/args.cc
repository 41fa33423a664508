// SPDX-License-Identifier: Apache-2.0
// The only file that includes CLI11. CLI11 splits the words into flags, their
// values and the rest. This file then checks the commands and flags against the
// tables, since CLI11 knows neither spelling suggestions nor the codes of
// diagnostics.

#include "cli/args.h"

#include <algorithm>
#include <optional>

#include <CLI/CLI.hpp>

#include "base/text.h"
#include "base/words.h"
#include "cli/flag_values.h"

namespace shardplan::cli {
namespace {

std::string option_names(const Flag& flag) {
  const std::string name = "--" + std::string(flag.name);
  return flag.letter == 0 ? name : std::string("-") + flag.letter + "," + name;
}

// The options registered with CLI11, which its App owns. Looking an option up
// by its name is `noexcept` there and allocates, which terminates a program
// that is out of memory.
struct Known {
  CLI::Option* help = nullptr;
  CLI::Option* version = nullptr;
  CLI::Option* words = nullptr;
  // In the order of flags(); null for flags that no word names.
  std::vector<CLI::Option*> flags;
};

bool may_name(const std::string& word, const Flag& flag) {
  if (word.starts_with("--")) {
    const std::string_view name = std::string_view(word).substr(2);
    return name.substr(0, name.find('=')) == flag.name;
  }
  return flag.letter != 0 && word.starts_with('-') &&
         word.find(flag.letter) != std::string::npos;
}

// Registers the flags that `words` may name, and no others: CLI11 compares each
// new option with all earlier ones, which took most of the time of a short
// command.
Known add_flags(CLI::App& app, const std::vector<std::string>& words) {
  Known known;
  app.set_help_flag();
  app.allow_extras();
  known.help = app.add_flag("-h,--help");
  known.version = app.add_flag("--version");
  known.words =
      app.add_option("words", [](const CLI::results_t&) { return true; })
          ->expected(-1)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  for (const Flag& flag : flags()) {
    CLI::Option*& option = known.flags.emplace_back(nullptr);
    if (std::ranges::none_of(words, [&](const std::string& word) {
          return may_name(word, flag);
        })) {
      continue;
    }
    option = flag.takes == Takes::Nothing
                 ? app.add_flag(option_names(flag))
                 : app.add_option(option_names(flag),
                                  [](const CLI::results_t&) { return true; })
                       ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
                       ->allow_extra_args(false);
  }
  return known;
}

// Rejects `--flag=` and `--switch=x`: CLI11 would use the next word as the
// value of the first, and would ignore the second if x is `false`.
bool check_equals(const std::vector<std::string>& words, Diagnostics& diags) {
  bool fine = true;
  for (const std::string& word : words) {
    if (word == "--") break;
    const size_t equals = word.find('=');
    if (!word.starts_with("--") || equals == std::string::npos) continue;
    const std::string name = word.substr(0, equals);
    const Flag* flag = find_flag(std::string_view(name).substr(2));
    const bool bare = name == "--help" || name == "--version" ||
                      (flag != nullptr && flag->takes == Takes::Nothing);
    if (bare) {
      diags.error(Code::Usage, {}, "`" + name + "` takes no value");
    } else if (flag != nullptr && equals + 1 == word.size()) {
      diags.error(Code::Usage, {}, "`" + name + "` has an empty value");
    } else {
      continue;
    }
    fine = false;
  }
  return fine;
}

void report_unknown_flag(const std::string& word, Diagnostics& diags) {
  const std::string name = word.substr(0, word.find('='));
  std::vector<std::string> candidates = {"--help", "--version"};
  for (const Flag& flag : flags()) {
    candidates.push_back("--" + std::string(flag.name));
  }
  suggest(diags.error(Code::Usage, {}, "unknown option " + in_backticks(name)),
          name, candidates, "`shardplan help` lists the options");
}

const Command* look_up_command(const std::string& word, bool help,
                               Diagnostics& diags) {
  if (const Command* command = find_command(word)) return command;
  std::vector<std::string> names = {"help"};
  if (help) names = help_page_names();
  for (const Command& command : commands()) names.emplace_back(command.name);
  suggest(diags.error(Code::Usage, {}, "unknown command " + in_backticks(word)),
          word, names, "`shardplan help` shows all commands");
  return nullptr;
}

void read_settings(const Known& known, CommandLine& line, Diagnostics& diags) {
  for (size_t i = 0; i < known.flags.size(); ++i) {
    const Flag& flag = flags()[i];
    const CLI::Option* option = known.flags[i];
    if (option == nullptr || option->count() == 0) continue;
    const std::string title = "`--" + std::string(flag.name) + "`";
    if (flag.takes == Takes::Nothing) {
      line.settings.push_back({&flag, "", {}, ""});
      continue;
    }
    if (option->count() > 1 && !flag.repeats) {
      diags.error(Code::Usage, {}, title + " is given more than once");
    }
    for (const std::string& value : option->results()) {
      if (value.starts_with("--") && find_flag(value.substr(2)) != nullptr) {
        diags.error(Code::Usage, {},
                    title + " has no value: `" + value + "` follows");
      }
      line.settings.push_back({&flag, value, {}, ""});
    }
  }
}

void check_settings(const CommandLine& line, Diagnostics& diags) {
  for (const Setting& setting : line.settings) {
    if (is_accepted_by(*setting.flag, line.command->name)) continue;
    diags
        .error(Code::Usage, {},
               title_of(setting) + " does not apply to `" +
                   std::string(line.command->name) + "`")
        .help(quoted_names(split_list(setting.flag->commands, ' ')) + " take" +
              (!contains(setting.flag->commands, ' ') ? "s it" : " it"));
  }
}

void check_arguments(const CommandLine& line, Diagnostics& diags) {
  const Command& command = *line.command;
  const auto other =
      std::ranges::find_if(line.settings, [&](const Setting& setting) {
        return contains(command.other_flags, setting.flag->name);
      });
  const bool is_usual = other == line.settings.end();
  const std::vector<Argument>& wanted =
      is_usual ? command.arguments : command.other_arguments;
  const std::string usage =
      "`shardplan " + std::string(command.name) + " " +
      (is_usual ? "" : "--" + std::string(other->flag->name) + " .. ") +
      joined_of(wanted, " ", &Argument::name) + "`";
  const size_t given = line.arguments.size();
  for (size_t i = given; i < wanted.size(); ++i) {
    if (wanted[i].optional) continue;
    diags
        .error(Code::Usage, {},
               "`" + std::string(command.name) + "` needs " +
                   std::string(wanted[i].name))
        .help("usage: " + usage);
    return;
  }
  if (given > wanted.size()) {
    diags
        .error(Code::Usage, {},
               "unexpected argument " +
                   in_backticks(line.arguments[wanted.size()]))
        .help("usage: " + usage);
  }
}

// Reads `help`, `help CMD [TOPIC]`, `help PAGE`, `CMD --help [TOPIC]`, or a
// command to run.
void read_words(std::vector<std::string> words, bool help, CommandLine& line,
                Diagnostics& diags) {
  line.help = help || words.empty();
  if (!words.empty() && words[0] == "help") {
    line.help = true;
    words.erase(words.begin());
  }
  if (words.empty()) return;
  if (line.help && find_command(words[0]) == nullptr) {
    line.page = find_help_page(words[0]);
    if (line.page != nullptr) return;
  }
  line.command = look_up_command(words[0], line.help, diags);
  line.arguments.assign(words.begin() + 1, words.end());
}

}  // namespace

CommandLine parse_command_line(const std::vector<std::string>& words,
                               Diagnostics& diags) {
  CommandLine line;
  CLI::App app;
  const Known options = add_flags(app, words);
  if (!check_equals(words, diags)) return line;
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ArgumentMismatch&) {
    diags.error(Code::Usage, {},
                in_backticks(words.back()) + " is last and has no value");
    return line;
  } catch (const CLI::ParseError& problem) {
    diags.error(Code::Usage, {}, problem.what());
    return line;
  }
  read_settings(options, line, diags);
  line.version = options.version->count() > 0;
  bool known = true;
  for (const std::string& word : app.remaining()) {
    if (word == "--") continue;  // CLI11 returns this mark as a word
    report_unknown_flag(word, diags);
    known = false;
  }
  if (line.version || !known) return line;
  read_words(options.words->results(), options.help->count() > 0, line, diags);
  if (line.command != nullptr && !line.help) {
    check_settings(line, diags);
    check_arguments(line, diags);
  }
  return line;
}

}  // namespace shardplan::cli
