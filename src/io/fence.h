// SPDX-License-Identifier: Apache-2.0
// The fence decides which files may be opened.
//
// Code that runs on behalf of a file that somebody else may have written (a
// `shardplan.yaml` that was found, a side of `gate`) opens nothing outside one
// folder, no matter which file names the path: a configuration, rules, an
// architecture, an index, a link. Readers do not know about the fence. They
// hold a Host, which is the fence, and it refuses by default. A path is opened
// only if
//
//   - it leads into the folder once links are followed, and not into a `.git`;
//   - or the user named it on the command line (admit());
//   - or a file that the user named leads to it (Host::leads_to()), such as
//     the shards of an index. This rule lets us read a model in Hugging
//     Face's cache, which consists of links into another folder.
//
// A reader that does not report where its path comes from is therefore refused
// outside the folder, never let through. For a refused path, file_info()
// reports an existing file and list_directory() an empty folder, so that the
// answers do not reveal whether anything exists outside. read_file() gives the
// reason.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/forwarding_host.h"
#include "base/host.h"

namespace shardplan {

// Returns whether `path` is within `root`, a real path, and not in a `.git`. If
// nothing exists at `path`, the nearest existing folder above it decides.
bool stays_within(const std::string& path, const std::string& root, Host& host);

// A Host that enforces the fence. Several threads may share it if they may
// share the host below.
class FencedHost : public ForwardingHost {
 public:
  // `root` is a real path; if it is "", only admitted paths are opened.
  // `reason` ends the sentence "it leads outside `root`, and ..". `below` must
  // outlive this host.
  FencedHost(Host& below, std::string root, std::string reason);

  // Opens `path` from now on, because the user named it.
  void admit(const std::string& path);

  void leads_to(const std::string& from, const std::string& path) override;
  std::optional<FileInfo> file_info(const std::string& path) override;
  std::vector<std::string> list_directory(const std::string& path) override;
  std::shared_ptr<const Bytes> read_file(const std::string& path, int64_t limit,
                                         std::string& why) override;

 private:
  enum class Access : uint8_t { Open, Outside, DeadLink };
  Access access_to(const std::string& path);
  bool is_admitted(const std::string& path);
  // Returns whether a folder has an entry of this name, including a broken
  // link.
  bool has_name(const std::string& folder, const std::string& name);

  std::string root_;
  std::string reason_;
  std::mutex mutex_;
  std::set<std::string> admitted_;  // paths as the user spells them
  std::map<std::string, std::set<std::string>> names_in_;  // entries by folder
};

// Returns the path of a file that `from` names, or that is looked for next to
// it.
std::string path_relative_to(const std::string& from, std::string_view name,
                             Host& host);
// Returns the path of an entry of a folder.
std::string path_in(const std::string& folder, std::string_view name,
                    Host& host);

}  // namespace shardplan
