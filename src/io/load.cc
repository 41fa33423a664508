// SPDX-License-Identifier: Apache-2.0
#include "io/load.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "base/allocation.h"
#include "base/text.h"
#include "io/document.h"
#include "io/formats/formats.h"
#include "io/graph_file.h"
#include "io/maxtext_dump.h"
#include "io/orbax_checkpoint.h"
#include "io/paths.h"
#include "io/plan_file.h"

namespace shardplan {
namespace {

constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kConfigName = "config.json";
constexpr int64_t kHeadBytes = int64_t{1} << 16U;

Diagnostics::Builder unreadable(const std::string& path, Host& host,
                                Diagnostics& diags, const std::string& why) {
  auto report = diags.error(Code::UnreadableFile, {},
                            "cannot read `" + path + "`: " + why);
  if (host.file_info(path)) return report;
  const std::string directory = directory_of(path);
  const std::vector<std::string> entries =
      host.list_directory(directory.empty() ? "." : directory);
  if (const auto near = nearest(file_name_of(path), entries)) {
    report.help("a file with a similar name exists: `" +
                join_path(directory, *near) + "`");
  }
  return report;
}

std::string names_of(std::span<const ManifestFormat> formats) {
  std::string text;
  for (const ManifestFormat& format : formats) {
    if (!text.empty()) text += ", ";
    text += format.name;
  }
  return text;
}

// Beginnings of files tell formats apart; no text has a zero byte.
const ManifestFormat* recognize_manifest(const std::string& path,
                                         std::string_view head) {
  const ManifestFormat* named = path.ends_with(".safetensors") ? &kSafetensors
                                : path.ends_with(".gguf")      ? &kGguf
                                                               : nullptr;
  for (const ManifestFormat& format : manifest_formats()) {
    const bool is_last = &format == &manifest_formats().back();
    if (is_last && head.find('\0') != std::string_view::npos) break;
    // A pointer or a damaged file; JSON under that name is what it says it is.
    if (is_last && named != nullptr && !head.starts_with('{')) break;
    if (format.recognize(head)) return &format;
  }
  return named;
}

// Reads what `format` needs of a file of which there is only a head.
SourcePtr read_rest(const SourcePtr& head, const std::string& path,
                    const ManifestFormat& format, Host& host,
                    Diagnostics& diags) {
  if (format.bytes_needed == nullptr) {
    return read_source(path, kWholeFile, host, diags);
  }
  const int64_t needed = format.bytes_needed(head->text());
  const bool is_there = needed <= static_cast<int64_t>(head->text().size());
  return is_there ? head : read_source(path, needed, host, diags);
}

std::optional<Manifest> read_file(const std::string& path, Host& host,
                                  Diagnostics& diags) {
  // What has no size, such as a pipe, can be read only once.
  const std::optional<FileInfo> info = host.file_info(path);
  const bool is_large = info && info->size > kHeadBytes;
  SourcePtr file =
      read_source(path, is_large ? kHeadBytes : kWholeFile, host, diags);
  if (file == nullptr) return std::nullopt;
  const std::string_view head = file->text().substr(0, kHeadBytes);
  if (is_plan(head)) {
    return diags
        .error(Code::UnrecognizedFormat, {},
               "`" + path + "` is a saved plan, not a manifest")
        .help("`--plan` takes saved plans");
  }
  const ManifestFormat* format = recognize_manifest(path, head);
  if (format == nullptr) {
    return diags
        .error(Code::UnrecognizedFormat, {},
               "no format recognises `" + path + "`")
        .fact("formats tried: " + names_of(manifest_formats()));
  }
  if (is_large) file = read_rest(file, path, *format, host, diags);
  if (file == nullptr) return std::nullopt;
  const std::string directory = path == "-" ? "" : directory_of(path);
  auto manifest = format->read({path, directory, file}, host, diags);
  if (manifest) manifest->format = format->name;
  return manifest;
}

// A shipped graph, `@mlp`.
std::optional<Manifest> read_shipped(const std::string& path, Host& host,
                                     Diagnostics& diags) {
  SourcePtr file = find_shipped_graph(path.substr(1), diags);
  if (file == nullptr) return std::nullopt;
  auto manifest = kGraph.read({path, "", std::move(file)}, host, diags);
  if (!manifest) return std::nullopt;
  manifest->format = kGraph.name;
  manifest->title = path;
  return manifest;
}

std::optional<Manifest> read_directory(const std::string& path, Host& host,
                                       Diagnostics& diags) {
  const std::vector<std::string> entries = host.list_directory(path);
  const auto has = [&](std::string_view name) {
    return std::find(entries.begin(), entries.end(), name) != entries.end();
  };
  if (has(kIndexName)) {
    return read_file(join_path(path, kIndexName), host, diags);
  }
  const auto has_ending = [&](std::string_view ending) {
    return std::any_of(
        entries.begin(), entries.end(),
        [&](const std::string& name) { return name.ends_with(ending); });
  };
  const auto read_all = [&](const ManifestFormat& format) {
    auto manifest = format.read({path, path, nullptr}, host, diags);
    if (manifest) manifest->format = format.name;
    return manifest;
  };
  if (has_ending(".safetensors")) return read_all(kSafetensors);
  if (has_ending(".gguf")) return read_all(kGguf);
  if (const auto item = find_orbax_item(path, host)) {
    return read_file(join_path(*item, kOrbaxMetadata), host, diags);
  }
  for (const std::string_view dump : {kNamedShardings, kLogicalShardings}) {
    if (has(dump)) return read_file(join_path(path, dump), host, diags);
  }
  if (has(kConfigName)) {
    return read_file(join_path(path, kConfigName), host, diags);
  }
  return diags
      .error(Code::UnrecognizedFormat, {},
             "directory `" + path + "` has no model that can be read")
      .fact("looked for " + std::string(kIndexName) +
            ", *.safetensors, *.gguf, an Orbax `_METADATA`, MaxText's dumps "
            "and " +
            std::string(kConfigName))
      .fact("it has " +
            plural(static_cast<int64_t>(entries.size()), "other entry"));
}

bool is_weights(const Manifest& manifest) {
  for (const ManifestFormat& format : manifest_formats()) {
    if (format.name == manifest.format) return format.is_weights;
  }
  return false;
}

// Weights do not tell their heads; a config.json beside them may. One that is
// broken takes nothing from the weights.
void add_facts(const std::string& directory, Manifest& manifest, Host& host,
               Diagnostics& diags) {
  const std::string path = join_path(directory, kConfigName);
  if (!host.file_info(path)) return;
  Diagnostics problems;
  const SourcePtr source = read_source(path, kWholeFile, host, problems);
  std::optional<Document> config;
  if (source != nullptr) config = parse_document(source, problems);
  if (config && require(config->root(), NodeKind::Map, "a config", problems)) {
    manifest.facts = config_facts(config->root());
    return;
  }
  const Diagnostic& first = problems.all().front();
  if (source != nullptr) diags.keep(source);
  diags
      .report(first.code, Severity::Warning,
              first.labels.empty() ? Span{} : first.labels.front().where,
              "the config beside the weights is not used: " + first.message)
      .fact("heads and experts are inferred from names and shapes instead");
}

bool check_distinct_names(const Manifest& manifest, Diagnostics& diags) {
  const auto duplicate = manifest.find_duplicate();
  if (!duplicate) return true;
  diags
      .error(Code::DuplicateKey, manifest.any_where(duplicate->second),
             "`" + std::string(manifest.any_name(duplicate->second)) +
                 "` is given twice")
      .label(manifest.any_where(duplicate->first), "first given here");
  return false;
}

}  // namespace

std::span<const ManifestFormat> manifest_formats() {
  // Tried in this order: the last one takes any text, and a GGUF file of 123
  // tensors starts like safetensors.
  static const std::array<ManifestFormat, 9> kManifestFormats = {
      kGguf,      kSafetensors, kSafetensorsIndex,
      kOrbax,     kMaxtextDump, kHfConfig,
      kStableHlo, kGraph,       kNative};
  return kManifestFormats;
}

SourcePtr read_source(const std::string& path, int64_t limit, Host& host,
                      Diagnostics& diags) {
  note_work("reading", path == "-" ? "<stdin>" : path);
  std::string why;
  std::shared_ptr<const Bytes> bytes =
      path == "-" ? host.read_stdin(why) : host.read_file(path, limit, why);
  if (bytes == nullptr) {
    unreadable(path == "-" ? "<stdin>" : path, host, diags, why);
    return nullptr;
  }
  auto source = std::make_shared<SourceFile>(path == "-" ? "<stdin>" : path,
                                             std::move(bytes));
  diags.keep(source);
  return source;
}

std::optional<Manifest> load_manifest(const std::string& path, Host& host,
                                      Diagnostics& diags) {
  if (path.starts_with('@')) return read_shipped(path, host, diags);
  const auto info = path == "-" ? std::nullopt : host.file_info(path);
  const bool is_directory = info && info->directory;
  auto manifest = is_directory ? read_directory(path, host, diags)
                               : read_file(path, host, diags);
  if (!manifest || !check_distinct_names(*manifest, diags)) return std::nullopt;
  manifest->title = path == "-" ? "<stdin>" : path;
  if (path != "-" && is_weights(*manifest) &&
      manifest->facts.from == FactsFrom::None) {
    add_facts(is_directory ? path : directory_of(path), *manifest, host, diags);
  }
  return manifest;
}

}  // namespace shardplan
