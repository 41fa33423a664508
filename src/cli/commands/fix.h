// SPDX-License-Identifier: Apache-2.0
// A Host on which some files already read as they are about to be written.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/host.h"
#include "base/passing_host.h"
#include "cli/commands.h"
#include "session/session.h"

namespace shardplan::cli {

// What a SourceFile of standard input is called. Here it names the text that
// standard input gave, since it gives it only once.
inline constexpr std::string_view kStandardInput = "<stdin>";

class OverlayHost : public PassingHost {
 public:
  // `host` must outlive this one; `files` are by path, as it will be asked for.
  OverlayHost(Host& host, std::map<std::string, std::string> files);

  std::optional<FileInfo> file_info(const std::string& path) override;
  std::shared_ptr<const Bytes> read_file(const std::string& path, int64_t limit,
                                         std::string& why) override;
  std::shared_ptr<const Bytes> read_stdin(std::string& why) override;

 private:
  std::map<std::string, std::string> files_;
};

// `check --fix`: applies rule edits to the user's rules files.
//
// In each pass the first fix of every finding that is an edit is made, in
// memory, where edits do not touch, and everything is checked anew. A pass
// counts only if its findings are gone and fewer are left, so passes end; where
// it does not, half as many are made. Only then, and without --diff, files are
// written, each whole or not at all.

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
