// SPDX-License-Identifier: Apache-2.0
// Finds the places of rules in their files, and writes changes as edits there.
#include "advise/rule_edit.h"

#include <algorithm>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"

namespace shardplan {
namespace {

constexpr std::string_view kBlanks = " \t";

// Returns the end of the line, past its line end if it has one.
uint64_t line_stop(std::string_view text, uint64_t at) {
  const size_t found = text.find('\n', at);
  return found == std::string_view::npos ? text.size() : found + 1;
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(kBlanks) == std::string_view::npos;
}

// Returns whether the text consists of blanks and at most a comment.
bool is_idle(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  return begin == std::string_view::npos || (text[begin] == '#' && begin > 0);
}

// Returns whether the text is "  - " before a block item: blanks, a dash,
// blanks.
bool is_dash(std::string_view head) {
  const size_t dash = head.find_first_not_of(kBlanks);
  return dash != std::string_view::npos && head[dash] == '-' &&
         dash + 1 < head.size() && is_blank(head.substr(dash + 1));
}

// Returns whether the text consists of blanks, line ends and one comma, as
// between two rules.
bool is_separator(std::string_view text) {
  const size_t comma = text.find(',');
  return comma != std::string_view::npos &&
         text.find_first_not_of(" \t\r\n,") == std::string_view::npos &&
         text.find(',', comma + 1) == std::string_view::npos;
}

// Returns the text after the comma before a flow item: a new line if the item
// is on its own line, else a blank.
std::string gap(const ItemLayout& layout) {
  return layout.indent.empty() ? " "
                               : std::string(layout.line_end) + layout.indent;
}

std::string joined_rules(const ItemLayout& item,
                         std::span<const std::string> rules) {
  if (!item.block) return joined(rules, "," + gap(item));
  std::string text;
  for (const std::string& rule : rules) {
    text += item.indent + rule + std::string(item.line_end);
  }
  return text;
}

// Returns whether there is a rule of that number, and it is editable.
bool is_editable_at(const RuleSet& rules, int number) {
  return number >= 1 && number <= std::ssize(rules.rules) &&
         is_editable(nth(rules.rules, number - 1));
}

using Edits = std::vector<TextEdit>;

std::string json_text(std::string_view text) {
  std::string result;
  append_json_string(result, text);
  return result;
}

// Returns whether YAML would read the plain word as something other than text.
bool is_reserved(std::string_view name) {
  constexpr std::string_view kWords[] = {"null",  "Null",  "NULL",
                                         "true",  "True",  "TRUE",
                                         "false", "False", "FALSE"};
  return contains(kWords, name);
}

std::string axis_source(const AxisName& axis, bool quoted) {
  return quoted || is_reserved(axis) ? json_text(axis) : axis.text();
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

// In YAML, single quotes avoid doubled backslashes.
std::string pattern_source(std::string_view pattern, bool quoted) {
  const bool is_single =
      !quoted && contains(pattern, '\\') && !contains(pattern, '\'');
  return is_single ? "'" + std::string(pattern) + "'" : json_text(pattern);
}

// Replaces entries one by one; the rest of the longer spec is removed or added.
// A spec that is written as the name of a preset is replaced as a whole, unless
// it depends on the size of a dimension, which a list of axes cannot express.
Edits spec_edits(const Rule& rule, const PartitionSpec& spec, bool quoted) {
  if (rule.dim_where.size() != rule.spec.dims.size()) {
    if (rule.decode_dim) return {};
    return {{rule.spec_where, spec_source(spec, quoted)}};
  }
  const std::string_view text = rule.spec_where.file->text();
  const size_t before = rule.spec.dims.size();
  const size_t after = spec.dims.size();
  const bool flow = text.substr(rule.spec_where.begin, 1) == "[";
  if (before != after && !flow) return {};
  if (before == 0 || after == 0) {
    return flow ? Edits{{rule.spec_where, spec_source(spec, quoted)}} : Edits();
  }
  Edits edits;
  for (size_t i = 0; i < std::min(before, after); ++i) {
    if (spec.dims[i] == rule.spec.dims[i]) continue;
    edits.push_back({rule.dim_where[i], entry_source(spec.dims[i], quoted)});
  }
  const uint64_t kept = rule.dim_where[std::min(before, after) - 1].end;
  if (after < before) {
    const Span rest{rule.spec_where.file, kept, rule.dim_where.back().end};
    if (contains(rest.text(), '#')) return {};
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
  const bool in_front = is_editable_at(rules, change.rule);
  const int anchor = in_front ? change.rule : change.rule - 1;
  if (!is_editable_at(rules, anchor)) return {};
  const Rule& rule = nth(rules.rules, anchor - 1);
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

// Returns the edit that copies `item`, as written, to the place before
// `target`.
std::optional<TextEdit> copy_before(const ItemLayout& target,
                                    const ItemLayout& item) {
  if (target.block != item.block) return std::nullopt;
  if (!target.block) {
    const std::string source(item.item.text());
    return insertion_before(target, std::span(&source, 1));
  }
  if (target.indent != item.indent) return std::nullopt;
  const Span at{target.item.file, target.lines.begin, target.lines.begin};
  std::string lines(item.lines.text());
  if (!lines.ends_with('\n')) lines += item.line_end;
  return TextEdit{at, lines};
}

Edits move_edits(const Rule& rule, const ItemLayout& item, const Rule& before,
                 const RulePlaces& places) {
  const auto target = places.layout_of(before);
  if (!target || rule.where.file != before.where.file) return {};
  const auto removal = removal_of(item);
  const auto insertion = copy_before(*target, item);
  if (!removal || !insertion) return {};
  return {*insertion, *removal};
}

}  // namespace

bool is_editable(const Rule& rule) {
  return !rule.shipped && static_cast<bool>(rule.item_where);
}

int insertion_place(const RuleSet& rules, int rule) {
  for (int place = rule; place >= 1; --place) {
    if (is_editable_at(rules, place) || is_editable_at(rules, place - 1)) {
      return place;
    }
  }
  // A file of the user's own may be given before a whole shipped set.
  int first = rule;
  while (first > 1 && first <= std::ssize(rules.rules) &&
         nth(rules.rules, first - 2).shipped &&
         nth(rules.rules, first - 1).form == nullptr) {
    --first;
  }
  return first;
}

bool is_json(const SourceFile& file) {
  std::string_view text = file.text();
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos &&
         (text[first] == '{' || text[first] == '[');
}

RulePlaces::RulePlaces(const RuleSet& rules) {
  for (const Rule& rule : rules.rules) {
    const SourceFile* file = rule.where.file;
    ++patterns_at_[{file, rule.where.begin}];
    ++specs_at_[{file, rule.spec_where.begin}];
    if (!rule.item_where) continue;
    files_[rule.item_where.file].items.push_back(rule.item_where);
  }
  for (auto& [source, file] : files_) {
    std::ranges::sort(file.items, {}, &Span::begin);
    const std::string_view text = source->text();
    file.line_end = !contains(text, "\r\n") ? "\n" : "\r\n";
    file.line_starts = {0};
    for (size_t at = text.find('\n'); at != std::string_view::npos;
         at = text.find('\n', at + 1)) {
      file.line_starts.push_back(at + 1);
    }
  }
}

// Two rules at one place come from an alias.
bool RulePlaces::is_shared(const Rule& rule) const {
  const SourceFile* file = rule.where.file;
  return patterns_at_.at({file, rule.where.begin}) > 1 ||
         specs_at_.at({file, rule.spec_where.begin}) > 1;
}

std::optional<ItemLayout> RulePlaces::layout_of(const Rule& rule) const {
  if (!is_editable(rule) || is_shared(rule)) return std::nullopt;
  const File& file = files_.at(rule.item_where.file);
  const std::string_view text = rule.item_where.file->text();
  ItemLayout layout;
  layout.item = rule.item_where;
  layout.line_end = file.line_end;
  layout.alone = file.items.size() == 1;
  const auto from = [&](uint64_t begin) {
    return std::ranges::lower_bound(file.items, begin, {}, &Span::begin);
  };
  for (auto it = from(layout.item.begin);
       it != file.items.begin() && !layout.previous;) {
    --it;
    if (it->end <= layout.item.begin) layout.previous = *it;
  }
  if (const auto next = from(layout.item.end); next != file.items.end()) {
    layout.next = *next;
  }
  const uint64_t begin =
      *(std::ranges::upper_bound(file.line_starts, layout.item.begin) - 1);
  const std::string_view head = text.substr(begin, layout.item.begin - begin);
  layout.block = is_dash(head);
  if (!layout.block) {
    // A flow item on its own line has an indent; others follow a blank.
    if (is_blank(head)) layout.indent = head;
    return layout;
  }
  const uint64_t end = line_stop(text, layout.item.end);
  if (!is_idle(text.substr(layout.item.end, end - layout.item.end))) {
    return std::nullopt;
  }
  layout.lines = {layout.item.file, begin, end};
  layout.indent = head;
  return layout;
}

TextEdit insertion_before(const ItemLayout& item,
                          std::span<const std::string> rules) {
  const uint64_t begin = item.block ? item.lines.begin : item.item.begin;
  return {{item.item.file, begin, begin},
          joined_rules(item, rules) + (item.block ? "" : "," + gap(item))};
}

TextEdit insertion_behind(const ItemLayout& item,
                          std::span<const std::string> rules) {
  if (!item.block) {
    const Span at{item.item.file, item.item.end, item.item.end};
    return {at, "," + gap(item) + joined_rules(item, rules)};
  }
  const Span at{item.item.file, item.lines.end, item.lines.end};
  std::string text = joined_rules(item, rules);
  // If the last line has no line end, it gets one, and the new last line has
  // none.
  if (!item.lines.text().ends_with('\n')) {
    text.resize(text.size() - item.line_end.size());
    text.insert(0, item.line_end);
  }
  return {at, text};
}

std::optional<TextEdit> removal_of(const ItemLayout& item) {
  if (item.alone) return std::nullopt;
  if (item.block) return TextEdit{item.lines, ""};
  const std::string_view text = item.item.file->text();
  const auto between = [&](uint64_t begin, uint64_t end) {
    return is_separator(text.substr(begin, end - begin));
  };
  if (item.next && between(item.item.end, item.next->begin)) {
    return TextEdit{{item.item.file, item.item.begin, item.next->begin}, ""};
  }
  if (item.previous && between(item.previous->end, item.item.begin)) {
    return TextEdit{{item.item.file, item.previous->end, item.item.end}, ""};
  }
  return std::nullopt;
}

std::string spec_source(const PartitionSpec& spec, bool quoted) {
  const auto source = [&](const AxisNames& axes) {
    return entry_source(axes, quoted);
  };
  return "[" + joined_of(spec.dims, ", ", source) + "]";
}

std::string rule_source(std::string_view pattern, const PartitionSpec& spec,
                        bool quoted) {
  return "[" + pattern_source(pattern, quoted) + ", " +
         spec_source(spec, quoted) + "]";
}

std::vector<TextEdit> edits_of(const RuleSet& rules, const RulePlaces& places,
                               const RuleChange& change) {
  if (change.kind == RuleChange::Kind::Insert) {
    return insert_edits(rules, places, change);
  }
  const Rule& rule = nth(rules.rules, change.rule - 1);
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
      return move_edits(rule, *item, nth(rules.rules, change.before - 1),
                        places);
  }
  const Span& outer = rule.item_where;
  const bool are_inside = std::ranges::all_of(edits, [&](const TextEdit& edit) {
    const auto& [file, begin, end] = edit.where;
    // An insertion must follow some text of the rule.
    const uint64_t first = begin == end ? begin - 1 : begin;
    return file == outer.file && first >= outer.begin && end <= outer.end &&
           first < end;
  });
  return are_inside ? edits : Edits();
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
