// SPDX-License-Identifier: Apache-2.0
// How far a configuration that was found is trusted: whose it is, and which
// files it may name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/host.h"
#include "cli/overlay_host.h"

namespace shardplan::cli {

// The folder of `path`, "." where it has none.
std::string folder_of(const std::string& path);

// The nearest folder upward from that of the file `path` in which there is a
// `.git`, else the file's folder; without links. "" when it cannot be looked
// at.
std::string repository_of(const std::string& path, Host& host);

// Whether `path` is within `root`, a real path, and not in a `.git`. Of a path
// where nothing is, the nearest folder that exists decides.
bool stays_within(const std::string& path, const std::string& root, Host& host);

// False, with the reason reported (SP010), when the file, its folder or `root`
// is of another user: neither ours nor, for root, of the user who called sudo.
bool is_trusted(const std::string& path, const std::string& root, Host& host,
                Diagnostics& diags);

// A Host on which `named` files, and what is in them when they are folders, are
// read only while they are within `root`: a folder may hold links.
class FencedHost : public OverlayHost {
 public:
  FencedHost(Host& host, std::string root, std::vector<std::string> named)
      : OverlayHost(host, {}),
        host_(host),
        root_(std::move(root)),
        named_(std::move(named)) {}

  std::shared_ptr<const Bytes> read_file(const std::string& path, int64_t limit,
                                         std::string& why) override;

 private:
  Host& host_;
  std::string root_;
  std::vector<std::string> named_;
};

}  // namespace shardplan::cli
