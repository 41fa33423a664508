// SPDX-License-Identifier: Apache-2.0
// shardplan.yaml: how it is found, how far it is trusted, and which of its
// settings apply to a run. A configuration that was found, not named by the
// user, must belong to the user and may name files only within its repository.
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

// Returns the folder of `path`, "." if `path` names none.
std::string folder_of(const std::string& path);

// Returns the nearest folder, upward from that of the file `path`, that
// contains `.git`; if there is none, the file's own folder. Symbolic links are
// resolved. Returns "" if the folder cannot be read.
std::string repository_of(const std::string& path, Host& host);

// Returns whether the file, its folder and `root` belong to this user or, if
// this user is root, to the user who called sudo. Otherwise reports the reason
// (SP010).
bool is_trusted(const std::string& path, const std::string& root, Host& host,
                Diagnostics& diags);

// shardplan.yaml: settings for every run below its folder.
//
//   rules: [rules/llama.yaml]
//   mesh: {fsdp: 8, tp: 4}
//   deny: warnings
//
// Keys are long flag names (`fail_on` is `fail-on`) or `targets`. Paths are
// relative to the file, and flags override settings. Only the nearest file
// upward from the working directory is used: nothing is merged unless the file
// says `extends: other.yaml`.
//
// A file that was found, not named, may come from somebody else's repository.
// Therefore neither it nor any file that it refers to may name a path outside
// that repository (or outside the file's folder if there is no repository;
// io/fence.h), it must belong to the user, and a file that it extends is quoted
// only if that is a configuration.

enum class ConfigFrom : uint8_t { Named, Found };

// A model with its own settings, which `check` without MODEL and `gate` check.
//
//   targets:
//     llama:
//       model: config.json             # relative to this file
//       rules: [rules/llama.yaml]
//       mesh: [fsdp=8, "fsdp=4,tp=2"]  # two targets: llama[fsdp=8], ..
//       mode: [train, decode]          # four: llama[fsdp=8, train], ..
//
// A list under a key that has a single value makes one target per item.
struct Target {
  std::string name;   // "llama", "llama[fsdp=8, train]"
  Span where;         // its key
  std::string model;  // the path of the file or folder to read
  std::vector<Setting> settings;
};
// More targets are an error (SP010), because a mistake in a matrix of settings
// would take hours to run.
inline constexpr size_t kMaxTargets = 10'000;

struct Config {
  std::vector<Setting> settings;
  std::vector<Target> targets;
  std::vector<std::string> files;  // the file, then the files that it extends
};

// Returns the path of the nearest shardplan.yaml; empty if there is none. The
// search ends at the root of a repository (a folder with `.git`) and at the
// boundary of a file system.
std::optional<std::string> find_config(Host& host);

// Reads a configuration file and the files that it extends. Returns empty if
// one cannot be read, parsed or trusted (SP001, SP002, SP003, SP004, SP010).
std::optional<Config> read_config(const std::string& path, ConfigFrom from,
                                  Host& host, Diagnostics& diags);

// Returns the files that a setting names, as paths to read, without `-` and
// `@name`.
std::vector<std::string> files_of(const Setting& setting);

// Returns the settings of a configuration that apply to this run: those that
// the command accepts and that no flag overrides. --plan and the flags that
// make a plan (rules, mesh, ..) override each other, as do --json and --format;
// --plan also overrides views, and --topology overrides devices, slices and
// hardware. `inspect` uses settings that make a plan only with --shard, and
// `diff` uses those of needs_before() only with --before.
std::vector<Setting> remaining_settings(const std::vector<Setting>& config,
                                        const std::vector<Setting>& flags,
                                        std::string_view command);

// Reports a saved plan used together with settings that make a plan, unless
// those only describe another mesh and --mesh is given; and --json together
// with another --format (SP010).
void check_conflicts(const std::vector<Setting>& settings, Diagnostics& diags);

}  // namespace shardplan::cli
