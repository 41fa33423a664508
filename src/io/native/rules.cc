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
#include <functional>
#include <map>
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

template <std::vector<Rule> RuleSet::*list>
bool read_rule(const Node& node, RuleSet& rules, Diagnostics& diags) {
  auto rule = read_rule_node(node, diags);
  if (rule) (rules.*list).push_back(*std::move(rule));
  return rule.has_value();
}

bool read_rule_list(const Node& node, RuleSet& rules, Diagnostics& diags) {
  return read_all(node, "rules", diags, read_rule<&RuleSet::rules>, rules);
}

bool read_activations(const Node& node, RuleSet& rules, Diagnostics& diags) {
  return read_all(node, "activations", diags, read_rule<&RuleSet::activations>,
                  rules);
}

std::optional<AxisNames> read_names(const Node& node, Diagnostics& diags) {
  if (!require(node, NodeKind::List, "axes", diags)) return std::nullopt;
  bool good = true;
  AxisNames names;
  std::map<AxisName, Span> seen;
  for (size_t i = 0; i < node.size(); ++i) {
    const auto name = read_axis_node(node.item(i), diags);
    good = good && name;
    if (!name) continue;
    const Span where = node.item(i).span();
    const auto [first, is_new] = seen.try_emplace(*name, where);
    if (is_new) {
      names.push_back(*name);
      continue;
    }
    diags
        .error(Code::DuplicateKey, where,
               "axis `" + *name + "` is declared twice")
        .label(first->second, "first declared here");
    good = false;
  }
  return good ? std::optional(names) : std::nullopt;
}

bool read_axes(const Node& node, RuleSet& rules, Diagnostics& diags) {
  const auto names = read_names(node, diags);
  rules.declared_axes = names.value_or(AxisNames());
  return names.has_value();
}

bool read_mesh(const Node& node, RuleSet& rules, Diagnostics& diags) {
  rules.mesh = read_mesh_node(node, diags);
  rules.mesh_where = node.span();
  return rules.mesh.has_value();
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
    const auto names = read_names(node.item(i), diags);
    good = good && names;
    rules.view_axes[std::string(node.key(i))] = names.value_or(AxisNames());
  }
  return good;
}

struct Key {
  std::string_view name;
  bool (*read)(const Node&, RuleSet&, Diagnostics&);
};
constexpr Key kKeys[] = {{"axes", read_axes},
                         {"mesh", read_mesh},
                         {"rules", read_rule_list},
                         {"logical_axis_rules", read_logical_rules},
                         {"partition_axis", read_partition_axis},
                         {"activations", read_activations},
                         {"labels", read_labels_of},
                         {"run_as", read_run_as},
                         {"views", read_views},
                         {"view_axes", read_view_axes}};

bool not_rules(const Node& root, Diagnostics& diags) {
  diags.error(Code::UnrecognizedFormat, root.span(), "this is not a rules file")
      .fact("a rules file is a map with the key `rules`, or a list of rules; " +
            std::string(kRuleForms));
  return false;
}

