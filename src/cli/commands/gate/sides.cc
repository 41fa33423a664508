// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/gate/sides.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "cli/flags.h"
#include "io/fence.h"
#include "io/git/repository.h"

namespace shardplan::cli {
namespace {

constexpr std::string_view kConfigName = "shardplan.yaml";

// Reads the configuration in `folder`; returns false if it is broken. A missing
// configuration is not a failure here.
bool read_side(GateSide& side, Host& host, Diagnostics& diags) {
  const std::string path = join_path(side.folder, std::string(kConfigName));
  const auto info = host.file_info(path);
  if (!info || info->directory) return true;
  side.config = read_config(path, ConfigFrom::Named, host, diags);
  return side.config.has_value();
}

// Returns the folder of the configuration, from the working directory up to the
// root, as a relative path: "", "..". It is the nearest folder in which the
// base has a configuration, so that a change cannot put another one in front of
// it; else the nearest in which the head has one; else "".
std::string config_folder(const GitRepository& repository, Host& base,
                          Host& head) {
  const auto depth = std::ranges::count(repository.prefix, '/');
  for (Host* side : {&base, &head}) {
    std::string folder;
    for (int64_t up = 0; up <= depth; ++up) {
      const std::string path = join_path(folder, std::string(kConfigName));
      if (side->file_info(path)) return folder;
      folder = up == 0 ? ".." : "../" + folder;
    }
  }
  return "";
}

// Returns "origin/main (1a2b3c4d5)" for "origin/main" and "1a2b3c4d5".
std::string commit_title(const GitCommit& commit) {
  const std::string id = commit.id.substr(0, 9);
  return commit.name.starts_with(id) ? id : commit.name + " (" + id + ")";
}

}  // namespace

bool open_folder(const std::string& path, GateSide& side,
                 const std::shared_ptr<std::mutex>& mutex, Host& host,
                 Diagnostics& diags) {
  const auto info = host.file_info(path);
  const auto root = host.real_path(path);
  if (!info || !info->directory || !root) {
    diags
        .error(info ? Code::Usage : Code::UnreadableFile, {},
               "`" + path + "` is not a folder")
        .help(
            "`gate OLD/ NEW/` compares two folders, `gate BASE..HEAD` two "
            "revisions of a git repository");
    return false;
  }
  side.title = path;
  side.folder = path.ends_with('/') && path.size() > 1
                    ? path.substr(0, path.size() - 1)
                    : path;
  // The user named the folder, so its owner does not matter.
  side.fenced = std::make_unique<FencedHost>(host, *root,
                                             "`gate` reads nothing outside it");
  side.host = std::make_unique<SharedHost>(*side.fenced, mutex);
  return read_side(side, *side.host, diags);
}

bool open_revisions(const std::string& range, GateSide& base, GateSide& head,
                    Host& host, Diagnostics& diags) {
  if (const auto info = host.file_info(range); info && info->directory) {
    diags.error(Code::Usage, {}, in_backticks(range) + " is a single folder")
        .help("`gate OLD/ NEW/` compares two folders");
    return false;
  }
  const auto repository = find_git_repository(host, diags);
  if (!repository) return false;
  const size_t dots = range.find("..");
  const bool alone = dots == std::string::npos;
  std::string after = alone ? "" : range.substr(dots + 2);
  if (after.starts_with('.')) {
    diags.error(Code::Usage, {}, in_backticks(range) + " has three dots")
        .help(
            "`BASE` alone means its merge base with HEAD; `BASE..HEAD` "
            "compares the two directly");
    return false;
  }
  auto from =
      resolve_revision(alone ? range : range.substr(0, dots), {}, host, diags);
  auto to = resolve_revision(after.empty() ? "HEAD" : after, {}, host, diags);
  if (!from || !to) return false;
  if (alone) from = merge_base(*from, *to, {}, host, diags);
  if (!from) return false;
  const auto mutex = std::make_shared<std::mutex>();
  for (const auto& [side, commit] :
       {std::pair(&base, &*from), std::pair(&head, &*to)}) {
    side->title = commit_title(*commit);
    side->files = std::make_unique<GitTreeHost>(host, *repository, *commit);
    side->host = std::make_unique<SharedHost>(*side->files, mutex);
  }
  base.folder = head.folder =
      config_folder(*repository, *base.host, *head.host);
  return read_side(base, *base.host, diags) &&
         read_side(head, *head.host, diags);
}

bool was_seen_whole(const GateSide& side, Diagnostics& diags) {
  const std::string problem =
      side.files == nullptr ? "" : side.files->problem();
  if (problem.empty()) return true;
  diags
      .error(Code::UnreadableFile, {},
             in_backticks(side.title) + " cannot be read completely")
      .fact(problem);
  return false;
}

}  // namespace shardplan::cli
