// SPDX-License-Identifier: Apache-2.0
// The dialect `maxtext`: MaxText's configs; see docs/formats/logical.md.
//
//   mesh_axes: [data, fsdp, tensor]
//   logical_axis_rules: [[embed, fsdp], [mlp, [tensor]], [norm, []]]
//   ici_fsdp_parallelism: -1
//   dcn_data_parallelism: 2
//
// A config has hundreds of other keys, so keys that do not concern the mesh are
// ignored. As in MaxText, the rules of a later file replace those of the same
// names, or all rules with `override_logical_axis_rules`. A custom mesh and
// rule file, which sets the mesh axes again, also replaces all rules.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "base/words.h"
#include "io/dialects.h"
#include "io/export.h"
#include "io/maxtext/config.h"
#include "io/spec_node.h"
#include "syntax/document.h"
#include "syntax/yaml.h"

namespace shardplan {
namespace {

constexpr std::string_view kSuffix = "_parallelism";

// Returns "fsdp" for "ici_fsdp_parallelism"; empty for other keys.
std::string_view parallel_axis(std::string_view key, std::string_view prefix) {
  if (!key.starts_with(prefix) || !key.ends_with(kSuffix) ||
      key.size() <= prefix.size() + kSuffix.size()) {
    return "";
  }
  return key.substr(prefix.size(), key.size() - prefix.size() - kSuffix.size());
}

bool read_mesh_axes(const Node& node, RuleSet& rules, Diagnostics& diags) {
  if (!require(node, NodeKind::List, "mesh_axes", diags)) return false;
  rules.mesh.emplace();
  rules.mesh_where = node.span();
  rules.mesh_replaces = true;
  bool good = true;
  for (size_t i = 0; i < node.size(); ++i) {
    const Node item = node.item(i);
    auto name = read_axis_node(item, diags);
    good = good && name;
    if (!name) continue;
    rules.declared_axes.push_back(*name);
    const AxisRequest axis = {*std::move(name), 1, item.span(), item.span(),
                              item.span()};
    rules.mesh->push_back(axis);
    rules.dcn_mesh.push_back(axis);
  }
  return good;
}

// Appends the sizes of one file to those of the files that it overrides.
bool read_sizes(const Node& map, RuleSet& rules, Diagnostics& diags) {
  bool good = true;
  for (size_t i = 0; i < map.size(); ++i) {
    const std::string_view ici = parallel_axis(map.key(i), "ici_");
    const std::string_view dcn = parallel_axis(map.key(i), "dcn_");
    if (ici.empty() && dcn.empty()) continue;
    const Node size = map.item(i);
    if (!require(size, NodeKind::Integer, map.key(i), diags)) {
      good = false;
    } else if (!size.integer()) {
      good = false;
      diags.error(Code::InvalidMesh, size.span(),
                  in_backticks(map.key(i)) + " does not fit in 63 bits");
    } else {
      rules.sizes.push_back(
          {{std::string(ici.empty() ? dcn : ici), *size.integer(),
            map.key_span(i), map.key_span(i), size.span()},
           ici.empty()});
    }
  }
  return good;
}

std::optional<LogicalMerge> merge_of(const Node& root, Diagnostics& diags) {
  const auto all = root.find("override_logical_axis_rules");
  if (!all) return LogicalMerge::ReplaceNames;
  const auto replaces = all->boolean();
  if (!replaces) {
    return diags.error(Code::MalformedDocument, all->span(),
                       "`override_logical_axis_rules` must be true or false");
  }
  return *replaces ? LogicalMerge::ReplaceAll : LogicalMerge::ReplaceNames;
}

// The nearest of a file and those it inherits from supplies the rules: lists
// are not merged. The model's own file (`model_name`) is merged.
bool read_logical(const MaxtextConfig& config, RuleSet& rules,
                  Diagnostics& diags) {
  bool good = true;
  if (const auto inherited = find_inherited(config, "logical_axis_rules")) {
    good = read_logical_rules(*inherited, rules, diags);
  }
  if (const auto model = find_in(config.model, "logical_axis_rules")) {
    const auto merge = merge_of(config.model->root(), diags);
    RuleSet more;
    good = read_logical_rules(*model, more, diags) && merge && good;
    if (good) {
      merge_logical_rules(std::move(more.logical_rules), *merge,
                          rules.logical_rules);
    }
  }
  if (const auto custom = find_in(config.custom, "logical_axis_rules")) {
    rules.logical_rules.clear();
    good = read_logical_rules(*custom, rules, diags) && good;
  }
  return good;
}

bool read_config(const MaxtextConfig& config, RuleSet& rules,
                 Diagnostics& diags) {
  const Node root = config.layers.front().root();
  auto axes = find_in(config.custom, "mesh_axes");
  if (!axes) axes = find_in(config.model, "mesh_axes");
  if (!axes) axes = find_inherited(config, "mesh_axes");
  bool good = read_logical(config, rules, diags);
  const auto merge = merge_of(root, diags);
  if (!merge) return false;
  rules.logical_merge =
      axes || root.find("base_config") ? LogicalMerge::ReplaceAll : *merge;
  if (rules.logical_rules.empty()) rules.logical_merge = LogicalMerge::Append;
  for (size_t i = config.layers.size(); i > 0; --i) {
    good = read_sizes(config.layers[i - 1].root(), rules, diags) && good;
  }
  if (config.model) {
    good = read_sizes(config.model->root(), rules, diags) && good;
  }
  // Rules that are merged by name belong to the mesh of another config. A mesh
  // alone may be meant for rules that follow.
  const bool partial = !axes && *merge == LogicalMerge::ReplaceNames;
  const bool lacks_base = config.missing_base && rules.logical_rules.empty();
  if (partial || lacks_base) rules.overrides = overridden_by(config);
  if (!axes) return good;
  good = read_mesh_axes(*axes, rules, diags) && good;
  return good && place_sizes(rules, diags);
}

// Every config, even one that overrides another, has some of these keys.
bool recognize(std::string_view head) {
  constexpr std::array<std::string_view, 12> kKeys = {
      "mesh_axes",     "ici_",         "override_logical_axis_rules",
      "base_config",   "dcn_",         "data_sharding",
      "base_emb_dim",  "base_mlp_dim", "base_num_decoder_layers",
      "decoder_block", "remat_policy", "trainer_devices_fraction"};
  return std::ranges::any_of(
      kKeys, [&](std::string_view key) { return begins_line(head, key); });
}

bool read_maxtext_rules(SourcePtr source, const RuleReading& reading,
                        RuleSet& rules, Diagnostics& diags) {
  const auto config =
      read_maxtext_config(std::move(source), reading.files, diags);
  if (!config) return false;
  rules.sources = sources_of(*config);
  return read_config(*config, rules, diags);
}

constexpr RuleForm kMaxTextForm = {
    nullptr,
    [](std::string_view name) {
      return "add a rule `['" + std::string(name) +
             "', []]`, with axes in the inner brackets to shard it";
    },
    "",
    kNoPatterns,
    "maxtext",
    true};

// The export target `maxtext`: the part of a MaxText config that determines how
// a model is sharded. It has the mesh axes, the logical axis rules, and how
// much of each axis is within a slice (ici) and across slices (dcn). MaxText
// itself defines the parameters and their axes.

constexpr std::string_view kName = "maxtext";

std::string yaml_list(const AxisNames& names) {
  return "[" + joined_of(names, ", ", yaml_word) + "]";
}

// MaxText shards a dimension over the longest prefix of its axes that divides
// it.
bool keeps_prefixes(const ExportInput& input, Diagnostics& diags) {
  if (input.plan.on_indivisible == OnIndivisible::Prefix) return true;
  for (size_t i = 0; i < input.manifest.size(); ++i) {
    for (const Correction& c : input.plan.of(i).corrections) {
      if (c.code != Code::IndivisibleDimension || c.dropped.size() < 2) {
        continue;
      }
      diags
          .error(Code::Inexpressible, input.manifest.where(i),
                 "`maxtext` may keep some axes of dimension " +
                     std::to_string(c.dim) + " of " +
                     in_backticks(input.manifest.name(i)) +
                     ", but this plan keeps none")
          .fact(c.reason)
          .help("export with `--on-indivisible prefix`");
      return false;
    }
  }
  return true;
}

bool names_are_given(const RuleSet& rules, Diagnostics& diags) {
  for (const LogicalRule& rule : rules.logical_rules) {
    if (rule.name) continue;
    diags
        .error(Code::Inexpressible, rule.where,
               "`maxtext` cannot express a rule for dimensions without a name")
        .help("remove this rule: it has no effect in flax");
    return false;
  }
  return true;
}

// Returns over how many slices the axis extends; 1 unless that number is known
// to divide the axis.
int64_t slices_of(const Axis& axis, const RuleSet& rules) {
  for (const AxisRequest& dcn : rules.dcn_mesh) {
    if (dcn.name == axis.name && dcn.size > 0 && axis.size % dcn.size == 0) {
      return dcn.size;
    }
  }
  return 1;
}

std::optional<std::string> write(const ExportInput& input, Diagnostics& diags) {
  const RuleSet* rules = logical_rules_of(input, kName, diags);
  const bool good = specs_are_expressible(input, kName, diags);
  if (rules == nullptr || !good || !keeps_prefixes(input, diags) ||
      !names_are_given(*rules, diags)) {
    return std::nullopt;
  }
  note_activations(input, kName, diags);
  const Mesh& mesh = input.plan.mesh;
  AxisNames axes;
  std::string sizes;
  std::string slices;
  for (const Axis& axis : mesh.axes()) {
    axes.push_back(axis.name);
    const int64_t dcn = slices_of(axis, *rules);
    // Only the axis `stage` has a different name than its parallelism.
    const std::string name = axis.name == "stage" ? "pipeline" : axis.name;
    sizes += "ici_" + name +
             "_parallelism: " + std::to_string(axis.size / dcn) + "\n";
    slices += "dcn_" + name + "_parallelism: " + std::to_string(dcn) + "\n";
  }
  std::string text =
      comment_text(header_lines(input, "Logical axis rules, as given", kName)) +
      "mesh_axes: " + yaml_list(axes) + "\nlogical_axis_rules:\n";
  for (const LogicalRule& rule : rules->logical_rules) {
    text += "  - [" + yaml_word(*rule.name) + ", " +
            (rule.axes.size() == 1 ? yaml_word(rule.axes.front())
                                   : yaml_list(rule.axes)) +
            "]\n";
  }
  return text + sizes + slices;
}

}  // namespace

const RuleDialect kMaxText = {
    "maxtext",
    "MaxText's configs: mesh axes, logical axis rules, ici_ and dcn_",
    recognize, read_maxtext_rules, &kMaxTextForm};

const ExportTarget kMaxTextTarget = {
    kName, "mesh, parallelism and logical axis rules of a MaxText config",
    write};

}  // namespace shardplan
