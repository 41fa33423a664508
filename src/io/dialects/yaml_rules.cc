// SPDX-License-Identifier: Apache-2.0
// Our own rules files:
//
//   axes: [dp, fsdp, tp, sp]
//   mesh: {fsdp: 8, tp: 4}
//   rules:
//     - ["embed_tokens/embedding", [tp, [fsdp, sp]]]
//     - {pattern: "norm", spec: []}
//   logical_axis_rules: [[embed, fsdp], [mlp, tp]]
//   partition_axis: {head_axis: tp}
//   activations:
//     - ["residual|hidden", [BATCH, LENGTH, null]]
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "io/axis_tables.h"
#include "io/dialects/dialects.h"
#include "io/document.h"
#include "io/mesh_node.h"
#include "io/spec_node.h"

namespace shardplan {
namespace {

const std::array<std::string, 6>& known_keys() {
  static const std::array<std::string, 6> kKeys = {
      "axes",           "mesh",        "rules", "logical_axis_rules",
      "partition_axis", "activations",
  };
  return kKeys;
}

bool read_rule(const Node& node, RuleSet& rules, Diagnostics& diags) {
  auto rule = read_rule_node(node, diags);
  if (rule) rules.rules.push_back(*std::move(rule));
  return rule.has_value();
}

bool read_activation(const Node& node, RuleSet& rules, Diagnostics& diags) {
  auto rule = read_rule_node(node, diags);
  if (rule) rules.activations.push_back(*std::move(rule));
  return rule.has_value();
}

bool read_declared_axes(const Node& node, RuleSet& rules, Diagnostics& diags) {
  if (!require(node, NodeKind::List, "axes", diags)) return false;
  bool good = true;
  AxisNames names;
  std::map<AxisName, size_t> index_of;
  for (size_t i = 0; i < node.size(); ++i) {
    auto name = read_axis_node(node.item(i), diags);
    good = good && name;
    if (!name) {
      names.emplace_back();  // keeps places and names in step
      continue;
    }
    const auto [first, is_new] = index_of.try_emplace(*name, names.size());
    if (!is_new) {
      diags
          .error(Code::DuplicateKey, node.item(i).span(),
                 "axis `" + *name + "` is declared twice")
          .label(node.item(first->second).span(), "first declared here");
      good = false;
    }
    names.push_back(*std::move(name));
  }
  if (!good) return false;
  AxisNames& all = rules.declared_axes;
  const std::set<AxisName> known(all.begin(), all.end());
  for (AxisName& name : names) {  // an earlier file may have declared it too
    if (!known.contains(name)) all.push_back(std::move(name));
  }
  return true;
}

bool read_entry(const Node& map, size_t index, RuleSet& rules,
                Diagnostics& diags) {
  const std::string_view key = map.key(index);
  const Node value = map.item(index);
  if (key == "rules") return read_all(value, "rules", diags, read_rule, rules);
  if (key == "activations") {
    return read_all(value, "activations", diags, read_activation, rules);
  }
  if (key == "logical_axis_rules") {
    return read_logical_rules(value, rules, diags);
  }
  if (key == "partition_axis") return read_partition_axis(value, rules, diags);
  if (key == "axes") return read_declared_axes(value, rules, diags);
  if (key == "mesh") {
    auto axes = read_mesh_node(value, diags);
    if (axes && !rules.mesh) {
      rules.mesh = std::move(axes);
      rules.mesh_where = value.span();
      return true;
    }
    return axes.has_value();
  }
  report_unknown_key(key, map.key_span(index), known_keys(), diags);
  return false;
}

bool not_rules(const Node& root, Diagnostics& diags) {
  diags.error(Code::UnrecognizedFormat, root.span(), "this is no rules file")
      .fact("a rules file is a map with the key `rules`, or a list of rules; " +
            std::string(kRuleForms));
  return false;
}

bool read_root(const Node& root, RuleSet& rules, Diagnostics& diags) {
  if (root.is_list()) return read_all(root, "rules", diags, read_rule, rules);
  if (!root.is_map()) return not_rules(root, diags);
  const auto& known = known_keys();
  bool any_known = false;
  for (size_t i = 0; i < root.size(); ++i) {
    any_known = any_known || std::find(known.begin(), known.end(),
                                       root.key(i)) != known.end();
  }
  if (!any_known) return not_rules(root, diags);
  bool good = true;
  for (size_t i = 0; i < root.size(); ++i) {
    good = read_entry(root, i, rules, diags) && good;
  }
  if (good && !root.find("rules") && !root.find("logical_axis_rules")) {
    diags.error(Code::MalformedDocument, root.span(), "there are no `rules`")
        .help(std::string(kRuleForms));
    return false;
  }
  return good;
}

// Any text may be YAML; what is not is said by reading it.
bool recognize(std::string_view head) {
  return head.find('\0') == std::string_view::npos;
}

bool read(SourcePtr source, const RuleReading&, RuleSet& rules,
          Diagnostics& diags) {
  const auto document = parse_document(source, diags);
  if (!document) return false;
  rules.sources.push_back(std::move(source));
  return read_root(document->root(), rules, diags);
}

}  // namespace

const RuleDialect kYamlRules = {"yaml", "rules, mesh and axes in YAML or JSON",
                                recognize, read};

}  // namespace shardplan
