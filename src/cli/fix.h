// SPDX-License-Identifier: Apache-2.0
// `check --fix`: applies rule edits to the user's rules files.
//
// In each pass the first fix of every finding that is an edit is made, in
// memory, where edits do not touch one another, and everything is checked
// anew. A pass counts only if its findings are gone and fewer are left, so
// passes end. Only then, and without --diff, files are written, each whole or
// not at all.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "cli/commands.h"
#include "cli/session.h"

namespace shardplan::cli {

struct AppliedFix {
  Code code = Code::InternalError;
  std::string file;
  int64_t line = 1;  // where the edit begins, in the file before its pass
  std::string text;
  int64_t bytes_per_device = 0;
};

struct ChangedFile {
  std::string before;
  std::string after;
};

struct FixRun {
  Session session;  // after the fixes
  Diagnostics diags;
  std::vector<AppliedFix> applied;           // in order
  std::map<std::string, ChangedFile> files;  // by path
};

// Empty when there is no answer even before a fix.
std::optional<FixRun> find_fixes(Context& context);

// Writes the changed files. False, with the reason reported, when one could
// not be written or has changed since it was read; earlier ones stay written,
// and are named.
bool write_fixes(const FixRun& run, Host& host, Diagnostics& diags);

}  // namespace shardplan::cli
