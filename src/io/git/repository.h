// SPDX-License-Identifier: Apache-2.0
// The git repository of the current directory, and commits in it by the names
// that people give them.
#pragma once

#include <optional>
#include <string>

#include "base/diagnostic.h"
#include "base/host.h"

namespace shardplan {

struct GitRepository {
  std::string root;    // of the checkout: absolute, without links
  std::string prefix;  // the working directory in it: "", or "configs/llama/"
};

struct GitCommit {
  std::string name;  // as the user named it
  std::string id;    // 40 or 64 hexadecimal digits
};

// That of the host's working directory. Empty, with the reason reported, when
// git cannot be started or does not trust the repository (SP001), and when
// there is none (SP010).
std::optional<GitRepository> find_git_repository(Host& host,
                                                 Diagnostics& diags);

// A branch, a tag, an id, `HEAD~2` and whatever else git reads as one commit.
// Empty, with the reason reported: no such commit, or a name of two (SP010);
// one that this clone does not have (SP001).
std::optional<GitCommit> resolve_revision(const std::string& revision,
                                          Span where, Host& host,
                                          Diagnostics& diags);

// The best common ancestor of two commits, where there are several the first
// that git names. Empty, with the reason reported, when there is none (SP010)
// or a shallow clone does not reach so far (SP001).
std::optional<GitCommit> merge_base(const GitCommit& a, const GitCommit& b,
                                    Span where, Host& host, Diagnostics& diags);

}  // namespace shardplan
