// SPDX-License-Identifier: Apache-2.0
// Reads objects of a git repository by their ids: contents of files, and
// folders.
//
// Nothing is fetched: objects that a partial clone lacks are missing. One git
// process stays open for sizes and one for contents. Only the beginning of a
// large object is read by its own process, which is ended early. Not
// thread-safe.
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
  std::string name;  // no `/`; may have line breaks
  std::string id;
  GitEntryKind kind = GitEntryKind::File;
};

// Parses the entries of a folder, sorted by name. `bytes` is a tree object
// whose ids have `id_size` bytes. Returns nullopt, with the reason in `why`,
// for a folder that git itself would not make.
std::optional<std::vector<GitEntry>> parse_git_tree(std::string_view bytes,
                                                    size_t id_size,
                                                    std::string& why);

class GitObjects {
 public:
  // `host` must outlive this object.
  explicit GitObjects(Host& host) : host_(host) {}

  // These return null or nullopt, with the reason in `why`, if the object is
  // missing, cannot be read, or is too large.

  // Returns the size of a file in bytes, without reading the file.
  std::optional<int64_t> size(const std::string& id, std::string& why);
  // Returns the first `limit` bytes of a file, or all. At most 4 GiB.
  std::shared_ptr<const Bytes> file(const std::string& id, int64_t limit,
                                    std::string& why);
  // Returns a folder; `name` may also be `<commit id>^{tree}`. At most 256 MiB.
  std::shared_ptr<const std::vector<GitEntry>> folder(const std::string& name,
                                                      std::string& why);

 private:
  struct Header {
    std::string id;
    std::string type;
    int64_t size = 0;
  };
  // A process that stays open; null when it must be started.
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
  std::shared_ptr<const Bytes> cache(const std::string& id,
                                     std::shared_ptr<const Bytes> bytes);

  Host& host_;
  Process sizes_;
  Process contents_;
  std::map<std::string, int64_t> known_sizes_;
  // Whole files, and beginnings of larger ones, up to a limit on their bytes.
  std::map<std::string, std::shared_ptr<const Bytes>> files_;
  int64_t cached_bytes_ = 0;
  std::map<std::string, std::shared_ptr<const std::vector<GitEntry>>> folders_;
  std::map<std::string, std::string> missing_;  // reason by id
  std::optional<std::string> to_fetch_;         // see missing()
  std::string why_stopped_;                     // why git is no longer asked
};

}  // namespace shardplan
