// SPDX-License-Identifier: Apache-2.0
#include "io/load.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/allocation.h"
#include "base/shipped.h"
#include "base/text.h"
#include "base/words.h"
#include "io/fence.h"
#include "io/formats.h"
#include "io/graph/graph_file.h"
#include "io/maxtext/dump.h"
#include "io/orbax/checkpoint.h"
#include "io/other_files.h"
#include "io/paths.h"
#include "io/saved_plan.h"
#include "io/shards.h"
#include "model/architectures.h"
#include "model/naming/name_scheme.h"
#include "model/quant_scales.h"
#include "syntax/document.h"

namespace shardplan {
namespace {

constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kConfigName = "config.json";

void report_unreadable(const std::string& path, Host& host, Diagnostics& diags,
                       const std::string& why) {
  auto report = diags.error(Code::UnreadableFile, {},
                            "cannot read `" + path + "`: " + why);
  if (host.file_info(path)) return;
  const std::string directory = directory_of(path);
  const std::vector<std::string> entries =
      host.list_directory(directory.empty() ? "." : directory);
  if (const auto near = nearest(file_name_of(path), entries)) {
    report.help("did you mean `" + join_path(directory, *near) + "`?");
  }
}

// Recognises the format from the head of a file; no text has a zero byte.
const ManifestFormat* recognize_manifest(const std::string& path,
                                         std::string_view head) {
  const ManifestFormat* named = path.ends_with(".safetensors") ? &kSafetensors
                                : path.ends_with(".gguf")      ? &kGguf
                                                               : nullptr;
  for (const ManifestFormat& format : manifest_formats()) {
    const bool is_last = &format == &manifest_formats().back();
    if (is_last && contains(head, '\0')) break;
    // The file is a pointer or damaged. JSON under that name is read as JSON.
    if (is_last && named != nullptr && !head.starts_with('{')) break;
    if (format.recognize(head)) return &format;
  }
  return named;
}

// Reads as much of the file as `format` needs, given its head.
SourcePtr read_rest(const SourcePtr& head, const std::string& path,
                    const ManifestFormat& format, Host& host,
                    Diagnostics& diags) {
  if (!has_more(path, *head, host)) return head;
  int64_t needed = kWholeFile;
  if (format.bytes_needed != nullptr) {
    needed = format.bytes_needed(head->text());
    if (needed <= std::ssize(head->text())) return head;
  }
  return read_source(path, needed, host, diags);
}

using ArchitecturePtr = std::shared_ptr<const Architecture>;

std::optional<Manifest> read_file(const std::string& path,
                                  const ConfigReading& reading, Host& host,
                                  Diagnostics& diags,
                                  SourcePtr file = nullptr) {
  if (file == nullptr) file = read_head(path, host, diags);
  if (file == nullptr) return std::nullopt;
  diags.add_source(file);
  const std::string_view head = file->text().substr(0, kHeadBytes);
  if (is_plan(head)) {
    return diags
        .error(Code::UnrecognizedFormat, {},
               "`" + path + "` is a saved plan, not a manifest")
        .help("give saved plans with `--plan`");
  }
  const ManifestFormat* format = recognize_manifest(path, head);
  // With an architecture, a config that does not name its model is readable.
  if (reading.architecture != nullptr && format == &manifest_formats().back() &&
      (head.starts_with('{') || is_arguments(head))) {
    format = &kHfConfig;
  }
  if ((format == nullptr || format == &manifest_formats().back()) &&
      refuse_other_file(path, file, diags)) {
    return std::nullopt;
  }
  if (format == nullptr) {
    return diags
        .error(Code::UnrecognizedFormat, {},
               "no known format matches `" + path + "`")
        .fact("formats tried: " +
              joined_of(manifest_formats(), ", ", &ManifestFormat::name));
  }
  file = read_rest(file, path, *format, host, diags);
  if (file == nullptr) return std::nullopt;
  auto manifest = format->read({path, file, reading}, host, diags);
  if (manifest) manifest->format = format->name;
  return manifest;
}

// Reads a shipped graph, `@mlp`.
std::optional<Manifest> read_shipped(const std::string& path, Host& host,
                                     Diagnostics& diags) {
  SourcePtr file = find_shipped_graph(path.substr(1), diags);
  if (file == nullptr) return std::nullopt;
  auto manifest = kGraph.read({path, std::move(file)}, host, diags);
  if (!manifest) return std::nullopt;
  manifest->format = kGraph.name;
  manifest->title = path;
  return manifest;
}

std::optional<Manifest> read_directory(const std::string& path,
                                       const ConfigReading& reading, Host& host,
                                       Diagnostics& diags) {
  const std::vector<std::string> entries = host.list_directory(path);
  const auto has = [&](std::string_view name) {
    return contains(entries, name);
  };
  const auto read_entry = [&](std::string_view name) {
    return read_file(path_in(path, name, host), reading, host, diags);
  };
  if (has(kIndexName)) return read_entry(kIndexName);
  const auto has_ending = [&](std::string_view ending) {
    return std::ranges::any_of(entries, [&](const std::string& name) {
      return name.ends_with(ending);
    });
  };
  const auto read_all = [&](const ManifestFormat& format) {
    auto manifest = format.read({path, nullptr, reading}, host, diags);
    if (manifest) manifest->format = format.name;
    return manifest;
  };
  if (has_ending(".safetensors")) return read_all(kSafetensors);
  if (has_ending(".gguf")) return read_all(kGguf);
  if (const auto item = find_orbax_item(path, host)) {
    auto manifest = read_file(path_in(item->path, kOrbaxMetadata, host),
                              reading, host, diags);
    if (manifest && !item->remark.empty()) {
      manifest->remarks.push_back(item->remark);
    }
    return manifest;
  }
  for (const std::string_view dump : {kNamedShardings, kLogicalShardings}) {
    if (has(dump)) return read_entry(dump);
  }
  if (has(kConfigName)) {
    // The names in PyTorch's own index are compared with those of the config.
    const bool is_compared = has(kTorchIndex) &&
                             reading.architecture == nullptr &&
                             reading.scheme == nullptr;
    return read_entry(is_compared ? kTorchIndex : kConfigName);
  }
  if (has(kDiffusersPipeline)) return read_entry(kDiffusersPipeline);
  return diags
      .error(Code::UnrecognizedFormat, {},
             "directory `" + path + "` has no readable model")
      .fact("looked for " + std::string(kIndexName) +
            ", *.safetensors, *.gguf, an Orbax `_METADATA`, MaxText's dumps "
            "and " +
            std::string(kConfigName))
      .fact("it has " + plural(std::ssize(entries), "other entry"));
}

bool is_weights(const Manifest& manifest) {
  const auto* const format = find_named(manifest_formats(), manifest.format);
  return format != nullptr && format->is_weights;
}

// Adds the config.json at `path`, next to the manifest's file. It may state the
// heads, which weights do not. A broken config is only a warning.
void add_config(const std::string& path, Manifest& manifest, Host& host,
                Diagnostics& diags) {
  if (!host.file_info(path)) return;
  Diagnostics problems;
  const SourcePtr source = read_source(path, kWholeFile, host, problems);
  std::optional<Document> config;
  if (source != nullptr) config = parse_document(source, problems);
  if (config && require(config->root(), NodeKind::Map, "a config", problems)) {
    manifest.config = std::make_shared<const Document>(*std::move(config));
    const Node root = manifest.config->root();
    if (!is_weights(manifest) || manifest.facts.from != FactsFrom::None) {
      manifest.facts.experts_per_token = config_experts_per_token(root);
      return;
    }
    manifest.facts = config_facts(root, manifest.architecture);
    manifest.model_type = config_model_type(root);
    explain_manifest(path, host, manifest);
    return;
  }
  manifest.config_unread = true;
  const Diagnostic& first = problems.all().front();
  if (source != nullptr) diags.add_source(source);
  diags
      .report(first.code, Severity::Warning,
              first.labels.empty() ? Span{} : first.labels.front().where,
              "the config next to the weights is ignored: " + first.message)
      .fact("heads and experts are inferred from names and shapes instead");
}

// Reads the file of an architecture. An architecture that it names is shipped
// or is NAME.yaml in the same folder; each is read once. `known` holds the
// files read so far, null for those being read.
ArchitecturePtr read_architecture_file(
    const std::string& path, std::map<std::string, ArchitecturePtr>& known,
    size_t depth, Host& host, Diagnostics& diags) {
  const SourcePtr source = read_source(path, kWholeFile, host, diags);
  if (source == nullptr) return nullptr;
  known[path] = nullptr;
  return known[path] = read_user_architecture(
             source,
             [&](std::string_view name) -> ArchitecturePtr {
               if (auto shipped = find_architecture(name)) return shipped;
               if (name.find_first_of("/\\") != name.npos) return nullptr;
               const std::string beside =
                   path_relative_to(path, std::string(name) + ".yaml", host);
               const auto read = known.find(beside);
               if (read != known.end()) return read->second;
               if (depth > kMaxArchitectureDepth || !host.file_info(beside)) {
                 return nullptr;
               }
               return read_architecture_file(beside, known, depth + 1, host,
                                             diags);
             },
             diags);
}

bool is_file(const std::string& name_or_path, Host& host) {
  return name_or_path.find_first_of("./") != std::string::npos ||
         host.file_info(name_or_path);
}

// `kind` is the singular of a kind of names: "scheme".
std::nullptr_t refuse_name(const std::string& kind, const std::string& name,
                           const std::vector<std::string>& known,
                           Diagnostics& diags) {
  suggest(diags.error(Code::Usage, {},
                      "unknown " + kind + " " + in_backticks(name)),
          name, known)
      .help("`shardplan list " + kind +
            "s` shows the shipped ones; a file path also works");
  return nullptr;
}

// Finds a shipped architecture or reads one from a file. Returns null when
// something was reported.
ArchitecturePtr load_architecture(const std::string& name_or_path, Host& host,
                                  Diagnostics& diags) {
  if (auto shipped = find_architecture(name_or_path)) return shipped;
  if (!is_file(name_or_path, host)) {
    return refuse_name("architecture", name_or_path, architecture_names(),
                       diags);
  }
  std::map<std::string, ArchitecturePtr> files;
  return read_architecture_file(name_or_path, files, 1, host, diags);
}

// Finds shipped tensor names of another program or reads them from a file.
// Returns null when something was reported.
std::shared_ptr<const NameScheme> load_name_scheme(
    const std::string& name_or_path, Host& host, Diagnostics& diags) {
  if (auto shipped = find_name_scheme(name_or_path)) return shipped;
  if (!is_file(name_or_path, host)) {
    return refuse_name("scheme", name_or_path, name_scheme_names(), diags);
  }
  const SourcePtr source = read_source(name_or_path, kWholeFile, host, diags);
  return source == nullptr ? nullptr : read_name_scheme(source, diags);
}

}  // namespace

std::span<const ManifestFormat> manifest_formats() {
  // Formats are tried in this order: the last one accepts any text, and a GGUF
  // file of 123 tensors starts like safetensors.
  static const std::array<ManifestFormat, 10> kManifestFormats = {
      kGguf,     kSafetensors,  kSafetensorsIndex, kOrbax, kMaxtextDump,
      kHfConfig, kMaxtextModel, kStableHlo,        kGraph, kNative};
  return kManifestFormats;
}

SourcePtr read_source(const std::string& path, int64_t limit, Host& host,
                      Diagnostics& diags) {
  const std::string name = path == "-" ? "<stdin>" : path;
  set_current_work("reading", name);
  std::string why;
  std::shared_ptr<const Bytes> bytes =
      path == "-" ? host.read_stdin(why) : host.read_file(path, limit, why);
  if (bytes == nullptr) {
    report_unreadable(name, host, diags, why);
    return nullptr;
  }
  auto source = std::make_shared<SourceFile>(name, std::move(bytes));
  diags.add_source(source);
  return refuse_lfs_pointer(*source, diags) ? nullptr : source;
}

SourcePtr read_head(const std::string& path, Host& host, Diagnostics& diags) {
  const auto info = host.file_info(path);
  const bool is_large = info && info->size > kHeadBytes;
  return read_source(path, is_large ? kHeadBytes : kWholeFile, host, diags);
}

std::optional<Manifest> load_manifest(const std::string& path,
                                      const LoadOptions& given, Host& host,
                                      Diagnostics& diags) {
  ConfigReading reading;
  if (given.architecture) {
    reading.architecture = load_architecture(*given.architecture, host, diags);
    if (reading.architecture == nullptr) return std::nullopt;
  }
  if (given.scheme) {
    reading.scheme = load_name_scheme(*given.scheme, host, diags);
    if (reading.scheme == nullptr) return std::nullopt;
    diags.add_source(reading.scheme->source);
  }
  reading.lora = given.lora;
  // These flags apply only to a config.json.
  const auto misplaced = [&](const std::string& says, const std::string& why) {
    return diags.error(Code::Usage, {}, says + "; " + in_backticks(path) + why)
        .help("leave it out, or give a config.json");
  };
  const std::string architecture =
      "`--architecture` applies only to a config.json";
  const std::string derived_only =
      reading.lora
          ? "`--lora` adds adapters only to tensors derived from a config.json"
          : "`--scheme` names only tensors derived from a config.json";
  const std::string own_names = " has its own tensor names";
  if (path.starts_with('@')) {
    if (reading.architecture) return misplaced(architecture, " has none");
    if (reading.scheme != nullptr || reading.lora) {
      return misplaced(derived_only, own_names);
    }
    return read_shipped(path, host, diags);
  }
  const auto info = path == "-" ? std::nullopt : host.file_info(path);
  const bool is_directory = info && info->directory;
  auto manifest = is_directory
                      ? read_directory(path, reading, host, diags)
                      : read_file(path, reading, host, diags, given.file);
  if (!manifest || !check_distinct(*manifest, diags)) return std::nullopt;
  manifest->title = path == "-" ? "<stdin>" : path;
  manifest->architecture = reading.architecture;
  const bool is_config = manifest->format == kHfConfig.name ||
                         manifest->format == kMaxtextModel.name;
  if ((reading.scheme != nullptr || reading.lora) && !is_config) {
    return misplaced(derived_only, own_names);
  }
  // Only a config states what a quantised weight stands for.
  if (path != "-" && manifest->config == nullptr &&
      (is_directory || is_weights(*manifest) ||
       quantised_weight(*manifest) >= 0)) {
    add_config(is_directory ? path_in(path, kConfigName, host)
                            : path_relative_to(path, kConfigName, host),
               *manifest, host, diags);
  }
  if (reading.architecture != nullptr && !is_config &&
      !(is_weights(*manifest) &&
        (manifest->config != nullptr || manifest->config_unread))) {
    return misplaced(architecture, " is not one and has none next to it");
  }
  report_remarks(*manifest, diags);
  return manifest;
}

}  // namespace shardplan
