// SPDX-License-Identifier: Apache-2.0
// The git that is there, run so that it only reads: it fetches nothing, asks
// nobody, takes no locks, and starts nothing that a repository configures (no
// hook, filter, monitor of files, pager, alias or helper). A commit is what its
// id says: replacements of objects are passed over.
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

// What a git command said; see ChildProcess::wait() for `code`.
struct GitAnswer {
  int code = 0;
  std::string out;     // the first kMostGitOutput bytes
  std::string errors;  // in English, the first 64 KiB
};
inline constexpr size_t kMostGitOutput = size_t{4} << 20;

// Starts git with these words, in the host's working directory. Null, with the
// reason in `why`, when it cannot be started.
std::unique_ptr<ChildProcess> start_git(
    const std::vector<std::string>& arguments, Host& host, std::string& why);

// Runs it to its end. Empty, with the reason reported, when it cannot be
// started, or waits in vain (base/child_process.h).
std::optional<GitAnswer> run_git(const std::vector<std::string>& arguments,
                                 Host& host, Diagnostics& diags);

// Git cannot be started (SP001).
Diagnostics::Builder report_no_git(const std::string& why, Diagnostics& diags);

// What git complains of, in its own words: the first line that is not a
// warning.
std::string git_words(std::string_view errors);

// Without the line break at the end, which git adds to a path.
std::string without_line_end(std::string text);

// 40 or 64 lower-case hexadecimal digits: how objects are named.
bool is_object_id(std::string_view text);

// A word of a command that is shown, as a shell reads it.
std::string shell_word(std::string_view text);

}  // namespace shardplan
