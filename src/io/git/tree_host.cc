// SPDX-License-Identifier: Apache-2.0
#include "io/git/tree_host.h"

#include <algorithm>
#include <utility>

#include "base/words.h"
#include "io/paths.h"

namespace shardplan {
namespace {

// Returns the parts of an absolute path.
std::vector<std::string> parts_of(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    const std::string_view part = next_part(path, '/');
    if (!part.empty() && part != ".") parts.emplace_back(part);
  }
  return parts;
}

bool starts_with(std::span<const std::string> parts,
                 std::span<const std::string> head) {
  return parts.size() >= head.size() &&
         std::equal(head.begin(), head.end(), parts.begin());
}

}  // namespace

GitTreeHost::GitTreeHost(Host& below, GitRepository repository,
                         GitCommit commit)
    : ForwardingHost(below),
      repository_(std::move(repository)),
      commit_(std::move(commit)),
      root_(parts_of(repository_.root)),
      here_(parts_of(join_path(repository_.root, repository_.prefix))),
      objects_(below) {}

std::optional<FileInfo> GitTreeHost::file_info(const std::string& path) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Found found = find(path);
  if (found.kind < Kind::Folder) return std::nullopt;
  FileInfo info{found.kind == Kind::Folder, 0, below().user(), 0};
  std::string why;
  // A missing object is still in the commit; read_file() reports the problem.
  if (found.kind == Kind::File) {
    info.size = objects_.size(found.id, why).value_or(0);
  }
  return info;
}

std::vector<std::string> GitTreeHost::list_directory(const std::string& path) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Found found = find(path);
  std::vector<std::string> names;
  if (found.kind != Kind::Folder || found.id.empty()) return names;
  const auto entries = entries_of(found.id, found.path, found.why);
  if (entries == nullptr) return names;
  for (const GitEntry& entry : *entries) names.push_back(entry.name);
  return names;
}

std::optional<std::string> GitTreeHost::real_path(const std::string& path) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Found found = find(path);
  if (found.kind < Kind::Folder) return std::nullopt;
  return found.path.empty() ? repository_.root
                            : join_path(repository_.root, found.path);
}

void GitTreeHost::leads_to(const std::string&, const std::string&) {
  // Files that a commit names are in the commit, not on the host below.
}

void GitTreeHost::may_wait_for(const std::string&) {
  // A commit contains no pipes.
}

std::shared_ptr<const Bytes> GitTreeHost::read_file(const std::string& path,
                                                    int64_t limit,
                                                    std::string& why) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Found found = find(path);
  why = std::move(found.why);
  if (!why.empty()) return nullptr;
  if (found.kind == Kind::File) return objects_.file(found.id, limit, why);
  why = "is a directory";
  return nullptr;
}

std::string GitTreeHost::problem() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return problem_;
}

std::shared_ptr<const std::vector<GitEntry>> GitTreeHost::entries_of(
    const std::string& name, const std::string& path, std::string& why) {
  auto entries = objects_.folder(name, why);
  if (entries == nullptr && problem_.empty()) {
    problem_ = (path.empty() ? "its root folder" : "the folder `" + path + "`");
    problem_ += ": " + why;
  }
  return entries;
}

// Finds what is below the root under these names.
GitTreeHost::Found GitTreeHost::look_up(std::span<const std::string> names) {
  Found found{Kind::Folder, "", commit_.id + "^{tree}", ""};
  if (!names.empty() && names.front() == ".git") {
    if (names.size() == 1) return {Kind::Folder, ".git", "", ""};
    return {Kind::Absent, "", "", "a revision does not contain `.git`"};
  }
  for (const std::string& name : names) {
    if (found.kind == Kind::File) {
      found.kind = Kind::Absent;
      found.why = "`" + found.path + "` is not a directory";
    }
    if (found.kind != Kind::Folder) return found;
    std::string why;
    const auto entries = entries_of(found.id, found.path, why);
    if (entries == nullptr) return {Kind::Unknown, "", "", why};
    const auto entry =
        std::ranges::lower_bound(*entries, name, {}, &GitEntry::name);
    if (entry == entries->end() || entry->name != name) {
      return {Kind::Absent, "", "", "no such file in `" + commit_.name + "`"};
    }
    found.path = join_path(found.path, name);
    found.id = entry->id;
    if (entry->kind == GitEntryKind::Folder) continue;
    found.kind = Kind::File;
    if (entry->kind == GitEntryKind::File) continue;
    found.kind = Kind::Unfollowed;
    found.why = &name == &names.back() ? "it is" : "`" + found.path + "` is";
    found.why +=
        entry->kind == GitEntryKind::Link ? " a symbolic link" : " a submodule";
    found.why += ", which is not followed in a revision";
  }
  return found;
}

// `x/..` leads back only if `x` is a folder, so that no link is passed
// unnoticed. The working directory is a folder even if the commit lacks it.
GitTreeHost::Found GitTreeHost::find(const std::string& path) {
  std::vector<std::string> at = here_;  // current position, from `/` on
  const std::vector<std::string> parts = parts_of(path);
  std::span<const std::string> rest = parts;
  if (path.starts_with('/')) {
    if (starts_with(rest, here_)) {
      rest = rest.subspan(here_.size());
    } else {
      at.clear();
    }
  }
  const auto look = [&]() -> Found {
    if (!starts_with(at, root_)) {
      return {Kind::Outside, "", "",
              "it is outside the repository, so no revision contains it"};
    }
    return look_up(std::span<const std::string>(at).subspan(root_.size()));
  };
  bool came_down = false;  // the previous part went into a folder
  for (const std::string& part : rest) {
    if (part != "..") {
      at.push_back(part);
      came_down = true;
      continue;
    }
    if (came_down) {
      Found folder = look();
      if (folder.kind != Kind::Folder && folder.kind != Kind::Outside) {
        return folder;
      }
    }
    if (!at.empty()) at.pop_back();
    came_down = false;
  }
  return look();
}

}  // namespace shardplan
