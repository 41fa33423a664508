// SPDX-License-Identifier: Apache-2.0
// The two sides of a gate: folders, or revisions of the git repository that we
// stand in, each read as its own configuration may read.
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
  std::unique_ptr<Host> fenced;  // as the configuration may read
  std::unique_ptr<SharedHost> host;
  std::string folder;            // where shardplan.yaml stands
  std::optional<Config> config;  // empty: there is none, or it is broken
  std::optional<Baseline> baseline;
};

// Each false, with the reason reported. That there is no configuration is no
// mistake.

// OLD/ or NEW/. Nothing outside of the folder is read. `mutex` is that of both
// sides, which are on one host.
bool open_folder(const std::string& path, GateSide& side,
                 const std::shared_ptr<std::mutex>& mutex, Host& host,
                 Diagnostics& diags);
// `BASE..HEAD`, or BASE alone: its merge base with HEAD. The configuration is
// the nearest, from where we stand up to the root, that the base has, else the
// head.
bool open_revisions(const std::string& range, GateSide& base, GateSide& head,
                    Host& host, Diagnostics& diags);

// Reports what could not be looked at in a revision (SP001): then something may
// have been taken for absent that is there. True when there was nothing.
bool was_seen_whole(const GateSide& side, Diagnostics& diags);

}  // namespace shardplan::cli
