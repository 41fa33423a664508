// SPDX-License-Identifier: Apache-2.0
// Decides how far a configuration that was found is trusted (cli/config.h).
#include <optional>

#include "base/text.h"
#include "base/words.h"
#include "cli/config.h"
#include "io/paths.h"

namespace shardplan::cli {
namespace {

// Returns the user who called sudo; empty if nobody did.
std::optional<int64_t> sudo_user(Host& host) {
  return parse_integer(host.environment("SUDO_UID").value_or(""));
}

bool is_ours(const FileInfo& info, Host& host) {
  return info.owner == host.user() ||
         (host.user() == 0 && sudo_user(host) == info.owner);
}

}  // namespace

std::string folder_of(const std::string& path) {
  const std::string folder = directory_of(path);
  return folder.empty() ? "." : folder;
}

std::string repository_of(const std::string& path, Host& host) {
  const auto own = host.real_path(folder_of(path));
  if (!own) return "";
  for (std::string folder = *own;; folder = directory_of(folder)) {
    if (host.file_info(join_path(folder, ".git"))) return folder;
    if (folder == "/" || folder.empty()) return *own;
  }
}

bool is_trusted(const std::string& path, const std::string& root, Host& host,
                Diagnostics& diags) {
  for (const std::string& place : {path, folder_of(path), root}) {
    const auto info = host.file_info(place);
    if (!info || is_ours(*info, host)) continue;
    const std::string what = place == path ? in_backticks(path)
                             : place == root && root != folder_of(path)
                                 ? "its repository " + in_backticks(root)
                                 : "its folder";
    diags
        .error(Code::Usage, {}, in_backticks(path) + " belongs to another user")
        .fact(what + " belongs to user " + std::to_string(info->owner) +
              ", but this run's user is " + std::to_string(host.user()))
        .help("`--config " + path + "` uses it anyway")
        .help("`--isolated` reads no configuration");
    return false;
  }
  return true;
}

}  // namespace shardplan::cli
