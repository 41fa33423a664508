// SPDX-License-Identifier: Apache-2.0
// Judging targets: each as `check` would judge it alone, many at once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/diagnostic.h"
#include "base/host.h"
#include "base/passing_host.h"
#include "base/source.h"
#include "cli/commands/fix.h"
#include "cli/config.h"
#include "cli/options.h"
#include "gate/changes.h"
#include "session/memory_answer.h"
#include "session/progress_listener.h"
#include "session/session.h"

namespace shardplan::cli {

// Progress that several threads tell of.
class SharedProgress : public ProgressListener {
 public:
  explicit SharedProgress(ProgressListener& progress) : progress_(progress) {}

  void stage(std::string_view text) override;
  void step(std::string_view work, std::string_view text, double done) override;

 private:
  ProgressListener& progress_;
  std::mutex mutex_;
};

// Pieces of work that several threads begin: "target 3 of 200: llama".
class Pieces {
 public:
  // `what` is one of them, in words.
  Pieces(ProgressListener& progress, std::string what, size_t count)
      : progress_(progress), what_(std::move(what)), count_(count) {}

  void begin(std::string_view name);

 private:
  ProgressListener& progress_;
  std::string what_;
  size_t count_ = 0;
  size_t begun_ = 0;
  std::mutex mutex_;
};

// A Host that remembers what was looked at, so that it can be asked elsewhere
// whether all of it is the same there. For one thread.
class WatchingHost : public OverlayHost {
 public:
  explicit WatchingHost(Host& host) : OverlayHost(host, {}), host_(host) {}

  std::optional<FileInfo> file_info(const std::string& path) override;
  std::vector<std::string> list_directory(const std::string& path) override;
  std::shared_ptr<const Bytes> read_file(const std::string& path, int64_t limit,
                                         std::string& why) override;

  // `moved` says where a path is there.
  bool would_see_the_same(
      Host& there,
      const std::function<std::string(const std::string&)>& moved) const;

 private:
  Host& host_;
  std::map<std::string, bool> looked_at_;  // whether it is there
  std::map<std::string, std::vector<std::string>> listed_;
  std::map<std::pair<std::string, int64_t>, std::shared_ptr<const Bytes>>
      bytes_;  // null: it could not be read
};

struct JudgedTarget {
  std::string name;
  Options options;
  Diagnostics diags;               // its own; they keep what they point into
  std::optional<Session> session;  // empty: the diagnostics say why
  // Set if the request is about more than parameters.
  std::optional<MemoryAnswer> memory;
  // Tokens that the KV cache has room for beside the rest, where a workload
  // and a limit are given.
  std::optional<int64_t> kv_tokens;
};

// Settings over those of the configuration, as flags are.
std::vector<Setting> target_settings(const std::vector<Setting>& defaults,
                                     const std::vector<Setting>& own);

enum class Fixes : uint8_t { Find, Leave };
// `settings` are all that hold for the target. Never throws but for memory.
JudgedTarget judge_target(const Target& target,
                          const std::vector<Setting>& settings, Fixes fixes,
                          Host& host);
// Finds them later, of the findings for which `is_asked` is true; REQUIRES: the
// diagnostics of the target are as judge_target() left them.
void find_fixes_of(JudgedTarget& judged,
                   const std::function<bool(const Diagnostic&)>& is_asked,
                   Host& host);

// The same of what has been read, as `judged.options` say.
void judge_read(JudgedTarget& judged, ReadInputs inputs, Host& host,
                ProgressListener& progress);

// REQUIRES: there is a session.
TargetSide side_of(const JudgedTarget& judged);

// What --deny and --allow say, as settings that come last.
std::vector<Setting> severity_settings(const Options& options);

// Those whose names are like one of the patterns, in which `*` is any text; all
// without patterns. Empty, with the reason reported (SP010), when a pattern is
// like none.
std::optional<std::vector<Target>> chosen_targets(
    std::vector<Target> targets, const std::vector<std::string>& patterns,
    Diagnostics& diags);

// The findings of targets as one list: what is the same but for its targets is
// told once, with their names.
struct FindingsOf {
  std::string target;
  const Diagnostics* diags = nullptr;
};
void add_findings_of(std::span<const FindingsOf> targets, Diagnostics& diags);

}  // namespace shardplan::cli
