// SPDX-License-Identifier: Apache-2.0
// Objects of a git repository by their ids: contents of files, and folders.
//
// Nothing is fetched: what a partial clone lacks is missing. One git stays
// open for sizes and one for contents; only the beginning of a large object has
// a git of its own, which is ended early. Not for several threads at once.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/host.h"
#include "base/source.h"

namespace shardplan {

enum class GitEntryKind : uint8_t { File, Folder, Link, Submodule };

struct GitEntry {
  std::string name;  // no `/`; may hold line breaks
  std::string id;
  GitEntryKind kind = GitEntryKind::File;
};

// The entries of a folder, in order of their names. `bytes` are those of a tree
// object whose ids have `id_size` bytes. Empty, with the reason in `why`, for
// one that git itself would not make.
std::optional<std::vector<GitEntry>> parse_git_tree(std::string_view bytes,
                                                    size_t id_size,
                                                    std::string& why);

class GitObjects {
 public:
  // `host` must outlive this.
  explicit GitObjects(Host& host) : host_(host) {}

  // Null or empty, with the reason in `why`, where the object is missing,
  // cannot be read, or is too large.

  // Bytes of a file. Nothing is read of it.
  std::optional<int64_t> size(const std::string& id, std::string& why);
  // The first `limit` bytes of a file, or all. At most 4 GiB.
  std::shared_ptr<const Bytes> file(const std::string& id, int64_t limit,
                                    std::string& why);
  // A folder; `name` may also be `<id of a commit>^{tree}`. At most 256 MiB.
  std::shared_ptr<const std::vector<GitEntry>> folder(const std::string& name,
                                                      std::string& why);

 private:
  struct Header {
    std::string id;
    std::string type;
    int64_t size = 0;
  };
  // One of the two that stay open; null when it has to be started.
  using Process = std::unique_ptr<ChildProcess>;

  std::optional<Header> ask(Process& git, const char* mode,
                            const std::string& name, std::string& why);
  std::optional<std::string> contents(const std::string& name,
                                      std::string_view type, int64_t most,
                                      std::string& why);
  std::shared_ptr<const Bytes> beginning(const std::string& id, int64_t count,
                                         std::string& why);
  std::string missing(const std::string& id);
  std::string ended(Process& git, const std::string& name);
  std::shared_ptr<const Bytes> keep(const std::string& id,
                                    std::shared_ptr<const Bytes> bytes);

  Host& host_;
  Process sizes_;
  Process contents_;
  std::map<std::string, int64_t> known_sizes_;
  // Whole files, and beginnings of larger ones, while they are not too many.
  std::map<std::string, std::shared_ptr<const Bytes>> files_;
  int64_t kept_ = 0;
  std::map<std::string, std::shared_ptr<const std::vector<GitEntry>>> folders_;
  std::map<std::string, std::string> missing_;  // why, by id
  std::optional<std::string> to_fetch_;         // see missing()
  std::string waits_;                           // why git is not asked any more
};

}  // namespace shardplan
