// SPDX-License-Identifier: Apache-2.0
// The dialect `yaml`, this program's own rules files:
//
//   axes: [dp, fsdp, tp, sp]
//   mesh: {fsdp: 8, tp: 4}
//   views: {experts: {ep: 8, edp: 4}}
//   view_axes: {experts: [ep, edp, etp]}
//   rules:
//     - ["embed_tokens/embedding", [tp, [fsdp, sp]]]
//     - {pattern: "norm", spec: []}
//     - {pattern: "experts.\\d+", view: experts, deal: ep, spec: [null, edp]}
//   logical_axis_rules: [[embed, fsdp], [mlp, tp]]
//   labels: architecture
//   partition_axis: {head_axis: tp}
//   run_as: hooks
//   activations:
//     - ["residual|hidden", [BATCH, LENGTH, null]]
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/words.h"
#include "io/dialects.h"
#include "io/export.h"
#include "io/spec_node.h"
#include "syntax/document.h"
#include "syntax/yaml.h"

namespace shardplan {
namespace {

const std::array<std::string, 10>& known_keys() {
  static const std::array<std::string, 10> kKeys = {
      "axes",           "mesh",        "rules",  "logical_axis_rules",
      "partition_axis", "activations", "labels", "run_as",
      "views",          "view_axes",
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
      names.emplace_back();  // keeps `names` aligned with the nodes
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
  for (AxisName& name : names) {  // an earlier file may have declared it
    if (!known.contains(name)) all.push_back(std::move(name));
  }
  return true;
}

bool read_labels_of(const Node& node, RuleSet& rules, Diagnostics& diags) {
  if (node.is_string() && node.text() == "architecture") {
    rules.architecture_labels = true;
    rules.architecture_labels_where = node.span();
    return true;
  }
  diags
      .error(Code::MalformedDocument, node.span(),
             "`labels` must be `architecture` or omitted")
      .fact(
          "`architecture` also allows the logical names of architecture files");
  return false;
}

bool read_run_as(const Node& node, RuleSet& rules, Diagnostics& diags) {
  if (node.is_string() && node.text() == "hooks") {
    rules.run_as = RunAs::Hooks;
    return true;
  }
  diags.error(Code::MalformedDocument, node.span(),
              "`run_as` must be `hooks` or omitted");
  return false;
}

bool read_views(const Node& node, RuleSet& rules, Diagnostics& diags) {
  if (!require(node, NodeKind::Map, "views", diags)) return false;
  bool good = true;
  for (size_t i = 0; i < node.size(); ++i) {
    const std::string name(node.key(i));
    if (!is_axis_name(name)) {
      diags
          .error(Code::InvalidMesh, node.key_span(i),
                 in_backticks(name) + " is not a valid view name")
          .help("write `views: {experts: {ep: 8, edp: 4}}`");
      good = false;
      continue;
    }
    auto axes = read_mesh_node(node.item(i), diags);
    good = good && axes;
    if (!axes) continue;
    rules.views.push_back(
        {name, *std::move(axes), node.item(i).span(), node.key_span(i)});
  }
  return good;
}

bool read_view_axes(const Node& node, RuleSet& rules, Diagnostics& diags) {
  if (!require(node, NodeKind::Map, "view_axes", diags)) return false;
  bool good = true;
  for (size_t i = 0; i < node.size(); ++i) {
    RuleSet of_view;
    good = read_declared_axes(node.item(i), of_view, diags) && good;
    rules.view_axes[std::string(node.key(i))] =
        std::move(of_view.declared_axes);
  }
  return good;
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
  if (key == "run_as") return read_run_as(value, rules, diags);
  if (key == "labels") return read_labels_of(value, rules, diags);
  if (key == "partition_axis") return read_partition_axis(value, rules, diags);
  if (key == "axes") return read_declared_axes(value, rules, diags);
  if (key == "views") return read_views(value, rules, diags);
  if (key == "view_axes") return read_view_axes(value, rules, diags);
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
  diags.error(Code::UnrecognizedFormat, root.span(), "this is not a rules file")
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
    any_known = any_known || contains(known, root.key(i));
  }
  if (!any_known) return not_rules(root, diags);
  bool good = true;
  for (size_t i = 0; i < root.size(); ++i) {
    good = read_entry(root, i, rules, diags) && good;
  }
  if (good && !root.find("rules") && !root.find("logical_axis_rules")) {
    diags
        .error(Code::MalformedDocument, root.span(),
               "the key `rules` is missing")
        .help(std::string(kRuleForms));
    return false;
  }
  return good;
}

// Any text may be YAML; reading it reports what is not.
bool recognize_rules(std::string_view head) { return !contains(head, '\0'); }

bool read_yaml_rules(SourcePtr source, const RuleReading&, RuleSet& rules,
                     Diagnostics& diags) {
  const auto document = parse_document(source, diags);
  if (!document) return false;
  rules.sources.push_back(std::move(source));
  return read_root(document->root(), rules, diags);
}

}  // namespace

const RuleDialect kYamlRules = {"yaml", "rules, mesh and axes in YAML or JSON",
                                recognize_rules, read_yaml_rules};

// The export targets `yaml` and `json`: this program's rules format; see
// docs/formats/rules.md. JSON has no comments, so the text does not name its
// origin.

namespace {

std::string json_string(std::string_view text) {
  std::string out;
  append_printable_json(out, text);
  return out;
}

// The two syntaxes of one document.
struct Spelling {
  std::string_view target;
  bool is_json = false;
  std::string (*text)(std::string_view) = nullptr;  // any string
  std::string (*word)(std::string_view) = nullptr;  // a name
};
constexpr Spelling kYaml = {"yaml", false, yaml_string, yaml_word};
constexpr Spelling kJson = {"json", true, json_string, json_string};

// A key with its value: on one line, or with one item per line.
struct Section {
  std::string key;
  std::string line;
  std::vector<std::string> items;
};

class Writer {
 public:
  explicit Writer(const Spelling& spelling) : how_(spelling) {}

