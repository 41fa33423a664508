// SPDX-License-Identifier: Apache-2.0
// Checks many targets at once, each as `check` would check it alone.
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
#include "base/forwarding_host.h"
#include "base/host.h"
#include "base/source.h"
#include "cli/config.h"
#include "cli/options.h"
#include "gate/baseline.h"
#include "gate/changes.h"
#include "session/memory_answer.h"
#include "session/progress_listener.h"
#include "session/session.h"

namespace shardplan::cli {

// A ProgressListener that several threads may report to.
class SharedProgress : public ProgressListener {
 public:
  explicit SharedProgress(ProgressListener& progress) : progress_(progress) {}

  void stage(std::string_view text) override;
  void step(std::string_view work, std::string_view text, double done) override;

 private:
  ProgressListener& progress_;
  std::mutex mutex_;
};

// Reports, on a ProgressListener, pieces of work that several threads begin:
// "target 3 of 200: llama".
class WorkProgress {
 public:
  // `what` names one piece: "target".
  WorkProgress(ProgressListener& progress, std::string what, size_t count)
      : progress_(progress), what_(std::move(what)), count_(count) {}

  void begin(std::string_view name);

 private:
  ProgressListener& progress_;
  std::string what_;
  size_t count_ = 0;
  size_t begun_ = 0;
  std::mutex mutex_;
};

// A Host that records what is read through it, so that a caller can ask whether
// another host would give the same answers. Not thread-safe.
class WatchingHost : public ForwardingHost {
 public:
  using ForwardingHost::ForwardingHost;

  std::optional<FileInfo> file_info(const std::string& path) override;
  std::vector<std::string> list_directory(const std::string& path) override;
  std::shared_ptr<const Bytes> read_file(const std::string& path, int64_t limit,
                                         std::string& why) override;

  // Returns whether every recorded answer is the same on `there`, where `moved`
  // gives the path that corresponds to a path here.
  bool would_see_the_same(
      Host& there,
      const std::function<std::string(const std::string&)>& moved) const;

 private:
  std::map<std::string, bool> looked_at_;  // whether the path exists
  std::map<std::string, std::vector<std::string>> listed_;
  std::map<std::pair<std::string, int64_t>, std::shared_ptr<const Bytes>>
      bytes_;  // null: it could not be read
};

struct CheckedTarget {
  std::string name;
  Options options;
  Diagnostics diags;               // its findings, which own their sources
  std::optional<Session> session;  // empty: the diagnostics explain why
  // Set if the request asks for memory, not only for parameters.
  std::optional<MemoryAnswer> memory;
  // Tokens that fit in the KV cache beside everything else. Set if a workload
  // and a memory limit are given.
  std::optional<int64_t> kv_tokens;
};

// Returns the settings of the configuration, overridden by the target's own
// settings as by flags.
std::vector<Setting> target_settings(const std::vector<Setting>& defaults,
                                     const std::vector<Setting>& own);

enum class Fixes : uint8_t { Find, Leave };
// Checks a target. `settings` are all settings that apply to it. Throws only if
// memory runs out.
CheckedTarget check_target(const Target& target,
                           const std::vector<Setting>& settings, Fixes fixes,
                           Host& host);
// Finds fixes later, for the findings for which `is_asked` is true.
//
// REQUIRES: the target's diagnostics are unchanged since check_target().
void find_fixes_of(CheckedTarget& checked,
                   const std::function<bool(const Diagnostic&)>& is_asked,
                   Host& host);

// Checks inputs that were already read, with the options `checked.options`.
void check_read_inputs(CheckedTarget& checked, ReadInputs inputs, Host& host,
                       ProgressListener& progress);

// Returns the target as one side of a comparison.
//
// REQUIRES: there is a session.
TargetSide side_of(const CheckedTarget& checked);

// Returns --deny and --allow as settings, which are applied last.
std::vector<Setting> severity_settings(const Options& options);

// Returns the targets whose names match one of the patterns, in which `*` is
// any text; all targets if there are no patterns. Returns empty, with the
// reason reported (SP010), if a pattern matches none.
std::optional<std::vector<Target>> chosen_targets(
    std::vector<Target> targets, const std::vector<std::string>& patterns,
    Diagnostics& diags);

// Merges the findings of several targets: findings that differ only in their
// target are reported once, with the names of all their targets.
void add_findings_of(std::span<const TargetFindings> targets,
                     Diagnostics& diags);

// Returns the places that a diagnostic points at, as text: whoever reads a file
// again has other spans for the same places.
std::string places_text(const Diagnostic& diagnostic);

}  // namespace shardplan::cli
