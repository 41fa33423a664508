// SPDX-License-Identifier: Apache-2.0
// Loading: reads manifests, rule sets and configs from paths.
//
// There is one table of manifest formats and one of rule dialects; each entry
// has a name, a one-line summary and plain functions. A format is recognised by
// content, never by extension alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/host.h"
#include "base/source.h"
#include "core/manifest.h"
#include "core/rules.h"
#include "model/from_config.h"

namespace shardplan {

// A model as the user named it: a file, a directory, or `-`.
struct ManifestSource {
  std::string path;  // the path as given
  SourcePtr file;    // the text; null for a directory
  ConfigReading reading = {};
};

// How many bytes from the start of a file are enough to recognise its format.
inline constexpr int64_t kHeadBytes = int64_t{1} << 16;

// Flags that add what the model's files do not state.
struct LoadOptions {
  std::optional<std::string> architecture =
      {};                                  // --architecture: a name or a file
  std::optional<std::string> scheme = {};  // --scheme: a name or a file
  std::optional<Lora> lora = {};           // --lora
  SourcePtr file = nullptr;  // the result of read_head() for the path, if it
                             // was called
};

struct ManifestFormat {
  std::string_view name;
  std::string_view summary;
  // Returns whether the text has this format; looks at its first few kilobytes.
  bool (*recognize)(std::string_view head);
  std::optional<Manifest> (*read)(const ManifestSource&, Host&, Diagnostics&);
  // The format stores only tensors; a config.json next to it adds the facts.
  bool is_weights = false;
  // Returns how many bytes of the file `read` needs, given its head; if null,
  // the whole file is read.
  int64_t (*bytes_needed)(std::string_view head) = nullptr;
};
std::span<const ManifestFormat> manifest_formats();

// Reads `path` in whichever format it has. In a directory it looks for
// model.safetensors.index.json, *.safetensors, *.gguf, an Orbax checkpoint,
// MaxText's sharding dumps and config.json. A config.json next to weights is
// read with them and supplies the facts that they lack. Duplicate names are
// SP003. An architecture or scheme that the format has no use for is SP010.
std::optional<Manifest> load_manifest(const std::string& path,
                                      const LoadOptions& reading, Host& host,
                                      Diagnostics& diags);
inline std::optional<Manifest> load_manifest(const std::string& path,
                                             Host& host, Diagnostics& diags) {
  return load_manifest(path, {}, host, diags);
}

// Opens the tensor values of the checkpoint at `path` (a file, a directory or
// an index) that `manifest` was read from: safetensors files, which are mapped
// and never read as a whole. Returns one tensor per parameter of `manifest`,
// then one per buffer. Reports SP001, SP002 and SP008 as when the manifest was
// read, and SP008 when the data of a tensor is absent.
std::optional<StoredTensors> open_weights(const std::string& path,
                                          const Manifest& manifest, Host& host,
                                          Diagnostics& diags);
// Like open_weights(), but returns nullopt and reports nothing if any is
// absent.
std::optional<StoredTensors> find_weights(const std::string& path,
                                          const Manifest& manifest, Host& host);

// The user's value (`--set`) for a name that a rules file leaves open: the
// condition of a table in Python, or the version that a plan is written for.
struct RuleAnswer {
  std::string name;
  std::string value;
  Span where = {};  // in a configuration file
};

// User input that completes a rules file.
struct RuleReading {
  std::optional<std::string> table;  // one of several tables in a file
  AxisNames axes;                    // names of mesh dimensions, in order
  std::vector<RuleAnswer> answers = {};
  // Some answers may be for other files, so an unused one is not an error.
  bool answers_for_others = false;
  // Reads files that the rules file names; if null, they are not read.
  Host* files = nullptr;

  const RuleAnswer* find_answer(std::string_view name) const;
};

// Reports answers (SP010) that no question asked for.
void check_answers(std::span<const RuleAnswer> answers,
                   std::span<const std::string> questions, Diagnostics& diags);

struct RuleDialect {
  std::string_view name;
  std::string_view summary;
  bool (*recognize)(std::string_view head);
  // Appends to `rules`; returns false when the rules cannot be used.
  bool (*read)(SourcePtr, const RuleReading&, RuleSet& rules, Diagnostics&);
  const RuleForm* form = nullptr;  // RuleSet::form if `read` sets none
};
std::span<const RuleDialect> rule_dialects();

// Reads rule files or shipped sets (`@llama`) in order. `dialect` forces one by
// name.
std::optional<RuleSet> load_rules(std::span<const std::string> paths,
                                  const std::optional<std::string>& dialect,
                                  const RuleReading& reading, Host& host,
                                  Diagnostics& diags);

// Reads a text that the caller has already read to find out what it is, since
// standard input and pipes can be read only once.
std::optional<RuleSet> read_rules(const SourcePtr& file,
                                  const std::optional<std::string>& dialect,
                                  const RuleReading& reading,
                                  Diagnostics& diags);

// Reads a file into a SourceFile, which `diags` keeps alive. Failure is SP001,
// with the name of a similar file in the same folder. `-` is standard input,
// named `<stdin>`.
SourcePtr read_source(const std::string& path, int64_t limit, Host& host,
                      Diagnostics& diags);
// Reads the first kHeadBytes of a larger file. Reads all of any other file,
// since one without a size, such as a pipe, can be read only once.
SourcePtr read_head(const std::string& path, Host& host, Diagnostics& diags);
// Returns whether the file is longer than what was read of it.
inline bool has_more(const std::string& path, const SourceFile& head,
                     Host& host) {
  const auto info = host.file_info(path);
  return info && info->size > static_cast<int64_t>(head.text().size());
}

}  // namespace shardplan
