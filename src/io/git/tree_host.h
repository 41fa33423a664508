// SPDX-License-Identifier: Apache-2.0
// A Host on which the files of a repository are those of one commit.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/host.h"
#include "base/passing_host.h"
#include "io/git/objects.h"
#include "io/git/repository.h"

namespace shardplan {

// Paths are as on the host below: relative to its working directory, or
// absolute. Below the repository's root there are the files of the commit, as
// they are recorded: nothing is checked out, so no filter runs (a file of Git
// LFS is its pointer), and folders are read when something in them is asked
// for. What is outside of the root is not there; links and submodules are, but
// are not followed: reading one says so. The root has a `.git`, a folder of
// which nothing can be read. Writing, standard streams, the environment and the
// clock are those of the host below. For several threads at once.
class GitTreeHost : public PassingHost {
 public:
  // `below` must outlive this one.
  GitTreeHost(Host& below, GitRepository repository, GitCommit commit);

  std::optional<FileInfo> file_info(const std::string& path) override;
  std::vector<std::string> list_directory(const std::string& path) override;
  std::optional<std::string> real_path(const std::string& path) override;
  void leads_to(const std::string& from, const std::string& path) override;
  void may_wait_for(const std::string& path) override;
  std::shared_ptr<const Bytes> read_file(const std::string& path, int64_t limit,
                                         std::string& why) override;

  // Why something of the commit that is there could not be looked at: an object
  // that is missing or damaged, a git that ended. So file_info() may have said
  // that there is nothing, and list_directory() too little. "" is none.
  std::string problem();

 private:
  enum class Is : uint8_t {
    Outside,
    Absent,
    Unknown,
    Folder,
    File,
    Link,
    Submodule
  };
  struct Found {
    Is is = Is::Absent;
    std::string path;  // below the root: "a/b"
    std::string id;    // of a file or folder
    std::string why;   // nothing can be read here; "" where something can
  };
  Found find(const std::string& path);
  Found look_up(std::span<const std::string> names);
  std::shared_ptr<const std::vector<GitEntry>> entries_of(
      const std::string& name, const std::string& path, std::string& why);

  GitRepository repository_;
  GitCommit commit_;
  std::vector<std::string> root_;  // its parts, and those of where we stand
  std::vector<std::string> here_;
  std::mutex mutex_;  // for all that follows
  GitObjects objects_;
  std::string problem_;
};

}  // namespace shardplan
