// SPDX-License-Identifier: Apache-2.0
// The git repository of the current directory, and its commits by the names
// that people use for them.
#pragma once

#include <optional>
#include <string>

#include "base/diagnostic.h"
#include "base/host.h"

namespace shardplan {

struct GitRepository {
  std::string root;    // root of the checkout: absolute, without links
  std::string prefix;  // working directory within it: "", or "configs/llama/"
};

struct GitCommit {
  std::string name;  // the name that the user gave
  std::string id;    // 40 or 64 hexadecimal digits
};

// Finds the repository of the host's working directory. Returns nullopt, with
// the reason reported, when git cannot be started or does not trust the
// repository (SP001), and when there is no repository (SP010).
std::optional<GitRepository> find_git_repository(Host& host,
                                                 Diagnostics& diags);

// Resolves a branch, a tag, an id, `HEAD~2` or anything else that git reads as
// one commit. Returns nullopt, with the reason reported, if there is no such
// commit or the name is ambiguous (SP010), or if this clone lacks the commit
// (SP001).
std::optional<GitCommit> resolve_revision(const std::string& revision,
                                          Span where, Host& host,
                                          Diagnostics& diags);

// Returns the best common ancestor of two commits; if there are several, the
// first that git names. Returns nullopt, with the reason reported, if there is
// none (SP010) or a shallow clone does not reach that far (SP001).
std::optional<GitCommit> merge_base(const GitCommit& a, const GitCommit& b,
                                    Span where, Host& host, Diagnostics& diags);

}  // namespace shardplan
