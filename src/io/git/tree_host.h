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

#include "base/forwarding_host.h"
#include "base/host.h"
#include "io/git/objects.h"
#include "io/git/repository.h"

namespace shardplan {

// Paths are as on the host below: relative to its working directory, or
// absolute. Below the repository's root are the files of the commit, exactly as
// recorded: nothing is checked out, so no filter runs (a Git LFS file is its
// pointer), and folders are read on demand. Nothing exists outside the root.
// Links and submodules exist but are not followed, and reading one reports
// that. The root has a `.git`, a folder in which nothing can be read. Writing,
// standard streams, the environment and the clock are those of the host below.
// Thread-safe.
class GitTreeHost : public ForwardingHost {
 public:
  // `below` must outlive this host.
  GitTreeHost(Host& below, GitRepository repository, GitCommit commit);

  std::optional<FileInfo> file_info(const std::string& path) override;
  std::vector<std::string> list_directory(const std::string& path) override;
  std::optional<std::string> real_path(const std::string& path) override;
  void leads_to(const std::string& from, const std::string& path) override;
  void may_wait_for(const std::string& path) override;
  std::shared_ptr<const Bytes> read_file(const std::string& path, int64_t limit,
                                         std::string& why) override;

  // Returns why some part of the commit could not be read, such as a missing or
  // damaged object, or a git process that ended; "" if all went well. If it is
  // not empty, file_info() may have missed a file and list_directory() entries.
  std::string problem();

 private:
  // From Folder on, something exists.
  enum class Kind : uint8_t {
    Outside,
    Absent,
    Unknown,
    Folder,
    File,
    Unfollowed,  // a link or a submodule
  };
  struct Found {
    Kind kind = Kind::Absent;
    std::string path;  // below the root: "a/b"
    std::string id;    // id of a file or folder
    std::string why;   // nothing can be read here; "" if something can
  };
  Found find(const std::string& path);
  Found look_up(std::span<const std::string> names);
  std::shared_ptr<const std::vector<GitEntry>> entries_of(
      const std::string& name, const std::string& path, std::string& why);

  GitRepository repository_;
  GitCommit commit_;
  std::vector<std::string> root_;  // path parts of the root; `here_` has those
                                   // of the working directory
  std::vector<std::string> here_;
  std::mutex mutex_;  // guards all that follows
  GitObjects objects_;
  std::string problem_;
};

}  // namespace shardplan
