// SPDX-License-Identifier: Apache-2.0
// How far a configuration that was found is trusted: whose it is, and which
// folder holds all that it may name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/host.h"
#include "cli/flags.h"

namespace shardplan::cli {

// The folder of `path`, "." where it has none.
std::string folder_of(const std::string& path);

// The nearest folder upward from that of the file `path` in which there is a
// `.git`, else the file's folder; without links. "" when it cannot be looked
// at.
std::string repository_of(const std::string& path, Host& host);

// False, with the reason reported (SP010), when the file, its folder or `root`
// is of another user: neither ours nor, for root, of the user who called sudo.
bool is_trusted(const std::string& path, const std::string& root, Host& host,
                Diagnostics& diags);

// shardplan.yaml: settings for every run below its folder.
//
//   rules: [rules/llama.yaml]
//   mesh: {fsdp: 8, tp: 4}
//   deny: warnings
//
// Keys are long flag names (`fail_on` is `fail-on`) or `targets`, paths are
// relative to the file, flags override. The
// nearest file upward from the working directory is used, alone: nothing is
// merged unless the file says `extends: other.yaml`.
//
// A file that was found, not named, may come with somebody else's repository.
// It names no path outside of that (its folder, where there is none), nor does
// any file that it leads to (io/fence.h), it is of ours (owner), and what it
// extends is not quoted unless it is a configuration.

enum class ConfigFrom : uint8_t { Named, Found };

// What `check` without MODEL and `gate` judge: a model with settings of its
// own.
//
//   targets:
//     llama:
//       model: config.json             # relative to the file, as all paths
//       rules: [rules/llama.yaml]
//       mesh: [fsdp=8, "fsdp=4,tp=2"]  # two targets: llama[fsdp=8], ..
//       mode: [train, decode]          # four: llama[fsdp=8, train], ..
//
// A key that takes one value and has a list of them makes a target of each.
struct Target {
  std::string name;   // "llama", "llama[fsdp=8, train]"
  Span where;         // its key
  std::string model;  // as it will be read
  std::vector<Setting> settings;
};
// More are refused (SP010): a slip of a matrix would take hours.
inline constexpr size_t kMaxTargets = 10'000;

struct Config {
  std::vector<Setting> settings;
  std::vector<Target> targets;
  std::vector<std::string> files;  // the file, then those that it extends
};

// Path of the nearest shardplan.yaml; empty when there is none. The search ends
// at the root of a repository (a folder with `.git`) and at the end of a file
// system.
std::optional<std::string> find_config(Host& host);

// Reads a configuration file and what it extends. Empty when it cannot be read,
// understood or trusted (SP001, SP002, SP003, SP004, SP010).
std::optional<Config> read_config(const std::string& path, ConfigFrom from,
                                  Host& host, Diagnostics& diags);

// The files that a setting names, as they will be read; not `-` and `@name`.
std::vector<std::string> files_of(const Setting& setting);

// The settings of a configuration that hold for this run: those that the
// command takes and that no flag overrides. --plan overrides rules and mesh,
// and the other way round; --json and --format override each other. What makes
// a plan counts for `inspect` with --shard alone.
std::vector<Setting> remaining_settings(const std::vector<Setting>& config,
                                        const std::vector<Setting>& flags,
                                        std::string_view command);

// A plan and rules at once, or what belongs to a mesh without another mesh, or
// two formats (SP010).
void check_conflicts(const std::vector<Setting>& settings, Diagnostics& diags);

}  // namespace shardplan::cli
