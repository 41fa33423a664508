// SPDX-License-Identifier: Apache-2.0
// The two sides of a gate: two folders, or two revisions of the git repository
// that contains the working directory. Each side reads only files that its own
// configuration may read.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/diagnostic.h"
#include "base/host.h"
#include "cli/config.h"
#include "cli/targets.h"
#include "gate/baseline.h"
#include "io/git/tree_host.h"

namespace shardplan::cli {

// One side of the change.
struct GateSide {
  std::string title;  // "old/", "1a2b3c4"
  bool base = false;
  std::unique_ptr<GitTreeHost>
      files;                     // of a revision; null: the context's host
  std::unique_ptr<Host> fenced;  // restricted to files of the side
  std::unique_ptr<SharedHost> host;
  std::string folder;            // that contains shardplan.yaml
  std::optional<Config> config;  // empty: none, or broken
  std::optional<Baseline> baseline;
};

// Both functions return false, with the reason reported, on failure. A missing
// configuration is not a failure.

// Opens OLD/ or NEW/. Nothing outside the folder is read. Both sides use one
// host, so they share `mutex`.
bool open_folder(const std::string& path, GateSide& side,
                 const std::shared_ptr<std::mutex>& mutex, Host& host,
                 Diagnostics& diags);
// Opens `BASE..HEAD`, or BASE alone, which means the merge base of BASE and
// HEAD. The configuration is the nearest one, from the working directory up to
// the root, that the base has, else that the head has.
bool open_revisions(const std::string& range, GateSide& base, GateSide& head,
                    Host& host, Diagnostics& diags);

// Returns whether everything in a revision could be read. Otherwise reports the
// problem (SP001), since an unreadable file may have been treated as absent.
bool was_seen_whole(const GateSide& side, Diagnostics& diags);

}  // namespace shardplan::cli
