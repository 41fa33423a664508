// SPDX-License-Identifier: Apache-2.0
#include "io/spec_node.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "base/words.h"

namespace shardplan {
namespace {

// Reads a node that is `name`, or that with a prefix.
std::optional<AxisName> read_name(const Node& node, std::string_view name,
                                  Diagnostics& diags) {
  if (!require(node, NodeKind::String, "axis", diags)) return std::nullopt;
  if (is_axis_name(name)) return node.text();
  return diags
      .error(Code::MalformedDocument, node.span(),
             in_backticks(node.text()) + " is not an axis name")
      .help(
          "axis names start with a letter or `_`, followed by letters, digits, "
          "`_`, `.` and `-`");
}

// Reads a name in a spec, with or without a prefix `mesh:` or `logical:`.
std::optional<AxisName> read_spec_name(const Node& node, Diagnostics& diags) {
  std::string_view bare = node.text();
  for (const std::string_view prefix : {"mesh:", "logical:"}) {
    if (!bare.starts_with(prefix)) continue;
    bare.remove_prefix(prefix.size());
    break;
  }
  return read_name(node, bare, diags);
}

bool read_spec(const Node& node, Rule& rule, Diagnostics& diags) {
  rule.spec_where = node.span();
  if (!node.is_list()) {
    const auto* const preset =
        node.is_string() ? find_sharding_preset(node.text()) : nullptr;
    if (preset != nullptr) {
      rule.spec = preset_spec(*preset);
      rule.decode_dim = preset->decode_dim;
      return true;
    }
    auto report = diags.error(
        Code::MalformedDocument, node.span(),
        node.is_string()
            ? in_backticks(node.text()) + " is neither a list nor a preset"
            : "a spec must be a list, not " +
                  std::string(kind_name(node.kind())));
    if (node.is_string()) {
      suggest(report, node.text(), all_names(sharding_presets()));
    }
    report.help(
        "write null, an axis or a list of axes per dimension; `[]` replicates");
    return false;
  }
  bool good = true;
  for (size_t i = 0; i < node.size(); ++i) {
    auto axes = read_axes_node(node.item(i), diags, read_spec_name);
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

// Reads `align`, `decode_dim`, `view` and `deal`.
bool read_extras(const Node& node, Rule& rule, Diagnostics& diags) {
  if (const auto view = node.find("view")) {
    if (!require(*view, NodeKind::String, "view", diags)) return false;
    rule.view = view->text();
    rule.inactive = true;
  }
  if (const auto deal = node.find("deal")) {
    auto axis = read_spec_name(*deal, diags);
    if (!axis) return false;
    rule.deal = *std::move(axis);
  }
  if (const auto align = node.find("align")) {
    const std::string_view side = align->is_string() ? align->text() : "";
    if (side != "first" && side != "last") {
      diags
          .error(Code::MalformedDocument, align->span(),
                 "`align` must be `first` or `last`")
          .help("`last` aligns the spec with the last dimensions");
      return false;
    }
    rule.from_last = side == "last";
  }
  if (const auto dim = node.find("decode_dim")) {
    constexpr int64_t kMax = 64;
    const auto number = dim->integer();
    if (!number || *number < -kMax || *number > kMax) {
      diags.error(Code::MalformedDocument, dim->span(),
                  "`decode_dim` must be a dimension index");
      return false;
    }
    rule.decode_dim = static_cast<int>(*number);
  }
  return true;
}

std::optional<Rule> read_map(const Node& node, Diagnostics& diags) {
  static const std::array<std::string, 6> kParts = {
      "pattern", "spec", "align", "decode_dim", "view", "deal"};
  if (!reject_unknown_keys(node, kParts, diags)) return std::nullopt;
  const auto pattern = node.find("pattern");
  const auto spec = node.find("spec");
  if (pattern && spec) {
    auto rule = read_parts(*pattern, *spec, diags);
    if (!rule || !read_extras(node, *rule, diags)) return std::nullopt;
    return rule;
  }
  return diags
      .error(Code::MalformedDocument, node.span(),
             pattern ? "a rule has no `spec`" : "a rule has no `pattern`")
      .help(std::string(kRuleForms));
}

// Rewrites "P((fsdp, sp), None)" as a list of a document: "[[fsdp, sp], null]".
std::optional<std::string> list_of_spec(std::string_view spec) {
  for (const std::string_view name : {"PartitionSpec", "PS", "P"}) {
    if (!spec.starts_with(name)) continue;
    spec.remove_prefix(name.size());
    break;
  }
  if (spec.empty() || !contains("([", spec.front()) ||
      !contains(")]", spec.back())) {
    return std::nullopt;
  }
  std::string list;
  while (!spec.empty()) {
    if (spec.starts_with("None")) {
      list += "null";
      spec.remove_prefix(4);
      continue;
    }
    const char c = spec.front();
    list += c == '(' ? '[' : c == ')' ? ']' : c;
    spec.remove_prefix(1);
  }
  return list;
}

using Axes = std::optional<std::vector<AxisRequest>>;

// Reads the mesh like the flag's value, and moves spans into this file.
Axes read_mesh_text(const Node& node, Diagnostics& diags) {
  const SourceFile text("mesh", std::string(node.text()));
  const size_t inside = node.span().text().find(node.text());
  const auto moved = [&](Span span) {
    const Span whole = node.span();
    // The string has escapes, so only the whole string has a position.
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

// Reads one entry of a map: the axis is the key, the size the value.
std::optional<AxisRequest> read_axis_size(const Node& map, size_t index,
                                          Diagnostics& diags) {
  const Node size = map.item(index);
  const std::string name(map.key(index));
  if (!require(size, NodeKind::Integer, name, diags)) return std::nullopt;
  if (!size.integer()) {
    return diags.error(
        Code::InvalidMesh, size.span(),
        "the size of axis " + in_backticks(name) + " does not fit in 63 bits");
  }
  const Span key = map.key_span(index);
  return AxisRequest{
      name, *size.integer(),
      Span{key.file, key.begin, std::max(key.end, size.span().end)}, key,
      size.span()};
}

constexpr std::string_view kLogicalForm =
    "write a logical axis rule as `[name, axes]`; axes are null, an axis or a "
    "list of axes";

bool read_logical_parts(const Node& name, const Node& axes, LogicalRule& rule,
                        Diagnostics& diags) {
  if (!name.is_null()) {
    if (!require(name, NodeKind::String, "logical axis", diags)) return false;
    rule.name = std::string(name.text());
  }
  auto read = read_axes_node(axes, diags);
  if (!read) return false;
  rule.axes = *std::move(read);
  rule.where = name.span();
  rule.axes_where = axes.span();
  return true;
}

// Reads `{name: .., axes: .., view: .., deal: true}`.
bool read_logical_map(const Node& node, LogicalRule& rule, Diagnostics& diags) {
  static const std::array<std::string, 4> kParts = {"name", "axes", "view",
                                                    "deal"};
  if (!reject_unknown_keys(node, kParts, diags)) return false;
  const auto name = node.find("name");
  const auto axes = node.find("axes");
  if (!name || !axes) {
    diags
        .error(Code::MalformedDocument, node.span(),
               name ? "a logical axis rule has no `axes`"
                    : "a logical axis rule has no `name`")
        .help(std::string(kLogicalForm));
    return false;
  }
  if (!read_logical_parts(*name, *axes, rule, diags)) return false;
  if (const auto view = node.find("view")) {
    if (!require(*view, NodeKind::String, "view", diags)) return false;
    rule.view = view->text();
    rule.inactive = true;
  }
  if (const auto deal = node.find("deal")) {
    if (!require(*deal, NodeKind::Bool, "deal", diags)) return false;
    rule.deal = deal->boolean().value_or(false);
    if (rule.deal && rule.axes.size() != 1) {
      diags
          .error(Code::MalformedDocument, axes->span(),
                 "whole experts are placed over one axis, not " +
                     std::to_string(rule.axes.size()))
          .help("write `{name: experts, axes: ep, view: experts, deal: true}`");
      return false;
    }
  }
  return true;
}

bool read_logical_rule(const Node& node, RuleSet& rules, Diagnostics& diags) {
  if (!node.is_map() && (!node.is_list() || node.size() != 2)) {
    diags
        .error(Code::MalformedDocument, node.span(),
               node.is_list()
                   ? "a logical axis rule has " +
                         plural(std::ssize(node), "item") + " instead of 2"
                   : "a logical axis rule must be a list, not " +
                         std::string(kind_name(node.kind())))
        .help(std::string(kLogicalForm));
    return false;
  }
  LogicalRule rule;
  const bool good =
      node.is_map()
          ? read_logical_map(node, rule, diags)
          : read_logical_parts(node.item(0), node.item(1), rule, diags);
  if (good) rules.logical_rules.push_back(std::move(rule));
  return good;
}

bool is_parameter(const RecordedSharding& sharding) {
  return state_part(sharding.name) == StatePart::Parameter;
}

}  // namespace

std::optional<AxisName> read_axis_node(const Node& node, Diagnostics& diags) {
  return read_name(node, node.text(), diags);
}

std::optional<AxisNames> read_axes_node(
    const Node& node, Diagnostics& diags,
    std::optional<AxisName> (*read)(const Node&, Diagnostics&)) {
  if (node.is_null() || (node.is_string() && node.text().empty())) {
    return AxisNames();
  }
  if (!node.is_list()) {
    auto axis = read(node, diags);
    if (!axis) return std::nullopt;
    return AxisNames{*std::move(axis)};
  }
  AxisNames axes;
  for (size_t i = 0; i < node.size(); ++i) {
    const Node item = node.item(i);
    if (item.is_null()) {
      return diags
          .error(Code::MalformedDocument, item.span(),
                 "`null` is inside a list of axes")
          .help(
              "a list holds the axes of one dimension; an unsharded dimension "
              "is `null` by itself");
    }
    auto axis = read(item, diags);
    if (!axis) return std::nullopt;
    axes.push_back(*std::move(axis));
  }
  return axes;
}

std::optional<PartitionSpec> read_spec_node(const Node& node,
                                            Diagnostics& diags) {
  Rule rule;
  if (!read_spec(node, rule, diags)) return std::nullopt;
  return std::move(rule.spec);
}

std::optional<PartitionSpec> read_spec_text(const std::string& source,
                                            std::string_view text) {
  const auto list = list_of_spec(text);
  if (!list) return std::nullopt;
  Diagnostics quiet;
  const auto document =
      parse_document(std::make_shared<SourceFile>(source, *list), quiet);
  return document ? read_spec_node(document->root(), quiet) : std::nullopt;
}

std::optional<Rule> read_rule_node(const Node& node, Diagnostics& diags) {
  if (!node.is_map() && (!node.is_list() || node.size() != 2)) {
    return diags
        .error(Code::MalformedDocument, node.span(),
               node.is_list()
                   ? "a rule has " + plural(std::ssize(node), "item") +
                         " instead of 2"
                   : "a rule must be a list or a map, not " +
                         std::string(kind_name(node.kind())))
        .help(std::string(kRuleForms));
  }
  auto rule = node.is_map() ? read_map(node, diags)
                            : read_parts(node.item(0), node.item(1), diags);
  if (rule) rule->item_where = node.span();
  return rule;
}

PartitionSpec preset_spec(const ShardingPreset& preset) {
  PartitionSpec spec;
  for (const SemanticEntry& entry : preset.entries) {
    const bool is_none = entry.tokens == std::vector<std::string>{"_"};
    AxisNames& axes = spec.dims.emplace_back();
    if (!is_none) axes.assign(entry.tokens.begin(), entry.tokens.end());
  }
  return spec;
}

bool read_all(const Node& list, std::string_view what, Diagnostics& diags,
              bool (*read)(const Node&, RuleSet&, Diagnostics&),
              RuleSet& rules) {
  if (!require(list, NodeKind::List, what, diags)) return false;
  const int64_t errors_before = diags.count(Severity::Error);
  bool good = true;
  for (size_t i = 0; i < list.size(); ++i) {
    good = read(list.item(i), rules, diags) && good;
    const bool enough =
        diags.count(Severity::Error) - errors_before >= kMaxErrors;
    if (!good && enough && i + 1 < list.size()) {
      diags.report(Code::MalformedDocument, Severity::Note,
                   list.item(i + 1).span(),
                   "the " + std::string(what) +
                       " from here on were not read: too many errors");
      return false;
    }
  }
  return good;
}

Axes read_mesh_node(const Node& node, Diagnostics& diags) {
  if (node.is_string()) return read_mesh_text(node, diags);
  if (!require(node, NodeKind::Map, "mesh", diags)) return std::nullopt;
  Axes axes{std::in_place};
  for (size_t i = 0; i < node.size(); ++i) {
    auto axis = read_axis_size(node, i, diags);
    if (!axis) return std::nullopt;
    axes->push_back(*std::move(axis));
  }
  return axes;
}

bool read_logical_rules(const Node& node, RuleSet& rules, Diagnostics& diags) {
  return read_all(node, "logical_axis_rules", diags, read_logical_rule, rules);
}

bool read_axis_mapping(const Node& node, RuleSet& rules, Diagnostics& diags) {
  if (!require(node, NodeKind::Map, "axis mapping", diags)) return false;
  bool good = true;
  for (size_t i = 0; i < node.size(); ++i) {
    auto axes = read_axes_node(node.item(i), diags);
    good = good && axes;
    if (!axes) continue;
    rules.logical_rules.push_back({std::string(node.key(i)), *std::move(axes),
                                   node.key_span(i), node.item(i).span()});
  }
  return good;
}

bool read_partition_axis(const Node& node, RuleSet& rules, Diagnostics& diags) {
  if (!require(node, NodeKind::Map, "partition_axis", diags)) return false;
  PartitionAxis axis = default_partition_axis();
  bool good = reject_unknown_keys(node, all_names(partition_fields()), diags);
  for (size_t i = 0; i < node.size(); ++i) {
    const auto field = find_partition_field(node.key(i));
    auto axes = read_axes_node(node.item(i), diags);
    good = good && axes && field;
    if (!good) continue;
    axis.at(*field) = AxisValue{*std::move(axes), node.item(i).is_list()};
  }
  if (!good) return false;
  rules.partition_axis = resolve_partition_axis(axis, diags);
  rules.partition_axis_where = node.span();
  return rules.partition_axis.has_value();
}

bool same_axes(const std::vector<AxisRequest>& a,
               const std::vector<AxisRequest>& b) {
  return std::ranges::equal(a, b,
                            [](const AxisRequest& x, const AxisRequest& y) {
                              return x.name == y.name && x.size == y.size;
                            });
}

std::string axes_text(const std::vector<AxisRequest>& mesh) {
  return joined_of(mesh, ",", [](const AxisRequest& axis) {
    return axis.name + "=" + std::to_string(axis.size);
  });
}

RecordedMesh common_mesh(const std::vector<RecordedSharding>& shardings,
                         Diagnostics& diags) {
  RecordedMesh mesh;
  const RecordedSharding* other = nullptr;
  int64_t others = 0;
  for (const RecordedSharding& sharding : shardings) {
    if (sharding.mesh.empty()) continue;
    if (mesh.axes.empty()) {
      mesh = {sharding.mesh, sharding.mesh_where};
    } else if (!same_axes(sharding.mesh, mesh.axes) && others++ == 0) {
      other = &sharding;
    }
  }
  if (other == nullptr) return mesh;
  diags
      .report(Code::InvalidMesh, Severity::Warning, other->mesh_where,
              plural(others, "array") +
                  " recorded on a different mesh than the first")
      .label(mesh.where, "this mesh is used")
      .fact(in_backticks(other->name) + " is on " + axes_text(other->mesh))
      .fact("the first array is on " + axes_text(mesh.axes));
  return mesh;
}

std::string recorded_pattern(std::string_view name) {
  constexpr std::string_view kBox = "/value";
  const bool boxed = name.size() > kBox.size() &&
                     (name.ends_with(kBox) || name.ends_with(".value"));
  if (boxed) name.remove_suffix(kBox.size());
  std::string pattern = "^";
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find_first_of("./", begin), name.size());
    if (begin > 0) pattern += "[./]";
    pattern += escape_pattern(name.substr(begin, end - begin));
    begin = end + 1;
  }
  return pattern + (boxed ? "([./]value)?$" : "$");
}

void add_recorded_rules(const std::vector<RecordedSharding>& shardings,
                        RuleSet& rules, Diagnostics& diags) {
  const bool any = std::ranges::any_of(shardings, is_parameter);
  int64_t left_out = 0;
  Span first;
  for (const RecordedSharding& sharding : shardings) {
    if (any && !is_parameter(sharding)) {
      if (left_out++ == 0) first = sharding.where;
      continue;
    }
    Rule rule;
    rule.pattern = recorded_pattern(sharding.name);
    rule.spec = sharding.spec;
    rule.where = sharding.where;
    rule.spec_where = sharding.spec_where;
    rule.dim_where.assign(rule.spec.dims.size(), sharding.spec_where);
    rules.rules.push_back(std::move(rule));
  }
  if (left_out == 0) return;
  diags
      .report(Code::UnsupportedKey, Severity::Note, first,
              plural(left_out, "sharding") +
                  " of optimizer state and counters left out")
      .fact(
          "rules place parameters; optimizer moments follow their parameters");
}

StatePart state_part(std::string_view name) {
  const std::string_view first = name.substr(0, name.find_first_of("./"));
  if (first == "opt_state" || first == "opt_states" || first == "optimizer") {
    return StatePart::Optimizer;
  }
  if (first == "step" || first == "rng") return StatePart::Counter;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t cut = std::min(name.find_first_of("./", begin), name.size());
    if (name.substr(begin, cut - begin) == "rngs") return StatePart::Counter;
    begin = cut + 1;
  }
  return StatePart::Parameter;
}

bool check_axis_counts(const RuleSet& rules, Diagnostics& diags) {
  const auto refuse = [&](Span where, int64_t count, const std::string& who,
                          int64_t most) {
    diags
        .error(Code::MalformedDocument, where,
               who + " " + plural(count, "axis") + "; at most " +
                   count_text(most) + " are allowed")
        .help("remove axes that the mesh does not have");
    return false;
  };
  const auto fits = [&](const Rule& rule) {
    for (size_t dim = 0; dim < rule.spec.dims.size(); ++dim) {
      const int64_t count = std::ssize(rule.spec.dims[dim]);
      if (count <= kMaxAxesPerDim) continue;
      return refuse(
          dim < rule.dim_where.size() ? rule.dim_where[dim] : rule.spec_where,
          count, "a dimension of this spec lists", kMaxAxesPerDim);
    }
    return true;
  };
  if (std::ssize(rules.declared_axes) > kMaxDeclaredAxes) {
    return refuse({rules.sources.empty() ? nullptr : rules.sources[0].get()},
                  std::ssize(rules.declared_axes), "these rules declare",
                  kMaxDeclaredAxes);
  }
  return std::ranges::all_of(rules.rules, fits) &&
         std::ranges::all_of(rules.activations, fits) &&
         std::ranges::all_of(rules.logical_rules, [&](const LogicalRule& rule) {
           return std::ssize(rule.axes) <= kMaxAxesPerDim ||
                  refuse(rule.axes_where, std::ssize(rule.axes),
                         "this logical axis rule lists", kMaxAxesPerDim);
         });
}

}  // namespace shardplan
