// SPDX-License-Identifier: Apache-2.0
#include "io/git/git.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/child_process.h"
#include "base/text.h"
#include "base/words.h"

namespace shardplan {
namespace {

// Settings that override those of the repository, its user and the system.
constexpr std::array<std::string_view, 12> kGitSettings = {
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.sshCommand=false",
    "core.askPass=",
    "core.pager=cat",
    "core.useReplaceRefs=false",
    "core.warnAmbiguousRefs=true",
    "credential.helper=",
    "gc.auto=0",
    "maintenance.auto=false",
    "protocol.allow=never",
    // A folder among somebody's files may look like a bare repository.
    "safe.bareRepository=explicit",
};

const std::vector<std::pair<std::string, std::string>> kGitEnvironment = {
    {"GIT_NO_LAZY_FETCH", "1"},
    // Older versions do not know GIT_NO_LAZY_FETCH and would fetch. This
    // variable allows only a protocol that does not exist, and overrides
    // `protocol.<name>.allow`.
    {"GIT_ALLOW_PROTOCOL", "!"},
    {"GIT_NO_REPLACE_OBJECTS", "1"},
    {"GIT_OPTIONAL_LOCKS", "0"},
    {"GIT_TERMINAL_PROMPT", "0"},
    {"GIT_ASKPASS", ""},
    {"SSH_ASKPASS", ""},
    {"GIT_PAGER", "cat"},
    {"LC_ALL", "C"},
    {"LANGUAGE", ""},
};

}  // namespace

std::unique_ptr<ChildProcess> start_git(
    const std::vector<std::string>& arguments, Host& host, std::string& why) {
  std::vector<std::string> command = {"git", "--no-pager"};
  if (std::string folder = host.working_directory(); !folder.empty()) {
    command.insert(command.end(), {"-C", std::move(folder)});
  }
  for (const std::string_view setting : kGitSettings) {
    command.insert(command.end(), {"-c", std::string(setting)});
  }
  command.insert(command.end(), arguments.begin(), arguments.end());
  return host.start(command, kGitEnvironment, why);
}

std::optional<GitAnswer> run_git(const std::vector<std::string>& arguments,
                                 Host& host, Diagnostics& diags) {
  std::string why;
  const auto git = start_git(arguments, host, why);
  if (git == nullptr) {
    return diags
        .error(Code::UnreadableFile, {}, "`git` cannot be started: " + why)
        .fact("revisions are read with the installed git")
        .help("install git, or give two folders instead of revisions");
  }
  GitAnswer answer;
  answer.out = git->read_all(kMaxGitOutput);
  if (answer.out.ends_with('\n')) answer.out.pop_back();
  answer.code = git->wait();
  answer.errors = git->errors(size_t{64} * 1024);
  if (is_stalled(answer.errors)) {
    return diags
        .error(Code::UnreadableFile, {},
               "git waits for input that never arrives")
        .fact("it was stopped after several seconds without activity or output")
        .help(
            "look for named pipes in place of files (`find .git -type p`) and "
            "among the files that git's configuration includes");
  }
  return answer;
}

std::optional<std::string> git_output(const std::vector<std::string>& arguments,
                                      Host& host) {
  Diagnostics ignored;
  const auto answer = run_git(arguments, host, ignored);
  if (!answer || answer->code != 0) return std::nullopt;
  return answer->out;
}

std::string git_words(std::string_view errors) {
  while (!errors.empty()) {
    std::string_view line = next_line(errors);
    if (line.empty() || line.starts_with("warning: ") ||
        line.starts_with("hint: ")) {
      continue;
    }
    for (const std::string_view head : {"fatal: ", "error: "}) {
      if (line.starts_with(head)) line.remove_prefix(head.size());
    }
    return std::string(line.substr(0, 400));
  }
  return "";
}

bool is_object_id(std::string_view text) {
  return (text.size() == 40 || text.size() == 64) &&
         std::ranges::all_of(text, [](char c) {
           return is_digit(c) || (c >= 'a' && c <= 'f');
         });
}

std::string shell_word(std::string_view text) {
  const bool plain = !text.empty() && std::ranges::all_of(text, [](char c) {
    return is_digit(c) || is_letter(c) || contains("/._-+:@%,=", c);
  });
  if (plain) return std::string(text);
  std::string word = "'";
  for (const char c : text) {
    word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return word + "'";
}

}  // namespace shardplan
