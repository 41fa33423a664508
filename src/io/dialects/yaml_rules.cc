// SPDX-License-Identifier: Apache-2.0
// Our own rules files:
//
//   axes: [dp, fsdp, tp, sp]
//   mesh: {fsdp: 8, tp: 4}
//   rules:
//     - ["embed_tokens/embedding", [tp, [fsdp, sp]]]
//     - {pattern: "norm", spec: []}
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "io/dialects/dialects.h"
#include "io/document.h"

namespace shardplan {
namespace {

constexpr std::string_view kRuleForms =
    "a rule is `[pattern, spec]` or `{pattern: .., spec: ..}`";
constexpr int64_t kMaxErrors = 20;

const std::array<std::string, 6>& known_keys() {
  static const std::array<std::string, 6> kKeys = {
      "axes",           "mesh",        "rules", "logical_axis_rules",
      "partition_axis", "activations",
  };
  return kKeys;
}

bool is_later_key(std::string_view key) {
  return key == "logical_axis_rules" || key == "partition_axis" ||
         key == "activations";
}

// A legal axis name; `what` says what it is the name of.
std::optional<std::string> read_axis(const Node& node, Diagnostics& diags) {
  const auto text = require(node, NodeKind::String, "axis", diags);
  if (!text) return std::nullopt;
  const std::string_view name = text->text();
  if (is_axis_name(name)) return std::string(name);
  if (name.substr(0, 5) == "mesh:" || name.substr(0, 8) == "logical:") {
    return diags
        .error(Code::UnsupportedKey, node.span(),
               "`" + printable(name) + "` is not read by this version")
        .help("name the mesh axis alone");
  }
  return diags
      .error(Code::MalformedDocument, node.span(),
             "`" + printable(name) + "` is not an axis name")
      .help(
          "axis names start with a letter or `_` and go on with letters, "
          "digits, `_`, `.` and `-`");
}

// One dimension of a spec: null, an axis, or a list of axes.
std::optional<AxisNames> read_dimension(const Node& node, Diagnostics& diags) {
  if (node.is_null() || (node.is_string() && node.text().empty())) {
    return AxisNames();
  }
  if (!node.is_list()) {
    auto axis = read_axis(node, diags);
    if (!axis) return std::nullopt;
    return AxisNames{*std::move(axis)};
  }
  AxisNames axes;
  for (size_t i = 0; i < node.size(); ++i) {
    const Node item = node.item(i);
    if (item.is_null()) {
      return diags
          .error(Code::MalformedDocument, item.span(),
                 "`null` stands inside a list of axes")
          .help(
              "a list holds the axes of one dimension; an unsharded dimension "
              "is `null` by itself");
    }
    auto axis = read_axis(item, diags);
    if (!axis) return std::nullopt;
    axes.push_back(*std::move(axis));
  }
  return axes;
}

bool read_spec(const Node& node, Rule& rule, Diagnostics& diags) {
  if (!node.is_list()) {
    diags
        .error(
            Code::MalformedDocument, node.span(),
            "a spec must be a list, not " + std::string(kind_name(node.kind())))
        .help(
            "a spec lists null, an axis or a list of axes per dimension; `[]` "
            "replicates");
    return false;
  }
  rule.spec_where = node.span();
  bool good = true;
  for (size_t i = 0; i < node.size(); ++i) {
    auto axes = read_dimension(node.item(i), diags);
    good = good && axes;
    if (!axes) continue;
    rule.spec.dims.push_back(*std::move(axes));
    rule.dim_where.push_back(node.item(i).span());
  }
  return good;
}

std::optional<Rule> read_parts(const Node& pattern, const Node& spec,
                               Diagnostics& diags) {
  Rule rule;
  const auto text = require(pattern, NodeKind::String, "pattern", diags);
  const bool good = read_spec(spec, rule, diags);
  if (!text || !good) return std::nullopt;
  rule.pattern = text->text();
  rule.where = pattern.span();
  return rule;
}

std::optional<Rule> read_rule(const Node& node, Diagnostics& diags) {
  if (node.is_map()) {
    static const std::array<std::string, 2> kParts = {"pattern", "spec"};
    if (!reject_unknown_keys(node, kParts, diags)) return std::nullopt;
    const auto pattern = node.find("pattern");
    const auto spec = node.find("spec");
    if (pattern && spec) return read_parts(*pattern, *spec, diags);
    return diags
        .error(Code::MalformedDocument, node.span(),
               pattern ? "a rule has no `spec`" : "a rule has no `pattern`")
        .help(std::string(kRuleForms));
  }
  if (!node.is_list()) {
    return diags
        .error(Code::MalformedDocument, node.span(),
               "a rule must be a list or a map, not " +
                   std::string(kind_name(node.kind())))
        .help(std::string(kRuleForms));
  }
  if (node.size() == 2) return read_parts(node.item(0), node.item(1), diags);
  return diags
      .error(Code::MalformedDocument, node.span(),
             "a rule has " + plural(static_cast<int64_t>(node.size()), "item") +
                 " instead of 2")
      .help(std::string(kRuleForms));
}

bool read_rules(const Node& node, RuleSet& rules, Diagnostics& diags) {
  if (!require(node, NodeKind::List, "rules", diags)) return false;
  const int64_t errors_before = diags.count(Severity::Error);
  bool good = true;
  for (size_t i = 0; i < node.size(); ++i) {
    auto rule = read_rule(node.item(i), diags);
    good = good && rule;
    if (rule) {
      rule->item_where = node.item(i).span();
      rules.rules.push_back(*std::move(rule));
    }
    const bool enough =
        diags.count(Severity::Error) - errors_before >= kMaxErrors;
    if (!good && enough && i + 1 < node.size()) {
      diags.report(Code::MalformedDocument, Severity::Note,
                   node.item(i + 1).span(),
                   "the rules from here on were not read: too many errors");
      return false;
    }
  }
  return good;
}

bool read_declared_axes(const Node& node, RuleSet& rules, Diagnostics& diags) {
  if (!require(node, NodeKind::List, "axes", diags)) return false;
  bool good = true;
  AxisNames names;
  for (size_t i = 0; i < node.size(); ++i) {
    auto name = read_axis(node.item(i), diags);
    good = good && name;
    if (!name) {
      names.emplace_back();  // keeps places and names in step
      continue;
    }
    const auto first = std::find(names.begin(), names.end(), *name);
    if (first != names.end()) {
      const auto index = static_cast<size_t>(first - names.begin());
      diags
          .error(Code::DuplicateKey, node.item(i).span(),
                 "axis `" + *name + "` is declared twice")
          .label(node.item(index).span(), "first declared here");
      good = false;
    }
    names.push_back(*std::move(name));
  }
  if (!good) return false;
  for (AxisName& name : names) {  // an earlier file may have declared it too
    AxisNames& all = rules.declared_axes;
    if (std::find(all.begin(), all.end(), name) == all.end()) {
      all.push_back(std::move(name));
    }
  }
  return true;
}

using Axes = std::optional<std::vector<AxisRequest>>;

// `mesh: fsdp=8,tp=4`: read as the flag's value would be, with places moved
// into this file.
Axes read_mesh_text(const Node& node, Diagnostics& diags) {
  const SourceFile text("mesh", std::string(node.text()));
  const size_t inside = node.span().text().find(node.text());
  const auto moved = [&](Span span) {
    const Span whole = node.span();
    // Escapes in the text: only the whole of it has a place.
    if (inside == std::string_view::npos) return whole;
    const uint64_t base = whole.begin + inside;
    return Span{whole.file, base + span.begin, base + span.end};
  };
  Diagnostics problems;
  Axes axes = parse_mesh_text(text, problems);
  for (const Diagnostic& problem : problems.all()) {
    auto copy = diags.error(problem.code, {}, problem.message);
    for (const Label& label : problem.labels) {
      copy.label(moved(label.where), label.text);
    }
    for (const std::string& fact : problem.facts) copy.fact(fact);
    for (const std::string& help : problem.help) copy.help(help);
  }
  if (!axes) return std::nullopt;
  for (AxisRequest& axis : *axes) {
    axis.where = moved(axis.where);
    axis.name_where = moved(axis.name_where);
    axis.size_where = moved(axis.size_where);
  }
  return axes;
}

Axes read_mesh(const Node& node, Diagnostics& diags) {
  if (node.is_string()) return read_mesh_text(node, diags);
  if (!require(node, NodeKind::Map, "mesh", diags)) return std::nullopt;
  Axes axes{std::in_place};
  for (size_t i = 0; i < node.size(); ++i) {
    const Node size = node.item(i);
    const std::string name(node.key(i));
    if (!require(size, NodeKind::Integer, name, diags)) return std::nullopt;
    if (!size.integer()) {
      return diags.error(
          Code::InvalidMesh, size.span(),
          "the size of axis `" + printable(name) + "` does not fit 63 bits");
    }
    const Span key = node.key_span(i);
    axes->push_back(
        {name, *size.integer(),
         Span{key.file, key.begin, std::max(key.end, size.span().end)}, key,
         size.span()});
  }
  return axes;
}

bool read_entry(const Node& map, size_t index, RuleSet& rules,
                Diagnostics& diags) {
  const std::string_view key = map.key(index);
  const Node value = map.item(index);
  if (key == "rules") return read_rules(value, rules, diags);
  if (key == "axes") return read_declared_axes(value, rules, diags);
  if (key == "mesh") {
    Axes axes = read_mesh(value, diags);
    if (axes && !rules.mesh) {
      rules.mesh = std::move(axes);
      rules.mesh_where = value.span();
      return true;
    }
    return axes.has_value();
  }
  if (is_later_key(key)) {
    diags.error(Code::UnsupportedKey, map.key_span(index),
                "`" + std::string(key) + "` is not read by this version");
  } else {
    report_unknown_key(key, map.key_span(index), known_keys(), diags);
  }
  return false;
}

bool not_rules(const Node& root, Diagnostics& diags) {
  diags.error(Code::UnrecognizedFormat, root.span(), "this is no rules file")
      .fact("a rules file is a map with the key `rules`, or a list of rules; " +
            std::string(kRuleForms));
  return false;
}

bool read_root(const Node& root, RuleSet& rules, Diagnostics& diags) {
  if (root.is_list()) return read_rules(root, rules, diags);
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
  if (good && !root.find("rules")) {
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
