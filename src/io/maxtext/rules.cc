// SPDX-License-Identifier: Apache-2.0
// MaxText's configs; docs/formats/logical.md.
//
//   mesh_axes: [data, fsdp, tensor]
//   logical_axis_rules: [[embed, fsdp], [mlp, [tensor]], [norm, []]]
//   ici_fsdp_parallelism: -1
//   dcn_data_parallelism: 2
//
// What concerns no mesh is passed over: a config holds hundreds of other keys.
// As in MaxText, the rules of a later file replace those of the same names, or
// all with `override_logical_axis_rules`, and so does a custom mesh and rule
// file, which is one that gives the mesh axes again.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "io/dialects.h"
#include "io/export.h"
#include "io/spec_node.h"
#include "syntax/document.h"
#include "syntax/yaml.h"

namespace shardplan {
namespace {

constexpr std::string_view kSuffix = "_parallelism";

// "fsdp" for "ici_fsdp_parallelism"; else empty.
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

// The size of one axis, into the mesh within a slice or over slices.
bool read_parallelism(const Node& map, size_t index, std::string_view name,
                      std::vector<AxisRequest>& axes, Diagnostics& diags) {
  const Node size = map.item(index);
  const auto find = [&](std::string_view axis_name) {
    return std::find_if(axes.begin(), axes.end(), [&](const AxisRequest& axis) {
      return axis.name == axis_name;
    });
  };
  auto found = find(name);
  // The one axis that is called otherwise than its parallelism.
  if (found == axes.end() && name == "pipeline") found = find("stage");
  if (!require(size, NodeKind::Integer, map.key(index), diags)) return false;
  if (!size.integer()) {
    diags.error(Code::InvalidMesh, size.span(),
                in_backticks(map.key(index)) + " does not fit 63 bits");
    return false;
  }
  if (found == axes.end()) {
    // An axis that this mesh does not have, of which MaxText wants no more.
    if (*size.integer() == 1) return true;
    diags
        .error(Code::InvalidMesh, map.key_span(index),
               "`mesh_axes` has no axis " + in_backticks(name))
        .help("add it to `mesh_axes`, or give it the size 1");
    return false;
  }
  found->size = *size.integer();
  found->where = map.key_span(index);
  found->size_where = size.span();
  return true;
}

bool read_parallelisms(const Node& map, RuleSet& rules, Diagnostics& diags) {
  bool good = true;
  for (size_t i = 0; i < map.size(); ++i) {
    const std::string_view ici = parallel_axis(map.key(i), "ici_");
    const std::string_view dcn = parallel_axis(map.key(i), "dcn_");
    if (!ici.empty()) {
      good = read_parallelism(map, i, ici, *rules.mesh, diags) && good;
    } else if (!dcn.empty()) {
      good = read_parallelism(map, i, dcn, rules.dcn_mesh, diags) && good;
    }
  }
  return good;
}

// MaxText would read the named file, from a folder of its own.
bool refuse_reference(const Node& root, Diagnostics& diags) {
  const auto custom = root.find("custom_mesh_and_rule");
  if (!custom || !custom->is_string() || custom->text().empty()) return false;
  diags
      .error(Code::UnsupportedKey, custom->span(),
             "the file behind `custom_mesh_and_rule: " +
                 std::string(custom->text()) + "` is not read")
      .help("give that file with a second `--rules`, and remove the key");
  return true;
}

bool read_root(const Node& root, RuleSet& rules, Diagnostics& diags) {
  if (!require(root, NodeKind::Map, "a MaxText config", diags)) return false;
  const auto axes = root.find("mesh_axes");
  const auto logical = root.find("logical_axis_rules");
  if (!axes && !logical) {
    diags.error(Code::MalformedDocument, root.span(),
                "there are neither `mesh_axes` nor `logical_axis_rules`");
    return false;
  }
  bool good = !refuse_reference(root, diags);
  if (logical) good = read_logical_rules(*logical, rules, diags) && good;
  if (logical) {
    rules.logical_merge =
        axes ? LogicalMerge::ReplaceAll : LogicalMerge::ReplaceNames;
  }
  if (const auto all = root.find("override_logical_axis_rules")) {
    const auto replaces = all->boolean();
    if (!replaces) {
      diags.error(Code::MalformedDocument, all->span(),
                  "`override_logical_axis_rules` must be true or false");
      return false;
    }
    if (*replaces && logical) rules.logical_merge = LogicalMerge::ReplaceAll;
  }
  if (!axes) return good;
  good = read_mesh_axes(*axes, rules, diags) && good;
  return read_parallelisms(root, rules, diags) && good;
}

bool begins_line(std::string_view head, std::string_view key) {
  for (size_t at = head.find(key); at != std::string_view::npos;
       at = head.find(key, at + 1)) {
    if (at == 0 || head[at - 1] == '\n' || head[at - 1] == '"') return true;
  }
  return false;
}

bool recognize(std::string_view head) {
  constexpr std::array<std::string_view, 3> kKeys = {
      "mesh_axes", "ici_", "override_logical_axis_rules"};
  return std::any_of(kKeys.begin(), kKeys.end(), [&](std::string_view key) {
    return begins_line(head, key);
  });
}

bool read_maxtext_rules(SourcePtr source, const RuleReading&, RuleSet& rules,
                        Diagnostics& diags) {
  const auto document = parse_document(source, diags);
  if (!document) return false;
  rules.sources.push_back(std::move(source));
  return read_root(document->root(), rules, diags);
}

}  // namespace

const RuleDialect kMaxText = {
    "maxtext",
    "MaxText's configs: mesh axes, logical axis rules, ici_ and dcn_",
    recognize, read_maxtext_rules};

// The part of a MaxText configuration that says how a model is sharded: mesh
// axes, logical axis rules, and how much of each axis is within a slice (ici)
// and over slices (dcn). Parameters and their axes are MaxText's own.

namespace {

constexpr std::string_view kName = "maxtext";

std::string list_text(const AxisNames& names) {
  std::string text = "[";
  for (const AxisName& name : names) {
    if (text.size() > 1) text += ", ";
    text += yaml_word(name);
  }
  return text + "]";
}

// MaxText keeps the longest prefix of a dimension's axes that divides it.
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
                     ", of which this plan keeps none")
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
               "`maxtext` has no rule for dimensions without a name")
        .help("remove this rule, which places nothing in flax");
    return false;
  }
  return true;
}

// How often the axis is repeated over slices; 1 where that is not known to be
// a part of its size.
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
    // MaxText's one axis that is called otherwise than its parallelism.
    const std::string name = axis.name == "stage" ? "pipeline" : axis.name;
    sizes += "ici_" + name +
             "_parallelism: " + std::to_string(axis.size / dcn) + "\n";
    slices += "dcn_" + name + "_parallelism: " + std::to_string(dcn) + "\n";
  }
  std::string text =
      comment_text(header_lines(input, "Logical axis rules, as given", kName)) +
      "mesh_axes: " + list_text(axes) + "\nlogical_axis_rules:\n";
  for (const LogicalRule& rule : rules->logical_rules) {
    text += "  - [" + yaml_word(*rule.name) + ", " +
            (rule.axes.size() == 1 ? yaml_word(rule.axes.front())
                                   : list_text(rule.axes)) +
            "]\n";
  }
  return text + sizes + slices;
}

}  // namespace

const ExportTarget kMaxTextTarget = {
    kName, "mesh, parallelism and logical axis rules of a MaxText config",
    write};

}  // namespace shardplan