bool read_root(const Node& root, RuleSet& rules, Diagnostics& diags) {
  if (root.is_list()) return read_rule_list(root, rules, diags);
  if (!root.is_map() || std::ranges::none_of(kKeys, [&](const Key& key) {
        return root.find(key.name).has_value();
      })) {
    return not_rules(root, diags);
  }
  bool good = true;
  for (size_t i = 0; i < root.size(); ++i) {
    if (const Key* const key = find_named(kKeys, root.key(i))) {
      good = key->read(root.item(i), rules, diags) && good;
    } else {
      report_unknown_key(root.key(i), root.key_span(i), all_names(kKeys),
                         diags);
      good = false;
    }
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

// The export targets `yaml` and `json`: this program's rules format; see
// docs/formats/rules.md. JSON has no comments, so the text does not name its
// origin.

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

class Writer {
 public:
  explicit Writer(const Spelling& spelling) : how_(spelling) {}

  void axes(const AxisNames& names) {
    if (!names.empty()) add("axes", list(names));
  }

  void word(std::string_view key, std::string_view value) {
    add(key, how_.word(value));
  }

  void mesh(const Mesh& mesh) {
    add("mesh", sizes(mesh.axes()));
    if (mesh.views().empty()) return;
    add("views", map(mesh.views(), &MeshView::name,
                     [&](const MeshView& view) { return sizes(view.axes); }));
  }

  void view_axes(const std::map<std::string, AxisNames>& all) {
    using View = std::pair<const std::string, AxisNames>;
    if (all.empty()) return;
    add("view_axes", map(all, &View::first,
                         [&](const View& view) { return list(view.second); }));
  }

  // Writes each rule as `[pattern, spec]`, or as a map if it has more parts.
  template <typename Rules>
  void patterns(std::string_view key, const Rules& rules) {
    std::vector<std::string> items;
    for (const auto& rule : rules) {
      const std::string pattern = how_.text(rule.pattern);
      const std::string spec = list_of(
          rule.spec.dims, [&](const AxisNames& axes) { return entry(axes); });
      if (rule.view.empty() && rule.deal.empty()) {
        items.push_back("[" + pattern + ", " + spec + "]");
        continue;
      }
      std::vector<Field> fields = {{"pattern", pattern}};
      if (!rule.view.empty()) fields.emplace_back("view", how_.word(rule.view));
      if (!rule.deal.empty()) fields.emplace_back("deal", how_.word(rule.deal));
      fields.emplace_back("spec", spec);
      items.push_back(map(fields, &Field::first, &Field::second));
    }
    add_items(key, items);
  }

  void logical(const std::vector<LogicalRule>& rules) {
    if (rules.empty()) return;
    std::vector<std::string> items;
    for (const LogicalRule& rule : rules) {
      const std::string name = rule.name ? how_.word(*rule.name) : "null";
      const std::string axes = entry(rule.axes);
      if (rule.view.empty() && !rule.deal) {
        items.push_back("[" + name + ", " + axes + "]");
        continue;
      }
      std::vector<Field> fields = {{"name", name}, {"axes", axes}};
      if (!rule.view.empty()) fields.emplace_back("view", how_.word(rule.view));
      if (rule.deal) fields.emplace_back("deal", "true");
      items.push_back(map(fields, &Field::first, &Field::second));
    }
    add_items("logical_axis_rules", items);
  }

  void semantic(const PartitionAxis& axis) {
    std::vector<Field> fields;
    for (size_t i = 0; i < kPartitionFields; ++i) {
      if (!axis[i]) continue;
      const bool tuple = axis[i]->is_tuple && !axis[i]->axes.empty();
      fields.emplace_back(partition_fields()[i].name,
                          tuple ? list(axis[i]->axes) : entry(axis[i]->axes));
    }
    add("partition_axis", map(fields, &Field::first, &Field::second));
  }

  std::string finish() const {
    return how_.is_json ? "{\n  " + joined(entries_, ",\n  ") + "\n}\n"
                        : joined(entries_, "\n") + "\n";
  }

 private:
  using Field = std::pair<std::string_view, std::string>;

  void add(std::string_view key, const std::string& value) {
    entries_.push_back(how_.word(key) + ": " + value);
  }

  // Adds a list with one item per line.
  void add_items(std::string_view key, const std::vector<std::string>& items) {
    if (items.empty()) return add(key, "[]");
    if (how_.is_json) {
      return add(key, "[\n    " + joined(items, ",\n    ") + "\n  ]");
    }
    entries_.push_back(how_.word(key) + ":\n  - " + joined(items, "\n  - "));
  }

  template <typename Range, typename Value>
  static std::string list_of(const Range& range, Value value_of) {
    return "[" + joined_of(range, ", ", value_of) + "]";
  }

  template <typename Range, typename Name, typename Value>
  std::string map(const Range& range, Name name_of, Value value_of) const {
    const auto entry_of = [&](const auto& each) {
      return how_.word(std::invoke(name_of, each)) + ": " +
             std::invoke(value_of, each);
    };
    return "{" + joined_of(range, ", ", entry_of) + "}";
  }

  std::string sizes(const std::vector<Axis>& axes) const {
    return map(axes, &Axis::name,
               [](const Axis& axis) { return std::to_string(axis.size); });
  }

  std::string list(const AxisNames& names) const {
    return list_of(names, how_.word);
  }

  std::string entry(const AxisNames& axes) const {
    if (axes.empty()) return "null";
    return axes.size() == 1 ? how_.word(axes.front()) : list(axes);
  }

  const Spelling& how_;
  std::vector<std::string> entries_;
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
  if (input.plan.run_as == RunAs::Hooks) writer.word("run_as", "hooks");
  std::vector<std::string> lines;
  if (why.empty()) {
    const RuleSet& rules = *input.rules;
    lines = header_lines(input, "Partition rules, as given", how.target);
    writer.axes(rules.declared_axes);
    writer.mesh(input.plan.mesh);
    writer.view_axes(rules.view_axes);
    if (rules.architecture_labels) writer.word("labels", "architecture");
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
    writer.patterns("rules", table.entries);
    note_activations(input, how.target, diags);
  }
  note_slices(input, how.target, diags);
  return (how.is_json ? "" : comment_text(lines)) + writer.finish();
}

}  // namespace

const RuleDialect kYamlRules = {"yaml", "rules, mesh and axes in YAML or JSON",
                                recognize_rules, read_yaml_rules};
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