  void axes(const AxisNames& names) {
    if (!names.empty()) sections_.push_back({"axes", list(names), {}});
  }

  void labels(bool of_architecture) {
    if (of_architecture) {
      sections_.push_back({"labels", how_.word("architecture"), {}});
    }
  }

  void run_as(RunAs who) {
    if (who == RunAs::Hooks) {
      sections_.push_back({"run_as", how_.word("hooks"), {}});
    }
  }

  void mesh(const Mesh& mesh) {
    sections_.push_back({"mesh", sizes(mesh.axes()), {}});
  }

  void view_axes(const std::map<std::string, AxisNames>& all) {
    if (all.empty()) return;
    std::string line;
    for (const auto& [view, names] : all) {
      line +=
          (line.empty() ? "{" : ", ") + how_.word(view) + ": " + list(names);
    }
    sections_.push_back({"view_axes", line + "}", {}});
  }

  void views(const Mesh& mesh) {
    if (mesh.views().empty()) return;
    std::string line;
    for (const MeshView& view : mesh.views()) {
      line += (line.empty() ? "{" : ", ") + how_.word(view.name) + ": " +
              sizes(view.axes);
    }
    sections_.push_back({"views", line + "}", {}});
  }

  // Writes each rule as `[pattern, spec]`, or as a map if it has more parts.
  template <typename Rules>
  void patterns(const std::string& key, const Rules& rules) {
    Section section{key, "[]", {}};
    for (const auto& rule : rules) {
      section.items.push_back(rule.view.empty() && rule.deal.empty()
                                  ? "[" + how_.text(rule.pattern) + ", " +
                                        spec(rule.spec) + "]"
                                  : rule_map(rule));
    }
    sections_.push_back(std::move(section));
  }

  void logical(const std::vector<LogicalRule>& rules) {
    if (rules.empty()) return;
    Section section{"logical_axis_rules", "", {}};
    for (const LogicalRule& rule : rules) {
      const std::string name = rule.name ? how_.word(*rule.name) : "null";
      if (rule.view.empty() && !rule.deal) {
        section.items.push_back("[" + name + ", " + entry(rule.axes) + "]");
        continue;
      }
      std::string item = "{" + key("name") + ": " + name + ", " + key("axes") +
                         ": " + entry(rule.axes);
      if (!rule.view.empty()) {
        item += ", " + key("view") + ": " + how_.word(rule.view);
      }
      if (rule.deal) item += ", " + key("deal") + ": true";
      section.items.push_back(item + "}");
    }
    sections_.push_back(std::move(section));
  }

  void semantic(const PartitionAxis& axis) {
    std::string line;
    for (size_t i = 0; i < kPartitionFields; ++i) {
      if (!axis[i]) continue;
      const bool tuple = axis[i]->is_tuple && !axis[i]->axes.empty();
      line += (line.empty() ? "{" : ", ") +
              how_.word(partition_fields()[i].name) + ": " +
              (tuple ? list(axis[i]->axes) : entry(axis[i]->axes));
    }
    sections_.push_back({"partition_axis", line + "}", {}});
  }

