// SPDX-License-Identifier: Apache-2.0
// Loading: from paths to manifests, rule sets and configs, by content.
//
// One table of manifest formats and one of rule dialects; each entry is a name,
// a line of summary and plain functions. A format is recognised by content,
// never by extension alone.
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
  std::string path;       // as given
  std::string directory;  // where files beside it are looked for
  SourcePtr file;         // its text; null for a directory
  ConfigReading reading = {};
};

// The format of a file is recognised from this many bytes.
inline constexpr int64_t kHeadBytes = int64_t{1} << 16;

// What a model does not say itself.
struct LoadOptions {
  std::optional<std::string> architecture =
      {};                                  // --architecture: a name or a file
  std::optional<std::string> scheme = {};  // --scheme: a name or a file
  std::optional<Lora> lora = {};           // --lora
  SourcePtr file = nullptr;  // read_head() of it, where that was called
};

struct ManifestFormat {
  std::string_view name;
  std::string_view summary;
  // Whether the text is of this format; looks at its first few kilobytes.
  bool (*recognize)(std::string_view head);
  std::optional<Manifest> (*read)(const ManifestSource&, Host&, Diagnostics&);
  // Weights have no facts of their own: a config.json beside them gives these.
  bool is_weights = false;
  // How many bytes of a file are needed, seen from its head; null: all.
  int64_t (*bytes_needed)(std::string_view head) = nullptr;
};
std::span<const ManifestFormat> manifest_formats();

// Reads `path` in whichever format it has. A directory is searched for
// model.safetensors.index.json, *.safetensors, *.gguf, an Orbax checkpoint,
// MaxText's sharding dumps, config.json. A config.json beside weights is read
// with them, and facts that they do not have come from there. Names are checked
// to be unique (SP003). An architecture or scheme that nothing is read by is
// SP010.
std::optional<Manifest> load_manifest(const std::string& path,
                                      const LoadOptions& reading, Host& host,
                                      Diagnostics& diags);
inline std::optional<Manifest> load_manifest(const std::string& path,
                                             Host& host, Diagnostics& diags) {
  return load_manifest(path, {}, host, diags);
}

// The numbers of a checkpoint: safetensors files, mapped and never read as a
// whole. One tensor per parameter of `manifest`, then per buffer, which was
// read from `path`: a file, a directory, an index. SP001, SP002, SP008 as when
// the manifest was read; SP008 where the data of one is absent.
std::optional<StoredTensors> open_weights(const std::string& path,
                                          const Manifest& manifest, Host& host,
                                          Diagnostics& diags);
// The same where all are there; empty where not, of which nothing is reported.
std::optional<StoredTensors> find_weights(const std::string& path,
                                          const Manifest& manifest, Host& host);

// A shipped architecture, or one in a file; null when something was reported.
std::shared_ptr<const Architecture> load_architecture(
    const std::string& name_or_path, Host& host, Diagnostics& diags);
// Shipped names of another program, or those in a file; the same.
std::shared_ptr<const NameScheme> load_name_scheme(
    const std::string& name_or_path, Host& host, Diagnostics& diags);

// What a name in a file stands for, which the file leaves open: the condition
// of a table in Python, the version that a plan is of.
struct RuleAnswer {
  std::string name;
  std::string value;
  Span where = {};  // in a configuration file
};

// What a file of rules does not say itself.
struct RuleReading {
  std::optional<std::string> table;  // which of several tables in a file
  AxisNames axes;                    // names of mesh dimensions, in order
  std::vector<RuleAnswer> answers = {};
  // Some may be for other files: it is not wrong that none of these asks.
  bool answers_for_others = false;
  // For files that a file names; null: none are read.
  Host* files = nullptr;

  const RuleAnswer* find_answer(std::string_view name) const;
};

// Reports answers (SP010) that nothing asked for.
void check_answers(std::span<const RuleAnswer> answers,
                   std::span<const std::string> questions, Diagnostics& diags);

struct RuleDialect {
  std::string_view name;
  std::string_view summary;
  bool (*recognize)(std::string_view head);
  // Appends to `rules`; false when something prevents using them.
  bool (*read)(SourcePtr, const RuleReading&, RuleSet& rules, Diagnostics&);
  const RuleForm* form = nullptr;  // RuleSet::form, where `read` gives none
};
std::span<const RuleDialect> rule_dialects();

// Reads rule files or shipped sets (`@llama`) in order, one after the other.
// `dialect` forces one by name.
std::optional<RuleSet> load_rules(std::span<const std::string> paths,
                                  const std::optional<std::string>& dialect,
                                  const RuleReading& reading, Host& host,
                                  Diagnostics& diags);

// A file as a SourceFile (SP001 on failure, with a file of a similar name that
// stands beside it); `-` is standard input, named `<stdin>`. `diags` keeps it.
SourcePtr read_source(const std::string& path, int64_t limit, Host& host,
                      Diagnostics& diags);
// The first kHeadBytes of a larger file, else all of it: what has no size, such
// as a pipe, can be read only once.
SourcePtr read_head(const std::string& path, Host& host, Diagnostics& diags);
// Whether the file has more than what was read of it.
inline bool has_more(const std::string& path, const SourceFile& head,
                     Host& host) {
  const auto info = host.file_info(path);
  return info && info->size > static_cast<int64_t>(head.text().size());
}

}  // namespace shardplan
