// SPDX-License-Identifier: Apache-2.0
// The fence: which files may be opened.
//
// What runs on behalf of a file that somebody else may have written (a
// `shardplan.yaml` that was found, a side of `gate`) opens nothing outside of
// one folder, whichever file names the path: a configuration, rules, an
// architecture, an index, a link. Readers know nothing of this. They hold a
// Host, which is the fence, and it refuses by default: a path is opened where
//
//   - it leads into the folder once links are followed, and not into a `.git`;
//   - or the user named it on the command line (admit());
//   - or a file that the user named leads to it (Host::leads_to()), such as the
//     shards of an index, so that a model in Hugging Face's cache, which is
//     links into another folder, is read.
//
// A reader that says nothing of where its path comes from is therefore refused
// outside, never let through. What is refused is there as far as file_info()
// goes, and empty as a folder: what lies outside is not told by whether it
// exists. read_file() says why.
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

#include "base/host.h"
#include "base/passing_host.h"

namespace shardplan {

// Whether `path` is within `root`, a real path, and not in a `.git`. Of a path
// where nothing is, the nearest folder that exists decides.
bool stays_within(const std::string& path, const std::string& root, Host& host);

// For several threads at once where the host below is.
class FencedHost : public PassingHost {
 public:
  // `root` is a real path; "" admits nothing but what is admitted. `because`
  // ends the sentence "it leads out of `root`, and ..". `below` must outlive
  // this one.
  FencedHost(Host& below, std::string root, std::string because);

  // The user named `path`.
  void admit(const std::string& path);

  void leads_to(const std::string& from, const std::string& path) override;
  std::optional<FileInfo> file_info(const std::string& path) override;
  std::vector<std::string> list_directory(const std::string& path) override;
  std::shared_ptr<const Bytes> read_file(const std::string& path, int64_t limit,
                                         std::string& why) override;

 private:
  enum class Is : uint8_t { Open, Outside, DeadLink };
  Is judge(const std::string& path);
  bool is_admitted(const std::string& path);
  // Whether a folder has an entry of this name, a link that leads nowhere, too.
  bool has_name(const std::string& folder, const std::string& name);

  std::string root_;
  std::string because_;
  std::mutex mutex_;
  std::set<std::string> admitted_;  // as they are asked for
  std::map<std::string, std::set<std::string>> names_in_;  // of folders
};

// The path of what the file `from` names, or of what is looked for beside it.
std::string path_beside(const std::string& from, std::string_view name,
                        Host& host);
// The path of something in a folder.
std::string path_in(const std::string& folder, std::string_view name,
                    Host& host);

}  // namespace shardplan