  std::string finish() const {
    std::string out = how_.is_json ? "{" : "";
    for (const Section& section : sections_) {
      if (how_.is_json) {
        out += (out.size() > 1 ? ",\n  " : "\n  ") + json_string(section.key);
      } else {
        out += section.key;
      }
      out += ":" + value(section);
      if (!how_.is_json) out += "\n";
    }
    return out + (how_.is_json ? "\n}\n" : "");
  }

 private:
  std::string key(std::string_view text) const {
    return how_.is_json ? json_string(text) : std::string(text);
  }
  template <typename AnyRule>
  std::string rule_map(const AnyRule& rule) const {
    std::string text = "{" + key("pattern") + ": " + how_.text(rule.pattern);
    if (!rule.view.empty()) {
      text += ", " + key("view") + ": " + how_.word(rule.view);
    }
    if (!rule.deal.empty()) {
      text += ", " + key("deal") + ": " + how_.word(rule.deal);
    }
    return text + ", " + key("spec") + ": " + spec(rule.spec) + "}";
  }
  std::string sizes(const std::vector<Axis>& axes) const {
    std::string line;
    for (const Axis& axis : axes) {
      line += (line.empty() ? "{" : ", ") + how_.word(axis.name) + ": " +
              std::to_string(axis.size);
    }
    return line + "}";
  }
  std::string list(const AxisNames& names) const {
    std::string text = "[";
    for (const AxisName& name : names) {
      if (text.size() > 1) text += ", ";
      text += how_.word(name);
    }
    return text + "]";
  }
  std::string entry(const AxisNames& axes) const {
    if (axes.empty()) return "null";
    return axes.size() == 1 ? how_.word(axes.front()) : list(axes);
  }
  std::string spec(const PartitionSpec& spec) const {
    std::string text = "[";
    for (size_t i = 0; i < spec.dims.size(); ++i) {
      if (i > 0) text += ", ";
      text += entry(spec.dims[i]);
    }
    return text + "]";
  }

  std::string value(const Section& section) const {
    if (section.items.empty()) return " " + section.line;
    std::string out = how_.is_json ? " [" : "";
    for (size_t i = 0; i < section.items.size(); ++i) {
      if (how_.is_json) {
        out += (i == 0 ? "\n    " : ",\n    ") + section.items[i];
      } else {
        out += "\n  - " + section.items[i];
      }
    }
    return out + (how_.is_json ? "\n  ]" : "");
  }

  const Spelling& how_;
  std::vector<Section> sections_;
};

std::string why_resolved(const ExportInput& input) {
  std::string why = why_no_rules(input);
  if (why.empty() && !input.rules->logical_rules.empty() &&
      input.rules->logical_reading == LogicalReading::Mapping) {
    why = "the rules map several names to one mesh axis";
  }
  return why;
}

std::optional<std::string> write(const ExportInput& input, Diagnostics& diags,
                                 const Spelling& how) {
  if (!specs_are_expressible(input, how.target, diags)) return std::nullopt;
  const std::string why = why_resolved(input);
  Writer writer(how);
  writer.run_as(input.plan.run_as);
  std::vector<std::string> lines;
  if (why.empty()) {
    const RuleSet& rules = *input.rules;
    lines = header_lines(input, "Partition rules, as given", how.target);
    writer.axes(rules.declared_axes);
    writer.mesh(input.plan.mesh);
    writer.views(input.plan.mesh);
    writer.view_axes(rules.view_axes);
    writer.labels(rules.architecture_labels);
    writer.patterns("rules", rules.rules);
    writer.logical(rules.logical_rules);
    if (rules.partition_axis) writer.semantic(*rules.partition_axis);
    if (!rules.activations.empty()) {
      writer.patterns("activations", rules.activations);
    }
  } else {
    if (!names_are_expressible(input, how.target, diags)) return std::nullopt;
    lines = header_lines(input, "Partition rules, one per parameter or layer",
                         how.target);
    lines.push_back(why);
    const ResolvedTable table = resolved_table(input);
    add_left_out(table.left_out, lines);
    writer.mesh(input.plan.mesh);
    writer.views(input.plan.mesh);
    writer.patterns("rules", table.entries);
    note_activations(input, how.target, diags);
  }
  note_slices(input, how.target, diags);
  return (how.is_json ? "" : comment_text(lines)) + writer.finish();
}

}  // namespace

const ExportTarget kYamlTarget = {
    kYaml.target, "rules and mesh in shardplan's own format",
    [](const ExportInput& input, Diagnostics& diags) {
      return write(input, diags, kYaml);
    },
    ExportViews::Deals};
const ExportTarget kJsonTarget = {
    kJson.target, "the same in JSON",
    [](const ExportInput& input, Diagnostics& diags) {
      return write(input, diags, kJson);
    },
    ExportViews::Deals};

}  // namespace shardplan
