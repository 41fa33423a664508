// SPDX-License-Identifier: Apache-2.0
#include "io/maxtext/config.h"

#include <string>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "base/words.h"
#include "io/load.h"
#include "io/paths.h"

namespace shardplan {
namespace {

constexpr size_t kMaxBases = 16;

// MaxText's names for the dimensions of activations, by the semantic axes that
// label a forward pass. Source: MaxText 0.2.5, the constraints of
// layers/attentions.py, linears.py and decoders.py.
constexpr std::pair<std::string_view, std::string_view> kActivationLabels[] = {
    {"batch_axis", "activation_batch"},
    {"sequence_axis", "activation_length"},
    {"query_sequence_axis", "activation_length"},
    {"key_sequence_axis", "activation_kv_length"},
    {"head_axis", "activation_heads"},
    {"kv_head_axis", "activation_kv_heads"},
    {"hidden_state_axis", "activation_embed"},
    {"mlp_intermediate_axis", "activation_mlp"},
    {"vocab_axis", "activation_vocab"},
    {"expert_axis", "activation_exp"}};

bool is_file(const std::string& path, Host& files) {
  const auto info = files.file_info(path);
  return info && !info->directory;
}

// Returns false if the host refuses what `from` leads to; MaxText may find
// files in folders that this reader may not search.
bool is_folder(const std::string& path, const std::string& from, Host& files) {
  const std::string folder = path.empty() ? "." : path;
  files.leads_to(from, folder);
  const auto info = files.file_info(folder);
  return info && info->directory;
}

// Returns the path of a file that `from` names; nullopt if it is not found.
std::optional<std::string> find_config(const std::string& name,
                                       const std::string& from, Host& files) {
  if (name.starts_with('/')) {
    files.leads_to(from, name);
    return is_file(name, files) ? std::optional(name) : std::nullopt;
  }
  std::string directory = directory_of(from);
  while (true) {
    for (const std::string& folder :
         {directory, join_path(directory, "configs")}) {
      std::string path = join_path(folder, name);
      files.leads_to(from, path);
      if (is_file(path, files)) return path;
    }
    std::string above = directory_of(directory);
    if (above == directory || !is_folder(above, from, files)) {
      return std::nullopt;
    }
    directory = std::move(above);
  }
}

std::optional<Document> parse_layer(SourcePtr source, Diagnostics& diags) {
  auto document = parse_document(std::move(source), diags);
  if (!document ||
      !require(document->root(), NodeKind::Map, "a MaxText config", diags)) {
    return std::nullopt;
  }
  return document;
}

std::optional<Document> read_layer(const std::string& path, Host& files,
                                   Diagnostics& diags) {
  const SourcePtr source = read_source(path, kWholeFile, files, diags);
  return source == nullptr ? std::nullopt : parse_layer(source, diags);
}

// Returns the text of the key in the nearest layer; nullopt if empty or absent.
std::optional<Node> text_of(const MaxtextConfig& config, std::string_view key) {
  const auto node = find_inherited(config, key);
  const bool says = node && node->is_string() && !node->text().empty();
  return says ? node : std::nullopt;
}

bool read_bases(MaxtextConfig& config, Host* files, Diagnostics& diags) {
  while (true) {
    const Document& last = config.layers.back();
    const auto named = last.root().find("base_config");
    if (!named || !named->is_string() || named->text().empty()) return true;
    const auto path = files == nullptr
                          ? std::nullopt
                          : find_config(std::string(named->text()),
                                        last.source().name(), *files);
    if (!path) {
      config.missing_base = named;
      return true;
    }
    if (config.layers.size() > kMaxBases) {
      diags.error(Code::MalformedDocument, named->span(),
                  "this `base_config` inherits from more than " +
                      std::to_string(kMaxBases) + " files, or from itself");
      return false;
    }
    auto base = read_layer(*path, *files, diags);
    if (!base) return false;
    config.layers.push_back(*std::move(base));
  }
}

// Reads `models/llama2-7b.yml`, which may have rules of its own.
bool read_model_config(MaxtextConfig& config, Host& files, Diagnostics& diags) {
  const auto named = find_model_name(config);
  if (!named) return true;
  std::string name(named->text());
  const size_t instruct = name.find("-Instruct");
  if (instruct != std::string::npos) name.erase(instruct, 9);
  const std::string file = "models/" + name + ".yml";
  const auto path =
      find_config(file, config.layers.front().source().name(), files);
  if (path) {
    config.model = read_layer(*path, files, diags);
    return config.model.has_value();
  }
  diags
      .report(Code::UnsupportedKey, Severity::Note, named->span(),
              in_backticks(file) +
                  " was not found; MaxText also reads this file, which may "
                  "have logical axis rules")
      .help("if it has rules, give it with a second `--rules`");
  return true;
}

bool read_custom(MaxtextConfig& config, Host* files, Diagnostics& diags) {
  const auto named = text_of(config, "custom_mesh_and_rule");
  if (!named) return true;
  const std::string file =
      "custom_mesh_and_rule/" + std::string(named->text()) + ".yml";
  const auto path =
      files == nullptr
          ? std::nullopt
          : find_config(file, config.layers.front().source().name(), *files);
  if (path) {
    config.custom = read_layer(*path, *files, diags);
    return config.custom.has_value();
  }
  diags
      .error(
          Code::UnsupportedKey, named->span(),
          "the file for `custom_mesh_and_rule: " + std::string(named->text()) +
              "` was not found: " + in_backticks(file))
      .help("give that file with a second `--rules`, and remove the key");
  return false;
}

AxisRequest* find_axis(std::vector<AxisRequest>& axes, std::string_view name) {
  for (AxisRequest& axis : axes) {
    // Only the axis `stage` has a different name than its parallelism.
    if (axis.name == name || (name == "pipeline" && axis.name == "stage")) {
      return &axis;
    }
  }
  return nullptr;
}

}  // namespace

bool begins_line(std::string_view head, std::string_view key) {
  for (size_t at = head.find(key); at != std::string_view::npos;
       at = head.find(key, at + 1)) {
    if (at == 0 || head[at - 1] == '\n' || head[at - 1] == '"') return true;
  }
  return false;
}

std::optional<MaxtextConfig> read_maxtext_config(SourcePtr source, Host* files,
                                                 Diagnostics& diags) {
  auto document = parse_layer(std::move(source), diags);
  if (!document) return std::nullopt;
  MaxtextConfig config;
  // Nodes point into their documents, so the documents must not move.
  config.layers.reserve(kMaxBases + 1);
  config.layers.push_back(*std::move(document));
  const bool good =
      read_bases(config, files, diags) &&
      (files == nullptr || read_model_config(config, *files, diags)) &&
      read_custom(config, files, diags);
  if (!good) return std::nullopt;
  return config;
}

std::vector<SourcePtr> sources_of(const MaxtextConfig& config) {
  std::vector<SourcePtr> sources;
  for (const Document& layer : config.layers) {
    sources.push_back(layer.shared_source());
  }
  if (config.model) sources.push_back(config.model->shared_source());
  if (config.custom) sources.push_back(config.custom->shared_source());
  return sources;
}

std::optional<Node> find_inherited(const MaxtextConfig& config,
                                   std::string_view key) {
  for (const Document& layer : config.layers) {
    if (const auto node = layer.root().find(key)) return node;
  }
  return std::nullopt;
}

std::optional<Node> find_in(const std::optional<Document>& file,
                            std::string_view key) {
  return file ? file->root().find(key) : std::nullopt;
}

std::optional<Node> find_model_name(const MaxtextConfig& config) {
  const auto node = text_of(config, "model_name");
  return node && node->text() != "default" ? node : std::nullopt;
}

OverridesOther overridden_by(const MaxtextConfig& config) {
  const Document& own = config.layers.front();
  const std::string& file = own.source().name();
  if (!config.missing_base) {
    return {own.root().span(),
            "this MaxText config has no `mesh_axes` with `logical_axis_rules`: "
            "it overrides another config",
            "give that config first: `--rules base.yml --rules " + file + "`"};
  }
  const std::string base(config.missing_base->text());
  return {config.missing_base->span(),
          "`base_config: " + base +
              "` was not found next to this file or in a parent folder",
          "give it first: `--rules PATH/" + file_name_of(base) + " --rules " +
              file + "`"};
}

bool place_sizes(RuleSet& rules, Diagnostics& diags) {
  for (std::vector<AxisRequest>* axes : {&*rules.mesh, &rules.dcn_mesh}) {
    for (AxisRequest& axis : *axes) axis.size = 1;
  }
  if (rules.sizes.empty()) {
    if (auto* fsdp = find_axis(*rules.mesh, "fsdp")) fsdp->size = -1;
    return true;
  }
  for (const AxisSize& given : rules.sizes) {
    AxisRequest* axis = find_axis(
        given.over_slices ? rules.dcn_mesh : *rules.mesh, given.axis.name);
    if (axis != nullptr) {
      axis->size = given.axis.size;
      axis->where = given.axis.where;
      axis->size_where = given.axis.size_where;
    } else if (given.axis.size != 1 && given.axis.size != -1) {
      // MaxText gives an axis that the mesh lacks a size of 1, or the remaining
      // devices, of which there are none.
      diags
          .error(Code::InvalidMesh, given.axis.where,
                 "`mesh_axes` has no axis " + in_backticks(given.axis.name))
          .help("add it to `mesh_axes`, or set its size to 1");
      return false;
    }
  }
  return true;
}

void settle_activation_labels(RuleSet& rules) {
  const bool is_maxtext = rules.form != nullptr && rules.form->sizes_declared;
  if (rules.partition_axis || !is_maxtext) return;
  const std::vector<LogicalRule>& placed = rules.logical_rules;
  if (find_named(placed, kActivationLabels[0].second) == nullptr) return;
  PartitionAxis table = default_partition_axis();
  for (const auto& [field, label] : kActivationLabels) {
    AxisValue& value = table.at(*find_partition_field(field)).emplace();
    const LogicalRule* const rule = find_named(placed, label);
    if (rule != nullptr) value = {rule->axes, rule->axes.size() != 1};
  }
  Diagnostics none;
  rules.partition_axis = resolve_partition_axis(std::move(table), none);
}

void drop_unsized_mesh(RuleSet& rules) {
  if (!rules.mesh || !rules.mesh_replaces || !rules.sizes.empty()) return;
  if (find_axis(*rules.mesh, "fsdp") != nullptr) return;
  rules.mesh.reset();
  rules.dcn_mesh.clear();
}

}  // namespace shardplan
