// SPDX-License-Identifier: Apache-2.0
#include "io/fence.h"

#include <utility>

#include "base/text.h"
#include "base/words.h"
#include "io/paths.h"

namespace shardplan {
namespace {

// "/a/b" is below "/a" and "/"; "/ab" is not below "/a".
bool is_below(std::string_view path, std::string_view folder) {
  return path == folder || folder == "/" ||
         (path.starts_with(folder) && path[folder.size()] == '/');
}

// Resolves links in the nearest existing ancestor of `path` and appends the
// rest of the path. Returns nullopt for a `..` below something that does not
// exist, since nobody can know where it leads.
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

}  // namespace

bool stays_within(const std::string& path, const std::string& root,
                  Host& host) {
  const auto real = nearest_real(path, host);
  return real && !root.empty() && is_below(*real, root) &&
         !contains(*real + "/", "/.git/");
}

FencedHost::FencedHost(Host& below, std::string root, std::string reason)
    : ForwardingHost(below),
      root_(std::move(root)),
      reason_(std::move(reason)) {}

void FencedHost::admit(const std::string& path) {
  const std::lock_guard<std::mutex> lock(mutex_);
  admitted_.insert(path);
}

bool FencedHost::is_admitted(const std::string& path) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return admitted_.contains(path);
}

void FencedHost::leads_to(const std::string& from, const std::string& path) {
  // No file is next to standard input.
  if (from != "-" && is_admitted(from)) admit(path);
  ForwardingHost::leads_to(from, path);
}

FencedHost::Access FencedHost::access_to(const std::string& path) {
  if (is_admitted(path)) return Access::Open;
  if (!stays_within(path, root_, below())) return Access::Outside;
  if (below().file_info(path)) return Access::Open;
  // Either nothing is there or a broken link. For a link that leads outside,
  // treating it as absent would reveal whether its target exists.
  return has_name(directory_of(path), file_name_of(path)) ? Access::DeadLink
                                                          : Access::Open;
}

bool FencedHost::has_name(const std::string& folder, const std::string& name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto [entry, is_new] = names_in_.try_emplace(folder);
  if (is_new) {
    auto names = below().list_directory(folder.empty() ? "." : folder);
    entry->second = {names.begin(), names.end()};
  }
  return entry->second.contains(name);
}

std::optional<FileInfo> FencedHost::file_info(const std::string& path) {
  if (file_name_of(path) == ".git" && !is_admitted(path)) {
    // It is no secret that the folder is a repository; a `.git` above it is
    // ignored.
    const std::string folder = directory_of(path);
    const bool within =
        stays_within(folder.empty() ? "." : folder, root_, below());
    return within ? below().file_info(path) : std::nullopt;
  }
  if (access_to(path) == Access::Open) return below().file_info(path);
  // Nothing exists below a file. Only links inside the root may reveal that.
  const std::string folder = directory_of(path);
  const bool is_inside = !path.starts_with('/') || is_below(path, root_);
  if (!folder.empty() && is_inside && !contains(path, "..")) {
    const auto above = below().file_info(folder);
    if (above && !above->directory) return std::nullopt;
  }
  return FileInfo();
}

std::vector<std::string> FencedHost::list_directory(const std::string& path) {
  if (access_to(path) != Access::Open) return {};
  return below().list_directory(path);
}

std::shared_ptr<const Bytes> FencedHost::read_file(const std::string& path,
                                                   int64_t limit,
                                                   std::string& why) {
  const Access access = access_to(path);
  if (access == Access::Open) return below().read_file(path, limit, why);
  why = access == Access::Outside
            ? "it leads outside " + in_backticks(root_) + ", and " + reason_
            : "it is a broken symbolic link";
  return nullptr;
}

std::string path_relative_to(const std::string& from, std::string_view name,
                             Host& host) {
  std::string path = name.starts_with('/')
                         ? std::string(name)
                         : join_path(directory_of(from), name);
  host.leads_to(from, path);
  return path;
}

std::string path_in(const std::string& folder, std::string_view name,
                    Host& host) {
  std::string path = join_path(folder, name);
  host.leads_to(folder, path);
  return path;
}

}  // namespace shardplan
