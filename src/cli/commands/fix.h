// SPDX-License-Identifier: Apache-2.0
// `check --fix`: finds and applies edits of rules files. Edits are checked in
// memory before any file is written.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/diagnostic.h"
#include "base/forwarding_host.h"
#include "base/host.h"
#include "cli/commands.h"
#include "session/session.h"

namespace shardplan::cli {

// The name of the SourceFile of standard input. An OverlayHost also uses it as
// the path of the text that was read from standard input, which can be read
// only once.
inline constexpr std::string_view kStandardInput = "<stdin>";

// A Host on which some files already have the contents that are about to be
// written.
class OverlayHost : public ForwardingHost {
 public:
  // `host` must outlive this one. The keys of `files` are the paths that
  // callers ask for.
  OverlayHost(Host& host, std::map<std::string, std::string> files)
      : ForwardingHost(host), files_(std::move(files)) {}

  std::optional<FileInfo> file_info(const std::string& path) override;
  std::shared_ptr<const Bytes> read_file(const std::string& path, int64_t limit,
                                         std::string& why) override;
  std::shared_ptr<const Bytes> read_stdin(std::string& why) override;

 private:
  std::map<std::string, std::string> files_;
};

// `check --fix`: applies rule edits to the user's rules files.
//
// Each pass selects, for every finding, the first fix that is an edit and does
// not touch an edit already selected. It makes these edits in memory and checks
// everything again. A pass counts only if the findings it addresses are gone
// and fewer findings are left, so passes end; otherwise it is repeated with
// half as many edits. Files are written only after the last pass and without
// --diff, each whole or not at all.

struct AppliedFix {
  Code code = Code::InternalError;
  std::string file;
  int64_t line = 1;  // line of the edit, in the file before its pass
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

// Returns empty if the model cannot be checked even before a fix.
std::optional<FixRun> find_fixes(Context& context);

// Writes the changed files. Returns false, with the reason reported, if one
// could not be written or has changed since it was read; files written before
// it stay written, and the report names them.
bool write_fixes(const FixRun& run, Host& host, Diagnostics& diags);

}  // namespace shardplan::cli
