// SPDX-License-Identifier: Apache-2.0
#include "io/load.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "base/allocation.h"
#include "base/shipped.h"
#include "base/text.h"
#include "base/words.h"
#include "io/dialects.h"
#include "io/fence.h"
#include "io/formats.h"
#include "io/graph/graph_file.h"
#include "io/maxtext/config.h"
#include "io/maxtext/dump.h"
#include "io/orbax/checkpoint.h"
#include "io/other_files.h"
#include "io/paths.h"
#include "io/rule_text.h"
#include "io/saved_plan.h"
#include "io/shards.h"
#include "io/spec_node.h"
#include "model/architectures.h"
#include "model/naming/name_scheme.h"
#include "model/quantised_weight.h"
#include "syntax/document.h"

namespace shardplan {
namespace {

constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kConfigName = "config.json";

Diagnostics::Builder unreadable(const std::string& path, Host& host,
                                Diagnostics& diags, const std::string& why) {
  auto report = diags.error(Code::UnreadableFile, {},
                            "cannot read `" + path + "`: " + why);
  if (host.file_info(path)) return report;
  const std::string directory = directory_of(path);
  const std::vector<std::string> entries =
      host.list_directory(directory.empty() ? "." : directory);
  if (const auto near = nearest(file_name_of(path), entries)) {
    report.help("did you mean `" + join_path(directory, *near) + "`?");
  }
  return report;
}

template <typename Row>
std::string names_of(std::span<const Row> rows) {
  return joined_of(rows, ", ", &Row::name);
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
  if (format.bytes_needed == nullptr) {
    return read_source(path, kWholeFile, host, diags);
  }
  const int64_t needed = format.bytes_needed(head->text());
  const bool is_there = needed <= std::ssize(head->text());
  return is_there ? head : read_source(path, needed, host, diags);
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
        .fact("formats tried: " + names_of(manifest_formats()));
  }
  file = read_rest(file, path, *format, host, diags);
  if (file == nullptr) return std::nullopt;
  const std::string directory = path == "-" ? "" : directory_of(path);
  auto manifest = format->read({path, directory, file, reading}, host, diags);
  if (manifest) manifest->format = format->name;
  return manifest;
}

// Reads a shipped graph, `@mlp`.
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

std::optional<Manifest> read_directory(const std::string& path,
                                       const ConfigReading& reading, Host& host,
                                       Diagnostics& diags) {
  const std::vector<std::string> entries = host.list_directory(path);
  const auto has = [&](std::string_view name) {
    return contains(entries, name);
  };
  if (has(kIndexName)) {
    return read_file(path_in(path, kIndexName, host), reading, host, diags);
  }
  const auto has_ending = [&](std::string_view ending) {
    return std::ranges::any_of(entries, [&](const std::string& name) {
      return name.ends_with(ending);
    });
  };
  const auto read_all = [&](const ManifestFormat& format) {
    auto manifest = format.read({path, path, nullptr, reading}, host, diags);
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
    if (has(dump)) {
      return read_file(path_in(path, dump, host), reading, host, diags);
    }
  }
  if (has(kConfigName)) {
    // The names in PyTorch's own index are compared with those of the config.
    const bool is_compared = has(kTorchIndex) &&
                             reading.architecture == nullptr &&
                             reading.scheme == nullptr;
    return read_file(
        path_in(path, is_compared ? kTorchIndex : kConfigName, host), reading,
        host, diags);
  }
  if (has(kDiffusersPipeline)) {
    return read_file(path_in(path, kDiffusersPipeline, host), reading, host,
                     diags);
  }
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
  for (const ManifestFormat& format : manifest_formats()) {
    if (format.name == manifest.format) return format.is_weights;
  }
  return false;
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
  set_current_work("reading", path == "-" ? "<stdin>" : path);
  std::string why;
  std::shared_ptr<const Bytes> bytes =
      path == "-" ? host.read_stdin(why) : host.read_file(path, limit, why);
  if (bytes == nullptr) {
    unreadable(path == "-" ? "<stdin>" : path, host, diags, why);
    return nullptr;
  }
  auto source = std::make_shared<SourceFile>(path == "-" ? "<stdin>" : path,
                                             std::move(bytes));
  diags.add_source(source);
  return refuse_lfs_pointer(*source, diags) ? nullptr : source;
}

SourcePtr read_head(const std::string& path, Host& host, Diagnostics& diags) {
  const auto info = host.file_info(path);
  const bool is_large = info && info->size > kHeadBytes;
  return read_source(path, is_large ? kHeadBytes : kWholeFile, host, diags);
}

namespace {

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

}  // namespace

std::shared_ptr<const Architecture> load_architecture(
    const std::string& name_or_path, Host& host, Diagnostics& diags) {
  if (auto shipped = find_architecture(name_or_path)) return shipped;
  if (!is_file(name_or_path, host)) {
    return refuse_name("architecture", name_or_path, architecture_names(),
                       diags);
  }
  std::map<std::string, ArchitecturePtr> files;
  return read_architecture_file(name_or_path, files, 1, host, diags);
}

std::shared_ptr<const NameScheme> load_name_scheme(
    const std::string& name_or_path, Host& host, Diagnostics& diags) {
  if (auto shipped = find_name_scheme(name_or_path)) return shipped;
  if (!is_file(name_or_path, host)) {
    return refuse_name("scheme", name_or_path, name_scheme_names(), diags);
  }
  const SourcePtr source = read_source(name_or_path, kWholeFile, host, diags);
  return source == nullptr ? nullptr : read_name_scheme(source, diags);
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
  const std::string scheme =
      "`--scheme` names only tensors derived from a config.json";
  const std::string lora =
      "`--lora` adds adapters only to tensors derived from a config.json";
  const std::string own_names = " has its own tensor names";
  if (path.starts_with('@')) {
    if (reading.architecture) return misplaced(architecture, " has none");
    if (reading.scheme != nullptr || reading.lora) {
      return misplaced(reading.lora ? lora : scheme, own_names);
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
    return misplaced(reading.lora ? lora : scheme, own_names);
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

// The part of io/load.h that reads rules.

namespace {

// The start of a file is enough to recognise its dialect.
constexpr size_t kRulesHeadBytes = size_t{1} << 16U;

// Finds a shipped set by its name without the `@`.
SourcePtr shipped_source(const std::string& name, Diagnostics& diags) {
  std::vector<std::string> known;
  for (const std::string_view folder : kRuleFolders) {
    SourcePtr source = find_shipped(folder, name, diags);
    if (source != nullptr) return source;
    for (std::string& other : shipped_names(folder)) {
      known.push_back(std::move(other));
    }
  }
  auto report = diags.error(Code::UnreadableFile, {},
                            "no shipped rules named `" + name + "`");
  if (const auto near = nearest(name, known)) {
    report.help("did you mean `@" + *near + "`?");
  }
  report.help("`shardplan list rules` shows all");
  return nullptr;
}

const RuleDialect* find_dialect(const std::string& name, Diagnostics& diags) {
  std::vector<std::string> known;
  for (const RuleDialect& dialect : rule_dialects()) {
    if (dialect.name == name) return &dialect;
    known.emplace_back(dialect.name);
  }
  auto report =
      diags.error(Code::Usage, {}, "unknown rule dialect `" + name + "`");
  suggest(report, name, known);
  report.help("`shardplan list dialects` shows all");
  return nullptr;
}

const RuleDialect* recognize_dialect(const SourceFile& file,
                                     Diagnostics& diags) {
  const std::string_view head = file.text().substr(0, kRulesHeadBytes);
  const std::string_view other = other_than_rules(head);
  if (!other.empty()) {
    auto report = diags.error(
        Code::UnrecognizedFormat, {},
        "`" + file.name() + "` is " + std::string(other) + ", not rules");
    if (is_plan(head)) report.help("give saved plans with `--plan`");
    return nullptr;
  }
  for (const RuleDialect& dialect : rule_dialects()) {
    const bool is_last = &dialect == &rule_dialects().back();
    // A Python file without a table is reported as Python, not as bad YAML.
    if (is_last && file.name().ends_with(".py")) {
      return find_dialect("python", diags);
    }
    if (is_last && refuse_other_rules(file, diags)) return nullptr;
    if (dialect.recognize(head)) return &dialect;
  }
  auto report = diags.error(Code::UnrecognizedFormat, {},
                            "`" + file.name() + "` has no rules");
  report.fact("dialects tried: " + names_of(rule_dialects()));
  return nullptr;
}

// Adds the logical rules and semantic axes of one file to the earlier ones.
bool append_logical(RuleSet& more, RuleSet& rules, Diagnostics& diags) {
  std::vector<LogicalRule>& all = rules.logical_rules;
  if (more.logical_merge == LogicalMerge::ReplaceAll) all.clear();
  if (!all.empty() && !more.logical_rules.empty() &&
      rules.logical_reading != more.logical_reading) {
    diags
        .error(
            Code::Usage, more.logical_rules.front().where,
            "these files mix a mapping of logical axes with rules by priority")
        .label(all.front().where, "the earlier file")
        .help("use the logical axes of only one file");
    return false;
  }
  if (!more.logical_rules.empty()) rules.logical_reading = more.logical_reading;
  merge_logical_rules(std::move(more.logical_rules), more.logical_merge, all);
  if (more.architecture_labels && !rules.architecture_labels) {
    rules.architecture_labels = true;
    rules.architecture_labels_where = more.architecture_labels_where;
  }
  if (!more.partition_axis) return true;
  if (rules.partition_axis) {
    diags
        .report(Code::DuplicateKey, Severity::Warning,
                more.partition_axis_where, "this partition_axis is ignored")
        .label(rules.partition_axis_where, "an earlier file's is used");
    return true;
  }
  rules.partition_axis = std::move(more.partition_axis);
  rules.partition_axis_where = more.partition_axis_where;
  return true;
}

// Adds the mesh of one file to that of the earlier files.
bool append_mesh(RuleSet& more, RuleSet& rules, Diagnostics& diags) {
  const bool replaces = more.mesh_replaces && rules.mesh_replaces;
  if (more.mesh && rules.mesh && !replaces) {
    diags
        .report(Code::InvalidMesh, Severity::Warning, more.mesh_where,
                "this mesh is ignored")
        .label(rules.mesh_where, "the mesh of an earlier file is used")
        .help("give the mesh in one file, or with `--mesh`");
    return true;
  }
  if (more.mesh) {
    rules.mesh = std::move(more.mesh);
    rules.mesh_where = more.mesh_where;
    rules.mesh_recorded = more.mesh_recorded;
    rules.mesh_replaces = more.mesh_replaces;
    rules.dcn_mesh = std::move(more.dcn_mesh);
  }
  std::move(more.sizes.begin(), more.sizes.end(),
            std::back_inserter(rules.sizes));
  if (!rules.mesh || !rules.mesh_replaces || rules.sizes.empty()) return true;
  return place_sizes(rules.sizes, rules, diags);
}

// Adds views. The first file with a view of that name wins, as with the mesh.
void append_views(RuleSet& more, RuleSet& rules, Diagnostics& diags) {
  for (ViewRequest& view : more.views) {
    const auto first =
        std::ranges::find(rules.views, view.name, &ViewRequest::name);
    if (first == rules.views.end()) {
      rules.views.push_back(std::move(view));
      continue;
    }
    diags
        .report(Code::InvalidMesh, Severity::Warning, view.where,
                "this view `" + view.name + "` is ignored")
        .label(first->where, "the view of an earlier file is used")
        .help("give each view in one file, or with `--view`");
  }
}

// Appends the rules of one file to those of the earlier files.
bool append_rules(RuleSet more, bool shipped, RuleSet& rules,
                  Diagnostics& diags) {
  if (more.overrides && rules.sources.empty()) {
    diags
        .error(Code::UnrecognizedFormat, more.overrides->where,
               more.overrides->problem)
        .help(more.overrides->help);
    return false;
  }
  if (rules.sources.empty()) rules.form = more.form;
  for (Rule& rule : more.rules) {
    rule.shipped = rule.shipped || shipped;
    rule.form = more.form;
    rules.rules.push_back(std::move(rule));
  }
  for (LogicalRule& rule : more.logical_rules) rule.shipped = shipped;
  append_view_axes(more, rules);
  AxisNames& axes = rules.declared_axes;
  std::set<AxisName> known(axes.begin(), axes.end());
  for (AxisName& axis : more.declared_axes) {
    if (known.insert(axis).second) axes.push_back(std::move(axis));
  }
  if (more.run_as == RunAs::Hooks) rules.run_as = RunAs::Hooks;
  if (rules.hook_axis.empty()) rules.hook_axis = more.hook_axis;
  const bool joined = append_logical(more, rules, diags);
  std::ranges::move(more.activations, std::back_inserter(rules.activations));
  const bool placed = append_mesh(more, rules, diags);
  append_views(more, rules, diags);
  std::move(more.sources.begin(), more.sources.end(),
            std::back_inserter(rules.sources));
  return joined && placed;
}

// Returns the rules file in a directory: a checkpoint's or a dump's.
std::string rules_file(const std::string& path, Host& host,
                       Diagnostics& diags) {
  const auto info = path == "-" ? std::nullopt : host.file_info(path);
  if (!info || !info->directory) return path;
  if (const auto item = find_orbax_item(path, host)) {
    if (!item->remark.empty()) {
      diags.report(Code::Usage, Severity::Note, {},
                   "`--rules " + path + "`: " + item->remark);
    }
    return path_in(item->path, kOrbaxSharding, host);
  }
  const std::string dump = path_in(path, kNamedShardings, host);
  return host.file_info(dump) ? dump : path;
}

bool read_rule_text(const SourcePtr& file, bool shipped,
                    const RuleDialect* forced, const RuleReading& reading,
                    RuleSet& rules, Diagnostics& diags) {
  const RuleDialect* dialect =
      forced != nullptr ? forced : recognize_dialect(*file, diags);
  if (dialect == nullptr) return false;
  RuleSet more;
  const bool good = dialect->read(file, reading, more, diags);
  std::move(more.questions.begin(), more.questions.end(),
            std::back_inserter(rules.questions));
  if (!good) return false;
  if (more.form == nullptr) more.form = dialect->form;
  more.sources.push_back(file);
  if (!check_axis_counts(more, diags)) return false;
  return append_rules(std::move(more), shipped, rules, diags);
}

bool load_rule_file(const std::string& path, const RuleDialect* forced,
                    const RuleReading& reading, RuleSet& rules, Host& host,
                    Diagnostics& diags) {
  const bool shipped = path.starts_with('@');
  const SourcePtr file = shipped ? shipped_source(path.substr(1), diags)
                                 : read_source(rules_file(path, host, diags),
                                               kWholeFile, host, diags);
  RuleReading here = reading;
  here.files = shipped ? nullptr : &host;
  return file != nullptr &&
         read_rule_text(file, shipped, forced, here, rules, diags);
}

}  // namespace

std::span<const RuleDialect> rule_dialects() {
  // Dialects are tried in this order: the last one accepts any text.
  static const std::array<RuleDialect, 10> kRuleDialects = {
      kOrbaxRules,  kMaxtextDumpRules, kShardy,   kHfTpPlan, kDtensor,
      kPythonRules, kMaxText,          kLevanter, kFlax,     kYamlRules};
  return kRuleDialects;
}

const RuleAnswer* RuleReading::find_answer(std::string_view name) const {
  return find_named(answers, name);
}

void check_answers(std::span<const RuleAnswer> answers,
                   std::span<const std::string> questions, Diagnostics& diags) {
  for (const RuleAnswer& answer : answers) {
    if (contains(questions, answer.name)) continue;
    auto report = diags.error(
        Code::Usage, answer.where,
        "`--set " + answer.name + "`: no rules depend on this name");
    const std::set<std::string> known(questions.begin(), questions.end());
    const std::vector<std::string> names(known.begin(), known.end());
    suggest(report, answer.name, names);
    if (names.empty()) {
      report.help("the rules have no such settings: remove `--set`");
    } else {
      report.help("the rules depend on " + quoted_names(names));
    }
  }
}

std::optional<RuleSet> read_rules(const SourcePtr& file,
                                  const std::optional<std::string>& dialect,
                                  const RuleReading& reading,
                                  Diagnostics& diags) {
  const RuleDialect* forced = nullptr;
  if (dialect) {
    forced = find_dialect(*dialect, diags);
    if (forced == nullptr) return std::nullopt;
  }
  RuleSet rules;
  if (!read_rule_text(file, false, forced, reading, rules, diags)) {
    return std::nullopt;
  }
  drop_unsized_mesh(rules);
  settle_activation_labels(rules);
  return rules;
}

std::optional<RuleSet> load_rules(std::span<const std::string> paths,
                                  const std::optional<std::string>& dialect,
                                  const RuleReading& reading, Host& host,
                                  Diagnostics& diags) {
  const RuleDialect* forced = nullptr;
  if (dialect) {
    forced = find_dialect(*dialect, diags);
    if (forced == nullptr) return std::nullopt;
  }
  if (std::ranges::count(paths, "-") > 1) {
    return diags.error(Code::Usage, {}, "`-` is given twice")
        .fact("standard input can be read only once");
  }
  RuleSet rules;
  bool good = true;
  for (const std::string& path : paths) {
    good = load_rule_file(path, forced, reading, rules, host, diags) && good;
  }
  if (!reading.answers_for_others) {
    const size_t errors = diags.all().size();
    check_answers(reading.answers, rules.questions, diags);
    good = good && diags.all().size() == errors;
  }
  if (!good) return std::nullopt;
  drop_unsized_mesh(rules);
  settle_activation_labels(rules);
  report_unused_sizes(rules, diags);
  return rules;
}

}  // namespace shardplan
