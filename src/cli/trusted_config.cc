// SPDX-License-Identifier: Apache-2.0
// How far a configuration that was found is trusted (cli/config.h).
#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/text.h"
#include "cli/config.h"
#include "io/paths.h"

namespace shardplan::cli {
namespace {

// "/a/b" is below "/a" and "/", and "/ab" is not below "/a".
bool is_below(std::string_view path, std::string_view folder) {
  return path == folder || folder == "/" ||
         (path.starts_with(folder) && path[folder.size()] == '/');
}

// The nearest thing upward from `path` that exists, without links, with what
// was left of the path. A `..` in what does not exist leads nowhere that we
// could know.
std::optional<std::string> nearest_real(std::string path, Host& host) {
  std::string rest;
  for (;;) {
    if (auto real = host.real_path(path.empty() ? "." : path)) {
      return rest.empty() ? *real : join_path(*real, rest);
    }
    const std::string name = file_name_of(path);
    if (name == ".." || path.empty() || path == "/") return std::nullopt;
    rest = rest.empty() ? name : name + "/" + rest;
    path = directory_of(path);
  }
}

// The user who called sudo; empty where that is nobody.
std::optional<int64_t> sudo_user(Host& host) {
  const std::string text = host.environment("SUDO_UID").value_or("");
  int64_t user = 0;
  const char* end = text.data() + text.size();
  const auto [rest, problem] = std::from_chars(text.data(), end, user);
  if (text.empty() || problem != std::errc() || rest != end) {
    return std::nullopt;
  }
  return user;
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

bool stays_within(const std::string& path, const std::string& root,
                  Host& host) {
  const auto real = nearest_real(path, host);
  return real && !root.empty() && is_below(*real, root) &&
         (*real + "/").find("/.git/") == std::string::npos;
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
        .fact(what + " is of user " + std::to_string(info->owner) +
              ", this run is of user " + std::to_string(host.user()))
        .help("`--config " + path + "` uses it all the same")
        .help("`--isolated` reads no configuration");
    return false;
  }
  return true;
}

std::shared_ptr<const Bytes> FencedHost::read_file(const std::string& path,
                                                   int64_t limit,
                                                   std::string& why) {
  const bool fenced =
      std::any_of(named_.begin(), named_.end(), [&](const std::string& name) {
        return path == name || path.starts_with(name + "/");
      });
  if (fenced && !stays_within(path, root_, host_)) {
    why = "it leads out of " + in_backticks(root_) +
          ", and the configuration that names it was found";
    return nullptr;
  }
  return OverlayHost::read_file(path, limit, why);
}

}  // namespace shardplan::cli
