// SPDX-License-Identifier: Apache-2.0
// Runs the installed git so that it only reads: it fetches nothing, prompts
// nobody, acquires no locks, and starts nothing that a repository configures
// (no hook, filter, file-system monitor, pager, alias or helper). Replacements
// of objects are ignored, so an id always names its original object.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/host.h"

namespace shardplan {

// The result of a git command; see ChildProcess::wait() for `code`.
struct GitAnswer {
  int code = 0;
  std::string out;     // the first kMaxGitOutput bytes, without the last line's
                       // end
  std::string errors;  // in English, the first 64 KiB
};
inline constexpr size_t kMaxGitOutput = size_t{4} << 20;

// Starts git with these arguments, in the host's working directory. Returns
// null, with the reason in `why`, when it cannot be started.
std::unique_ptr<ChildProcess> start_git(
    const std::vector<std::string>& arguments, Host& host, std::string& why);

// Runs git until it exits. Returns nullopt, with the reason reported, when it
// cannot be started or waits for input that never comes (base/child_process.h).
std::optional<GitAnswer> run_git(const std::vector<std::string>& arguments,
                                 Host& host, Diagnostics& diags);

// Returns what git prints, as in GitAnswer; nullopt, with nothing reported, if
// it fails.
std::optional<std::string> git_output(const std::vector<std::string>& arguments,
                                      Host& host);

// Returns git's own error message: the first line that is not a warning.
std::string git_words(std::string_view errors);

// Returns whether this is an object id: 40 or 64 lower-case hexadecimal digits.
bool is_object_id(std::string_view text);

// Quotes a word of a displayed command for the shell, if necessary.
std::string shell_word(std::string_view text);

}  // namespace shardplan
