// SPDX-License-Identifier: Apache-2.0
// `shardplan completion SHELL`: a script generated from the tables of commands
// and flags, so that it always agrees with the program.
#include <string>
#include <string_view>
#include <vector>

#include "base/shipped.h"
#include "base/text.h"
#include "base/words.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/flag_values.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "cli/output.h"
#include "io/hardware.h"
#include "io/topologies.h"
#include "resolve/framework_semantics.h"

namespace shardplan::cli {
namespace {

std::vector<std::string> command_names() {
  std::vector<std::string> names = all_names(commands());
  names.emplace_back("help");
  return names;
}

// Returns "@llama" and so on.
std::vector<std::string> rule_set_names() {
  std::vector<std::string> names;
  for (const std::string_view folder : kRuleFolders) {
    for (const std::string& name : shipped_names(folder)) {
      names.push_back("@" + name);
    }
  }
  return names;
}

// Returns the possible values of a flag; empty for free text and for files.
std::vector<std::string> values_of(const Flag& flag) {
  if (flag.takes == Takes::Choice) return flag.choices();
  if (flag.name == "rules" || flag.name == "before" || flag.name == "after") {
    return rule_set_names();
  }
  if (flag.name == "semantics") return all_names(framework_semantics());
  if (flag.name == "hardware") return shipped_names(kHardwareFolder);
  if (flag.name == "topology") return topology_examples();
  if (flag.name == "allow" || flag.name == "deny") {
    std::vector<std::string> words = code_words();
    if (flag.name == "deny") words.emplace_back("warnings");
    return words;
  }
  return {};
}

// Returns all spellings of a flag: "--mesh|-m".
std::string spellings(const Flag& flag, const std::string& between) {
  const std::string name = "--" + std::string(flag.name);
  return flag.letter == 0 ? name : name + between + "-" + flag.letter;
}

std::string flags_of(const Command& command) {
  std::string text;
  for (const Flag& flag : flags()) {
    if (is_accepted_by(flag, command.name)) text += spellings(flag, " ") + " ";
  }
  return text + "--help";
}

// Returns the words for a command's first argument; "" if it is a file.
std::string argument_words(const Command& command) {
  const auto words = command.arguments.at(0).words;
  return words == nullptr ? "" : joined(words(), " ");
}

// The script finds the command: the first word that is neither a flag nor a
// flag's value.
std::string bash_script() {
  std::string valued;
  std::string values;
  for (const Flag& flag : flags()) {
    if (flag.takes == Takes::Nothing) continue;
    valued += (valued.empty() ? "" : "|") + spellings(flag, "|");
    const std::string words = joined(values_of(flag), " ");
    const bool files = flag.takes == Takes::File;
    values += "    " + spellings(flag, "|") + ")\n      COMPREPLY=($(compgen" +
              (words.empty() ? "" : " -W '" + words + "'") +
              (files ? " -f" : "") + (words.empty() && !files ? " -W ''" : "") +
              " -- \"$current\"))\n      return ;;\n";
  }
  std::string per_command;
  for (const Command& command : commands()) {
    const std::string words = argument_words(command);
    per_command += "    " + std::string(command.name) + ")\n      flags='" +
                   flags_of(command) + "'\n      words='" + words + "'\n" +
                   "      files=" + (words.empty() ? "1" : "''") + " ;;\n";
  }
  return "# bash completion for shardplan\n"
         "_shardplan() {\n"
         "  local current=\"${COMP_WORDS[COMP_CWORD]}\"\n"
         "  local previous=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
         "  local command='' skip='' word flags words files\n"
         "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
         "    if [[ -n $skip ]]; then skip=''; continue; fi\n"
         "    case $word in\n"
         "      " +
         valued +
         ") skip=1 ;;\n"
         "      -*) ;;\n"
         "      help) ;;\n"
         "      *) command=$word; break ;;\n"
         "    esac\n"
         "  done\n"
         "  case $previous in\n" +
         values +
         "  esac\n"
         "  case $command in\n"
         "    '')\n      flags='--help --version'\n      words='" +
         joined(command_names(), " ") + "'\n      files='' ;;\n" + per_command +
         "  esac\n"
         "  if [[ $current == -* ]]; then\n"
         "    COMPREPLY=($(compgen -W \"$flags\" -- \"$current\"))\n"
         "  elif [[ -n $files ]]; then\n"
         "    COMPREPLY=($(compgen -f -- \"$current\"))\n"
         "  else\n"
         "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "  fi\n"
         "}\n"
         "complete -o filenames -F _shardplan shardplan\n";
}

// Escapes text for single quotes of both zsh and fish; help texts contain no
// backslashes, which the two treat differently.
std::string shell_quoted(std::string_view text) {
  std::string result;
  for (char c : text) result += c == '\'' ? "'\\''" : std::string(1, c);
  return result;
}

// Escapes `[`, `]` and `:`, which have a special meaning in `_arguments`.
std::string zsh_escaped(std::string_view text) {
  std::string result;
  for (char c : shell_quoted(text)) {
    if (c == '[' || c == ']' || c == ':') result += '\\';
    result += c;
  }
  return result;
}

std::string zsh_flag(const Flag& flag) {
  const std::string star = flag.repeats ? "*" : "";
  std::string value;
  if (flag.takes != Takes::Nothing) {
    const std::string words = joined(values_of(flag), " ");
    value = ":" + zsh_escaped(flag.value) + ":";
    if (flag.takes == Takes::File) {
      value += words.empty() ? "_files" : "{_files; compadd -- " + words + "}";
    } else if (!words.empty()) {
      value += "(" + words + ")";
    }
  }
  const std::string rest =
      "[" + zsh_escaped(flag.help) + "]" + value + "' \\\n";
  std::string text = "        '" + star + "--" + std::string(flag.name) + rest;
  if (flag.letter != 0) text += "        '" + star + "-" + flag.letter + rest;
  return text;
}

std::string zsh_script() {
  std::string names;
  std::string cases;
  for (const Command& command : commands()) {
    const std::string name(command.name);
    names += "    '" + name + ":" + zsh_escaped(command.summary) + "'\n";
    const std::string words = argument_words(command);
    cases += "    " + name + ")\n      _arguments \\\n";
    for (const Flag& flag : flags()) {
      if (is_accepted_by(flag, command.name)) cases += zsh_flag(flag);
    }
    cases += "        '--help[show help]' \\\n        '*:" +
             zsh_escaped(command.arguments.at(0).name) + ":" +
             (words.empty() ? "_files" : "(" + words + ")") + "' ;;\n";
  }
  return "#compdef shardplan\n"
         "_shardplan() {\n"
         "  local -a names\n"
         "  names=(\n" +
         names +
         "    'help:describe a command'\n"
         "  )\n"
         "  if (( CURRENT == 2 )); then\n"
         "    _describe 'command' names\n"
         "    return\n"
         "  fi\n"
         "  local name=$words[2]\n"
         "  shift words\n"
         "  (( CURRENT-- ))\n"
         "  case $name in\n" +
         cases +
         "    help) _describe 'command' names ;;\n"
         "  esac\n"
         "}\n"
         "if [[ $funcstack[1] == _shardplan ]]; then\n"
         "  _shardplan \"$@\"\n"
         "else\n"
         "  compdef _shardplan shardplan\n"
         "fi\n";
}

std::string fish_flag(const Flag& flag) {
  std::string text = "complete -c shardplan -n '__fish_seen_subcommand_from ";
  text.append(flag.commands).append("' -l ").append(flag.name);
  if (flag.letter != 0) text.append(" -s ").append(1, flag.letter);
  if (flag.takes != Takes::Nothing) text += " -r";
  if (flag.takes == Takes::File) text += " -F";
  const std::string words = joined(values_of(flag), " ");
  if (!words.empty()) text.append(" -a '").append(words).append("'");
  return text.append(" -d '").append(shell_quoted(flag.help)).append("'\n");
}

std::string fish_command(const Command& command) {
  std::string text =
      "complete -c shardplan -n 'not __fish_seen_subcommand_from ";
  text.append(joined(command_names(), " "))
      .append("' -a ")
      .append(command.name);
  text.append(" -d '").append(shell_quoted(command.summary)).append("'\n");
  text.append("complete -c shardplan -n '__fish_seen_subcommand_from ");
  text.append(command.name).append("'");
  const std::string words = argument_words(command);
  if (words.empty()) return text.append(" -F\n");
  return text.append(" -a '").append(words).append("'\n");
}

std::string fish_script() {
  std::string text =
      "# fish completion for shardplan\ncomplete -c shardplan -f\n";
  for (const Command& command : commands()) text += fish_command(command);
  for (const Flag& flag : flags()) text += fish_flag(flag);
  return text;
}

}  // namespace

std::vector<std::string> shell_names() { return {"bash", "zsh", "fish"}; }

Exit run_completion(Context& context) {
  const std::string& shell = context.options.arguments[0];
  if (shell == "bash") return finish_text(context, bash_script());
  if (shell == "zsh") return finish_text(context, zsh_script());
  if (shell == "fish") return finish_text(context, fish_script());
  context.diags.error(Code::Usage, {}, "unknown shell " + in_backticks(shell))
      .help("use `bash`, `zsh` or `fish`");
  return Exit::CouldNotRun;
}

}  // namespace shardplan::cli
