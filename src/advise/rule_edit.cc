// SPDX-License-Identifier: Apache-2.0
#include "advise/rule_edit.h"

#include <algorithm>
#include <utility>

#include "advise/rule_layout.h"
#include "base/json_text.h"

namespace shardplan {
namespace {

using Edits = std::vector<TextEdit>;

std::string json_text(std::string_view text) {
  std::string result;
  append_json_string(result, text);
  return result;
}

// A plain word that YAML would read as something else than text.
bool is_reserved(std::string_view name) {
  constexpr std::string_view kWords[] = {"null",  "Null",  "NULL",
                                         "true",  "True",  "TRUE",
                                         "false", "False", "FALSE"};
  return std::find(std::begin(kWords), std::end(kWords), name) !=
         std::end(kWords);
}

std::string axis_source(const AxisName& axis, bool quoted) {
  return quoted || is_reserved(axis) ? json_text(axis) : axis;
}

std::string entry_source(const AxisNames& axes, bool quoted) {
  if (axes.empty()) return "null";
  if (axes.size() == 1) return axis_source(axes.front(), quoted);
  std::string text = "[";
  for (size_t i = 0; i < axes.size(); ++i) {
    text += (i > 0 ? ", " : "") + axis_source(axes[i], quoted);
  }
  return text + "]";
}

// In YAML single quotes save doubling backslashes.
std::string pattern_source(std::string_view pattern, bool quoted) {
  const bool plain = pattern.find('\'') == std::string_view::npos;
  if (quoted || !plain || pattern.find('\\') == std::string_view::npos) {
    return json_text(pattern);
  }
  return "'" + std::string(pattern) + "'";
}

// New entries for old ones, one by one; what is behind the shorter of the two
// is cut off or added.
Edits spec_edits(const Rule& rule, const PartitionSpec& spec, bool quoted) {
  const std::string_view text = rule.spec_where.file->text();
  const size_t before = rule.spec.dims.size();
  const size_t after = spec.dims.size();
  const bool flow = text.substr(rule.spec_where.begin, 1) == "[";
  if (before != after && !flow) return {};
  if (before == 0 || after == 0) {
    if (!flow) return {};
    return {{rule.spec_where, spec_source(spec, quoted)}};
  }
  Edits edits;
  for (size_t i = 0; i < std::min(before, after); ++i) {
    if (spec.dims[i] == rule.spec.dims[i]) continue;
    edits.push_back({rule.dim_where[i], entry_source(spec.dims[i], quoted)});
  }
  const uint64_t kept = rule.dim_where[std::min(before, after) - 1].end;
  if (after < before) {
    const Span rest{rule.spec_where.file, kept, rule.dim_where.back().end};
    if (rest.text().find('#') != std::string_view::npos) return {};
    edits.push_back({rest, ""});
  } else if (after > before) {
    std::string more;
    for (size_t i = before; i < after; ++i) {
      more += ", " + entry_source(spec.dims[i], quoted);
    }
    edits.push_back({{rule.spec_where.file, kept, kept}, more});
  }
  return edits;
}

Edits insert_edits(const RuleSet& rules, const RulePlaces& places,
                   const RuleChange& change) {
  const auto count = static_cast<int>(rules.rules.size());
  const auto editable = [&](int number) {
    return number >= 1 && number <= count &&
           is_editable(rules.rules[static_cast<size_t>(number) - 1]);
  };
  const bool in_front = editable(change.rule);
  if (!in_front && !editable(change.rule - 1)) return {};
  const int anchor = in_front ? change.rule : change.rule - 1;
  const Rule& rule = rules.rules[static_cast<size_t>(anchor) - 1];
  const auto item = places.layout_of(rule);
  if (!item) return {};
  std::vector<std::string> sources;
  for (const NewRule& added : change.added) {
    sources.push_back(
        rule_source(added.pattern, added.spec, is_json(*rule.where.file)));
  }
  return {in_front ? insertion_before(*item, sources)
                   : insertion_behind(*item, sources)};
}

Edits move_edits(const RuleSet& rules, const RulePlaces& places,
                 const RuleChange& change) {
  const Rule& rule = rules.rules[static_cast<size_t>(change.rule) - 1];
  const Rule& before = rules.rules[static_cast<size_t>(change.before) - 1];
  if (!is_editable(rule) || !is_editable(before) ||
      rule.where.file != before.where.file) {
    return {};
  }
  const auto item = places.layout_of(rule);
  const auto target = places.layout_of(before);
  if (!item || !target) return {};
  const auto removal = removal_of(*item);
  const auto insertion = copy_before(*target, *item);
  if (!removal || !insertion) return {};
  return {*insertion, *removal};
}

bool is_inside(Span inner, Span outer) {
  return inner.file == outer.file && inner.begin >= outer.begin &&
         inner.end <= outer.end && inner.begin < inner.end;
}

}  // namespace

std::string spec_source(const PartitionSpec& spec, bool quoted) {
  std::string text = "[";
  for (size_t i = 0; i < spec.dims.size(); ++i) {
    text += (i > 0 ? ", " : "") + entry_source(spec.dims[i], quoted);
  }
  return text + "]";
}

std::string rule_source(std::string_view pattern, const PartitionSpec& spec,
                        bool quoted) {
  return "[" + pattern_source(pattern, quoted) + ", " +
         spec_source(spec, quoted) + "]";
}

std::vector<TextEdit> edits_of(const RuleSet& rules, const RuleChange& change) {
  return edits_of(rules, RulePlaces(rules), change);
}

std::vector<TextEdit> edits_of(const RuleSet& rules, const RulePlaces& places,
                               const RuleChange& change) {
  if (change.kind == RuleChange::Kind::Insert) {
    return insert_edits(rules, places, change);
  }
  const Rule& rule = rules.rules[static_cast<size_t>(change.rule) - 1];
  if (!is_editable(rule)) return {};
  const auto item = places.layout_of(rule);
  if (!item) return {};
  Edits edits;
  switch (change.kind) {
    case RuleChange::Kind::SetSpec:
      edits = spec_edits(rule, change.spec, is_json(*rule.where.file));
      break;
    case RuleChange::Kind::SetPattern:
      edits = {{rule.where,
                pattern_source(change.pattern, is_json(*rule.where.file))}};
      break;
    case RuleChange::Kind::Remove:
      if (const auto removal = removal_of(*item)) return {*removal};
      return {};
    default:
      return move_edits(rules, places, change);
  }
  for (const TextEdit& edit : edits) {
    const bool insertion = edit.where.begin == edit.where.end;
    const Span where =
        insertion ? Span{edit.where.file, edit.where.begin - 1, edit.where.end}
                  : edit.where;
    if (!is_inside(where, rule.item_where)) return {};
  }
  return edits;
}

std::string edited(std::string_view text, std::span<const TextEdit> edits) {
  std::string result;
  uint64_t at = 0;
  for (const TextEdit& edit : edits) {
    result += text.substr(at, edit.where.begin - at);
    result += edit.text;
    at = edit.where.end;
  }
  return result.append(text.substr(at));
}

}  // namespace shardplan
