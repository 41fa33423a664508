// SPDX-License-Identifier: Apache-2.0
#include "advise/rule_layout.h"

#include <algorithm>

#include "advise/rule_change.h"

namespace shardplan {
namespace {

constexpr std::string_view kBlanks = " \t";

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

RulePlaces::RulePlaces(const RuleSet& rules) {
  for (const Rule& rule : rules.rules) {
    const SourceFile* file = rule.where.file;
    ++patterns_at_[{file, rule.where.begin}];
    ++specs_at_[{file, rule.spec_where.begin}];
    if (rule.item_where) {
      files_[rule.item_where.file].items.push_back(rule.item_where);
    }
  }
  for (auto& [source, file] : files_) {
    std::sort(file.items.begin(), file.items.end(),
              [](const Span& a, const Span& b) { return a.begin < b.begin; });
    const std::string_view text = source->text();
    file.line_end = text.find("\r\n") == std::string_view::npos ? "\n" : "\r\n";
    file.line_starts = {0};
    for (size_t at = text.find('\n'); at != std::string_view::npos;
         at = text.find('\n', at + 1)) {
      file.line_starts.push_back(at + 1);
    }
  }
}

// An alias gives two rules one place.
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
    return std::lower_bound(
        file.items.begin(), file.items.end(), begin,
        [](const Span& item, uint64_t at) { return item.begin < at; });
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
      *(std::upper_bound(file.line_starts.begin(), file.line_starts.end(),
                         layout.item.begin) -
        1);
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
