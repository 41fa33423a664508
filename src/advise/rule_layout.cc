// SPDX-License-Identifier: Apache-2.0
#include "advise/rule_layout.h"

#include <algorithm>

#include "advise/rule_change.h"

namespace shardplan {
namespace {

constexpr std::string_view kBlanks = " \t";

uint64_t line_start(std::string_view text, uint64_t at) {
  const size_t found = text.substr(0, at).rfind('\n');
  return found == std::string_view::npos ? 0 : found + 1;
}

// Behind the line end; the size of the text for a last line without one.
uint64_t line_stop(std::string_view text, uint64_t at) {
  const size_t found = text.find('\n', at);
  return found == std::string_view::npos ? text.size() : found + 1;
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(kBlanks) == std::string_view::npos;
}

// Nothing but blanks and a remark.
bool is_idle(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  return begin == std::string_view::npos || (text[begin] == '#' && begin > 0);
}

// "  - " in front of a block item: blanks, a dash, blanks.
bool is_dash(std::string_view head) {
  const size_t dash = head.find_first_not_of(kBlanks);
  return dash != std::string_view::npos && head[dash] == '-' &&
         dash + 1 < head.size() && is_blank(head.substr(dash + 1));
}

// Blanks, one comma, blanks and line ends: what stands between two rules.
bool is_separator(std::string_view text) {
  const size_t comma = text.find(',');
  return comma != std::string_view::npos &&
         text.find_first_not_of(" \t\r\n,") == std::string_view::npos &&
         text.find(',', comma + 1) == std::string_view::npos;
}

// An alias gives two rules one place.
bool is_shared(const RuleSet& rules, const Rule& rule) {
  return std::any_of(
      rules.rules.begin(), rules.rules.end(), [&](const Rule& other) {
        return &other != &rule && other.where.file == rule.where.file &&
               (other.where.begin == rule.where.begin ||
                other.spec_where.begin == rule.spec_where.begin);
      });
}

void find_neighbours(const RuleSet& rules, const Rule& rule,
                     ItemLayout& layout) {
  layout.alone = true;
  for (const Rule& other : rules.rules) {
    if (&other == &rule || other.item_where.file != rule.item_where.file) {
      continue;
    }
    layout.alone = false;
    const Span at = other.item_where;
    if (at.end <= layout.item.begin &&
        (!layout.previous || at.begin > layout.previous->begin)) {
      layout.previous = at;
    }
    if (at.begin >= layout.item.end &&
        (!layout.next || at.begin < layout.next->begin)) {
      layout.next = at;
    }
  }
}

// What follows a comma in front of a flow item: a new line where the item has
// its own.
std::string gap(const ItemLayout& layout) {
  return layout.indent.empty() ? " "
                               : std::string(layout.line_end) + layout.indent;
}

std::string joined(const ItemLayout& item, std::span<const std::string> rules) {
  std::string text;
  for (size_t i = 0; i < rules.size(); ++i) {
    if (item.block) {
      text += item.indent + rules[i] + std::string(item.line_end);
    } else {
      text += (i > 0 ? "," + gap(item) : "") + rules[i];
    }
  }
  return text;
}

}  // namespace

bool is_json(const SourceFile& file) {
  std::string_view text = file.text();
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos &&
         (text[first] == '{' || text[first] == '[');
}

std::optional<ItemLayout> item_layout(const RuleSet& rules, const Rule& rule) {
  if (!is_editable(rule) || is_shared(rules, rule)) return std::nullopt;
  const std::string_view text = rule.item_where.file->text();
  ItemLayout layout;
  layout.item = rule.item_where;
  layout.line_end = text.find("\r\n") == std::string_view::npos ? "\n" : "\r\n";
  find_neighbours(rules, rule, layout);
  const uint64_t begin = line_start(text, layout.item.begin);
  const std::string_view head = text.substr(begin, layout.item.begin - begin);
  layout.block = is_dash(head);
  if (!layout.block) {
    // A flow item on a line of its own keeps its indent; others follow blanks.
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
  if (item.block) {
    const Span at{item.item.file, item.lines.begin, item.lines.begin};
    return {at, joined(item, rules)};
  }
  const Span at{item.item.file, item.item.begin, item.item.begin};
  return {at, joined(item, rules) + "," + gap(item)};
}

TextEdit insertion_behind(const ItemLayout& item,
                          std::span<const std::string> rules) {
  if (!item.block) {
    const Span at{item.item.file, item.item.end, item.item.end};
    return {at, "," + gap(item) + joined(item, rules)};
  }
  const Span at{item.item.file, item.lines.end, item.lines.end};
  std::string text = joined(item, rules);
  // A last line without an end gets one, and passes on having none.
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

}  // namespace shardplan
