// SPDX-License-Identifier: Apache-2.0
// One run of the program, from its words to its exit code.
#include <exception>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/allocation.h"
#include "base/text.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/config.h"
#include "cli/flag_values.h"
#include "cli/flags.h"
#include "cli/host_memory.h"
#include "cli/options.h"
#include "cli/output.h"
#include "io/fence.h"
#include "report/runner_commands.h"

namespace shardplan::cli {
namespace {

Exit fail(const Options& options, const Diagnostics& diags, Host& host,
          bool began_answer = false) {
  // If a file was truncated while it was read, other findings are not valid.
  Diagnostics shortened;
  const bool is_shortened = report_shortened(host, shortened);
  explain_failure(options, is_shortened ? shortened : diags, began_answer,
                  host);
  return Exit::CouldNotRun;
}

// Returns the machine-readable format that the words ask for, or `otherwise`.
// Needed if the words could not be parsed into options.
std::string asked_format(const std::vector<std::string>& words,
                         const std::string& otherwise) {
  for (size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    for (const std::string format : {"json", "sarif", "junit"}) {
      const bool apart = words[i] == "--format" && i + 1 < words.size() &&
                         words[i + 1] == format;
      if (apart || words[i] == "--format=" + format) return format;
    }
    if (words[i] == "--json" || words[i].starts_with("--json=")) return "json";
  }
  return otherwise;
}

Exit show_help(const CommandLine& line, const Options& options, Host& host) {
  const bool colour = style_of(Stream::Out, options.output, host).colour;
  const std::string topic = line.arguments.empty() ? "" : line.arguments[0];
  host.write(Stream::Out,
             line.page != nullptr ? plain_page(line.page->text, colour)
             : line.command == nullptr
                 ? overview_text(colour)
                 : command_help_text(*line.command, topic, colour));
  return Exit::Fine;
}

// Returns the files that the settings name, on which the run may wait: they may
// be pipes, `--rules <(..)`.
std::vector<std::string> awaited_files(const std::vector<Setting>& settings,
                                       Host& host) {
  std::vector<std::string> files;
  for (const Setting& setting : settings) {
    for (std::string& file : files_of(setting)) {
      host.may_wait_for(file);
      files.push_back(std::move(file));
    }
  }
  return files;
}

// Returns the settings of the configuration file that apply to this run, and
// sets `path` if there is such a file. If the file was found, not named, the
// run may open only files that the configuration is allowed to refer to and
// files that the user named.
std::vector<Setting> configured(const CommandLine& line, const Options& options,
                                const std::vector<std::string>& named,
                                std::optional<FencedHost>& fenced,
                                std::optional<std::string>& path, Host& host,
                                Diagnostics& diags) {
  const bool reads = is_accepted_by(*find_flag("config"), line.command->name);
  if (!reads || options.run.isolated) return {};
  path = options.run.config ? options.run.config : find_config(host);
  if (!path) return {};
  const auto from = options.run.config ? ConfigFrom::Named : ConfigFrom::Found;
  if (from == ConfigFrom::Found) {
    fenced.emplace(host, repository_of(*path, host),
                   "a configuration found automatically may not name it; "
                   "`--config FILE` lifts this limit");
    for (const std::string& file : named) fenced->admit(file);
  }
  const std::optional<Config> config =
      read_config(*path, from, fenced ? *fenced : host, diags);
  if (!config) return {};
  if (from == ConfigFrom::Named) awaited_files(config->settings, host);
  if (options.output.verbose) {
    for (const std::string& file : config->files) {
      host.write(Stream::Err,
                 without_commands("configuration: " + printable(file) + "\n"));
    }
  }
  return remaining_settings(config->settings, line.settings,
                            line.command->name);
}

// Reports two outputs that are written to the same file.
void check_written(const std::vector<Setting>& settings, Diagnostics& diags) {
  std::map<std::string, std::string_view> written;
  for (const Setting& setting : settings) {
    const Flag& flag = *setting.flag;
    if (flag.takes != Takes::File || flag.group != "Output") continue;
    const std::optional<std::string> path =
        flag.name == "plot" ? plot_of(setting).file : path_of(setting);
    if (!path) continue;
    const auto [first, is_new] = written.emplace(*path, flag.name);
    if (is_new) continue;
    diags.error(Code::Usage, {},
                "`--" + std::string(first->second) + "` and `--" +
                    std::string(flag.name) + "` both write " +
                    in_backticks(first->first));
  }
}

// Applies flags over the configuration. `options` already hold the flags.
void settle(const CommandLine& line, std::optional<FencedHost>& fenced,
            Host& host, Options& options, Diagnostics& diags) {
  std::vector<std::string> named = awaited_files(line.settings, host);
  for (const std::string& argument : line.arguments) {
    host.may_wait_for(argument);
    named.push_back(argument);
  }
  std::optional<std::string> config;
  std::vector<Setting> settings =
      configured(line, options, named, fenced, config, host, diags);
  settings.insert(settings.end(), line.settings.begin(), line.settings.end());
  check_conflicts(settings, diags);
  check_written(line.settings, diags);
  if (diags.cannot_run()) return;
  options = {};
  options.command = line.command->name;
  options.arguments = line.arguments;
  options.config = config;
  for (const Setting& setting : line.settings) {
    options.given.push_back({setting.flag->name, setting.value});
  }
  // The model is the first argument of every command that makes a plan.
  if (!line.arguments.empty()) options.planning.model = line.arguments.front();
  apply_settings(settings, options, diags);
  if (line.command->validate != nullptr) {
    line.command->validate(line.settings, options, diags);
  }
  if (is_accepted_by(*find_flag("format"), options.command)) {
    settle_format(options.output, diags);
  }
  if (asks_for_plan(options.output) && options.command != "resolve") {
    diags
        .error(Code::Usage, {},
               "`" + options.command + "` does not write plans, but " +
                   in_backticks(*options.output.file) + " is a plan file name")
        .help(
            "`shardplan resolve` writes plans; with `--json` any name is "
            "accepted");
  }
}

// Returns the command of words that could not be parsed, or "".
std::string likely_command(const std::vector<std::string>& words) {
  const bool known = !words.empty() && find_command(words[0]) != nullptr;
  return known ? words[0] : std::string();
}

// Runs the command. Reports memory exhaustion as it reports any other missing
// resource.
Exit run_within(AllocationLimit& limit, const Command& command,
                Context& context) {
  try {
    return command.run(context);
  } catch (const std::bad_alloc&) {
    limit.make_room();
    context.progress.clear();
    context.diags = context.diags.fresh();  // old ones may fill memory
    report_no_memory(context.options.command, context.diags);
    return Exit::CouldNotRun;
  }
}

Exit run_command(const std::vector<std::string>& arguments, Host& host,
                 AllocationLimit& limit) {
  Options options;
  Diagnostics diags;
  const auto use_limit = [&] {
    const auto bytes = options.run.max_memory ? options.run.max_memory
                                              : default_max_memory(host);
    if (bytes) limit.set(*bytes);
  };
  use_limit();
  const CommandLine line = parse_command_line(arguments, diags);
  if (line.command != nullptr) options.command = line.command->name;
  apply_settings(line.settings, options, diags);
  if (options.run.max_memory) use_limit();
  if (diags.cannot_run()) {
    options.output.format = asked_format(arguments, options.output.format);
    if (line.command == nullptr) options.command = likely_command(arguments);
    return fail(options, diags, host);
  }
  if (line.version) {
    host.write(Stream::Out, "shardplan " + std::string(version()) + "\n");
    return Exit::Fine;
  }
  if (line.help) return show_help(line, options, host);
  std::optional<FencedHost> fenced;
  settle(line, fenced, host, options, diags);
  if (options.run.max_memory) use_limit();
  if (diags.cannot_run()) return fail(options, diags, host);
  apply_severities(options, diags);

  Progress progress(host, options.output.progress && !options.output.quiet);
  Context context = {options, fenced ? *fenced : host, diags, progress};
  const Exit exit = run_within(limit, *line.command, context);
  progress.clear();
  if (!host.shortened_file().empty()) {
    return fail(options, diags, host, context.began_answer);
  }
  if (exit == Exit::CouldNotRun) explain_no_answer(context);
  return exit == Exit::Findings && options.run.exit_zero ? Exit::Fine : exit;
}

Exit report_bug(const std::vector<std::string>& arguments,
                const std::string& what, Host& host) {
  std::string line = "shardplan";
  for (const std::string& argument : arguments) line += " " + argument;
  host.write(Stream::Err,
             without_commands("error[SP900]: " + printable(what) +
                              "\n  = this is a bug in shardplan " +
                              std::string(version()) +
                              "\n  = command: " + printable(line) +
                              "\nhelp: please report this to the maintainers "
                              "with these lines and the input files\n"));
  return Exit::Bug;
}

// Reports that memory ran out where no options exist: before they are parsed or
// after they are destroyed.
Exit fail_without_memory(const std::vector<std::string>& arguments,
                         Host& host) {
  Options options;
  options.output.format = asked_format(arguments, options.output.format);
  options.command = likely_command(arguments);
  Diagnostics diags;
  report_no_memory(options.command, diags);
  return fail(options, diags, host);
}

// Reports that no message could be allocated. Allocates nothing itself.
Exit fail_without_words(Host& host) {
  try {
    host.write(Stream::Err,
               "error[SP017]: out of memory, even for an error message\n");
  } catch (...) {
    // No message can be written. The exit code reports that there is no answer.
  }
  return Exit::CouldNotRun;
}

// Runs the command and reports every exception.
Exit run_guarded(const std::vector<std::string>& arguments, Host& host,
                 AllocationLimit& limit) {
  try {
    const Exit exit = run_command(arguments, host, limit);
    Diagnostics diags;
    // An answer that could not be written is no answer, however it was printed.
    const bool answered = exit == Exit::Fine || exit == Exit::Findings;
    if (!answered || !report_unwritten(host, diags)) return exit;
    return fail({}, diags, host);
  } catch (const std::bad_alloc&) {
    limit.make_room();
    return fail_without_memory(arguments, host);
  } catch (const std::exception& problem) {
    limit.make_room();
    return report_bug(arguments, problem.what(), host);
  }
}

}  // namespace

int run(const std::vector<std::string>& arguments, Host& host) {
  AllocationLimit limit;
  clear_refusal();
  set_current_work("");
  try {
    return static_cast<int>(run_guarded(arguments, host, limit));
  } catch (const std::bad_alloc&) {
    limit.make_room();
    return static_cast<int>(fail_without_words(host));
  }
}

}  // namespace shardplan::cli
