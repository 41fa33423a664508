// SPDX-License-Identifier: Apache-2.0
#include "report/table_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "report/json.h"
#include "report/style.h"

namespace shardplan {
namespace {

// Longer lists are cut; --exact and the formats for programs show all items.
constexpr size_t kMaxItems = 8;

std::string exact_text(double value) {
  if (std::isnan(value)) return "undefined";
  if (std::isinf(value)) return value > 0 ? "infinite" : "-infinite";
  std::string text;
  append_json_number(text, value);
  return text;
}

// Small values are shown with an exponent, since 0.000 would read as zero.
std::string ratio_text(double value) {
  const double size = std::abs(value);
  return size != 0 && size < 0.0005 ? fmt::format("{:.1e}", value)
                                    : fmt::format("{:.3f}", value);
}

template <typename Item, typename ItemText>
std::string items_text(const std::vector<Item>& items, const Style& style,
                       ItemText text_of) {
  std::string text;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) text += ", ";
    if (i == kMaxItems && !style.exact) {
      return text + std::string(glyphs(style).ellipsis);
    }
    text += text_of(items[i]);
  }
  return text;
}

std::string integer_text(int64_t number) { return std::to_string(number); }

// std::visit calls it with each kind of cell.
struct CellText {
  const Style& style;

  std::string bytes(double value) const {
    return style.exact ? exact_text(value) : bytes_text(value);
  }
  template <typename TextOf>
  std::string number(double value, TextOf text_of) const {
    return style.exact || !std::isfinite(value) ? exact_text(value)
                                                : text_of(value);
  }

  std::string operator()(std::monostate) const {
    return std::string(glyphs(style).nothing);
  }
  std::string operator()(const std::string& text) const {
    return shown(text, style);
  }
  std::string operator()(const Prose& prose) const {
    return shown(prose.text, style);
  }
  std::string operator()(Count count) const {
    return style.exact ? std::to_string(count.value) : count_text(count.value);
  }
  std::string operator()(ByteSize size) const {
    return style.exact ? std::to_string(size.value) : bytes_text(size.value);
  }
  std::string operator()(MeanBytes mean) const { return bytes(mean.value); }
  std::string operator()(Ratio ratio) const {
    return number(ratio.value, ratio_text);
  }
  std::string operator()(Percent percent) const {
    return number(percent.value, percent_text);
  }
  std::string operator()(Duration seconds) const {
    return number(seconds.value, [&](double value) {
      return seconds_text(value, glyphs(style).micro);
    });
  }
  std::string operator()(YesNo flag) const { return flag.value ? "yes" : "no"; }
  std::string operator()(Bar bar) const {
    return bar_text(bar.fraction, style.width < 80 ? 10 : 30,
                    glyphs(style).block);
  }
  std::string operator()(const Names& names) const {
    return items_text(names.values, style, [&](const std::string& name) {
      return shown(name, style);
    });
  }
  std::string operator()(const Numbers& numbers) const {
    return items_text(numbers.values, style, integer_text);
  }
  std::string operator()(const Dims& dims) const {
    if (dims.shape.empty()) return "scalar";
    const std::string times = " " + std::string(glyphs(style).times) + " ";
    return joined_of(dims.shape, times, integer_text);
  }
  std::string operator()(const PartitionSpec& spec) const {
    return shown(spec_text(spec), style);
  }
  std::string operator()(const MeshCell& cell) const {
    return shown(mesh_text(cell.mesh), style);
  }
  std::string operator()(const ViewsCell& cell) const {
    return shown(joined_of(cell.views, "; ",
                           [](const MeshView& view) {
                             return view.name + ": " + axes_text(view.axes);
                           }),
                 style);
  }
  std::string operator()(const WholePlacementCell& cell) const {
    return shown(cell.axis + " " + std::to_string(cell.rank), style);
  }
  std::string operator()(const MemoryRange& range) const {
    std::string max = (*this)(ByteSize{range.max});
    if (range.min == range.max) return max;
    return "max " + max + ", min " + (*this)(ByteSize{range.min}) + ", mean " +
           bytes(range.mean);
  }
  std::string operator()(const ByteBracket& bracket) const {
    return bracket_text<ByteSize>(bracket);
  }
  std::string operator()(const DurationBracket& bracket) const {
    return bracket_text<Duration>(bracket);
  }

 private:
  template <typename End, typename Bracket>
  std::string bracket_text(const Bracket& bracket) const {
    return (*this)(End{bracket.lower}) + " to " + (*this)(End{bracket.upper}) +
           ", estimate " + (*this)(End{bracket.estimate});
  }
};

// In the order of Tone.
constexpr Paint kPaintOfTone[] = {Paint::Plain, Paint::Good, Paint::Warning,
                                  Paint::Error};

constexpr int kGap = 2;  // blanks between columns, and before titled rows
constexpr int kBelowIndent = 5;  // of a line below its row
constexpr int kLeastBelow = 40;
// An elided name narrower than this is useless.
constexpr int kLeastElastic = 20;
// Wrapped text narrower than this is hard to read.
constexpr int kLeastWrapped = 16;

// Returns whether the column may wrap if its table is too wide: left-aligned
// words that must not be shortened.
bool may_wrap(const Column& column) {
  return column.align == Align::Left && !column.elastic && !column.below;
}

int longest_word(std::string_view text) {
  int longest = 0;
  while (!text.empty()) {
    longest = std::max(longest, display_width(next_part(text, ' ')));
  }
  return longest;
}

// Returns the text of a cell in which an absent value is a blank, not a dash.
std::string text_or_blank(const Cell& cell, const Style& style) {
  if (std::holds_alternative<std::monostate>(cell)) return {};
  return cell_text(cell, style);
}

// The widths of a table's columns.
struct Widths {
  const Table& table;
  const Style& style;
  int indent;
  std::vector<int> width;  // of each column
  std::vector<int> words;  // the longest word of a column that may wrap
  bool has_rows = false;
  bool is_wide = false;  // wider than the terminal unless texts are wrapped

  Widths(const Table& of, const Style& with)
      : table(of),
        style(with),
        indent(of.title.empty() ? 0 : kGap),
        width(of.columns.size()),
        words(of.columns.size()) {
    measure();
    if (!has_rows) return;
    fit();
    is_wide = total() > style.width;
    if (is_wide) wrap();
  }

  // `splits`: the text may be split into words.
  void widen(size_t column, const std::string& text, bool splits) {
    const int needed = display_width(text);
    width[column] = std::max(width[column], needed);
    if (!may_wrap(table.columns[column])) return;
    words[column] =
        std::max(words[column], splits ? longest_word(text) : needed);
  }

  void measure() {
    table.rows([&](std::span<const Cell> row) {
      SHARDPLAN_CHECK(row.size() == width.size());
      has_rows = true;
      for (size_t i = 0; i < row.size(); ++i) {
        if (table.columns[i].below) continue;
        const bool is_text = std::holds_alternative<std::string>(row[i]) ||
                             std::holds_alternative<Prose>(row[i]);
        widen(i, cell_text(row[i], style), is_text);
      }
    });
    for (size_t i = 0; i < width.size(); ++i) {
      if (table.columns[i].below) continue;
      if (table.show_header) {
        widen(i, shown(table.columns[i].title, style), true);
      }
      if (table.footer) {
        widen(i, text_or_blank(table.footer->at(i), style), true);
      }
    }
  }

  int64_t total() const {
    int64_t total = indent - kGap;
    for (const int each : width) {
      if (each > 0) total += each + kGap;
    }
    return total;
  }

  // Sets each width to `width_of` a column and the largest limit for which the
  // table fits; `least` if it fits for none.
  template <typename WidthOf>
  void limit_widths(int least, const WidthOf& width_of) {
    const int widest = *std::ranges::max_element(width);
    const auto fits = [&](int limit) {
      for (size_t i = 0; i < width.size(); ++i) {
        width[i] = width_of(i, limit);
      }
      return total() <= style.width;
    };
    for (int above = std::max(widest, least); above - least > 1;) {
      const int limit = std::midpoint(least, above);
      (fits(limit) ? least : above) = limit;
    }
    fits(least);
  }

  // Limits every elastic column to one common width.
  void fit() {
    if (total() <= style.width) return;
    const std::vector<int> wanted = width;
    limit_widths(kLeastElastic, [&](size_t i, int limit) {
      return table.columns[i].elastic ? std::min(wanted[i], limit) : wanted[i];
    });
    // The first column that can use it gets the remaining width.
    for (size_t i = 0; i < width.size(); ++i) {
      const int64_t spare = std::max<int64_t>(0, style.width - total());
      width[i] =
          static_cast<int>(std::min<int64_t>(wanted[i], width[i] + spare));
    }
  }

  // Limits width that may wrap, the widest first, but never below their
  // longest word.
  void wrap() {
    limit_widths(kLeastWrapped, [this, wanted = width](size_t i, int limit) {
      return may_wrap(table.columns[i])
                 ? std::min(wanted[i], std::max(limit, words[i]))
                 : wanted[i];
    });
  }
};

// Returns the paint of each column of a row: the same.
auto all_in(Paint paint) {
  return [paint](size_t) { return paint; };
}

struct Printer {
  const Table& table;
  const Style& style;
  const Widths& widths;
  Output& out;
  std::vector<std::vector<std::string>> cells = {};  // of a row, in lines

  void print() {
    if (!table.title.empty()) {
      out.buffer() +=
          painted(shown(table.title, style), Paint::Bold, style) + "\n";
    }
    if (table.show_header) {
      line(all_in(Paint::Bold),
           [&](size_t i) { return shown(table.columns[i].title, style); });
    }
    table.rows([&](std::span<const Cell> row) {
      if (out.refused()) return;
      const auto text_of = [&](size_t i) { return cell_text(row[i], style); };
      const auto paint_of = [&](size_t i) {
        const auto tone = table.columns[i].tone;
        return tone != nullptr ? nth(kPaintOfTone, tone(text_of(i)))
                               : Paint::Plain;
      };
      line(paint_of, text_of);
      print_below(row);
    });
    if (table.footer) print_footer(*table.footer);
  }

  // Prints a row of texts; `paint_of` returns the paint of a column.
  template <typename PaintOf, typename TextOf>
  void line(PaintOf paint_of, TextOf text_of) {
    cells.resize(table.columns.size());
    size_t lines = 1;
    for (size_t i = 0; i < cells.size(); ++i) {
      if (widths.width[i] == 0) continue;
      const std::string text = text_of(i);
      if (may_wrap(table.columns[i]) && display_width(text) > widths.width[i]) {
        cells[i] = wrapped_words(text, widths.width[i]);
      } else {
        cells[i].assign(1, elide_middle(text, widths.width[i], style.unicode));
      }
      lines = std::max(lines, cells[i].size());
    }
    for (size_t number = 0; number < lines; ++number) {
      one_line(paint_of, number);
    }
    out.drain();
  }

  template <typename PaintOf>
  void one_line(PaintOf paint_of, size_t number) {
    std::string& buffer = out.buffer();
    int blanks = widths.indent;  // to write before the next text
    for (size_t i = 0; i < cells.size(); ++i) {
      if (widths.width[i] == 0) continue;
      std::string text = number < cells[i].size() ? cells[i][number] : "";
      text.erase(text.find_last_not_of(' ') + 1);
      const int missing = widths.width[i] - display_width(text);
      const bool right = table.columns[i].align == Align::Right;
      if (right) blanks += missing;
      if (!text.empty()) {
        buffer.append(to_size(blanks), ' ');
        buffer += painted(text, paint_of(i), style);
        blanks = 0;
      }
      if (!right) blanks += missing;
      blanks += kGap;
    }
    buffer += '\n';
  }

  void print_below(std::span<const Cell> row) {
    for (size_t i = 0; i < row.size(); ++i) {
      if (!table.columns[i].below) continue;
      std::string text = text_or_blank(row[i], style);
      if (text.empty()) continue;
      if (table.columns[i].below_if_wide) {
        text = table.columns[i].title + " " + text;
      }
      const int blanks = widths.indent + kBelowIndent;
      for (const std::string& line :
           wrapped_words(text, std::max(kLeastBelow, style.width - blanks))) {
        out.buffer() +=
            pad("", blanks) + painted(line, Paint::Dim, style) + "\n";
      }
      out.drain();
    }
  }

  // Prints a rule over each total, then the totals.
  void print_footer(const Row& footer) {
    line(all_in(Paint::Dim), [&](size_t i) {
      std::string rule;
      const bool total = table.columns[i].align == Align::Right;
      const int width =
          total ? display_width(text_or_blank(footer[i], style)) : 0;
      for (int n = 0; n < width; ++n) rule += glyphs(style).rule;
      return rule;
    });
    line(all_in(Paint::Bold),
         [&](size_t i) { return text_or_blank(footer[i], style); });
  }
};

}  // namespace

std::string cell_text(const Cell& cell, const Style& style) {
  return std::visit(CellText{style}, cell);
}

std::vector<std::string> wrapped_words(std::string_view text, int width) {
  std::vector<std::string> lines(1);
  while (!text.empty()) {
    const std::string_view word = next_part(text, ' ');
    const bool starts = lines.back().empty();
    if (!starts &&
        display_width(lines.back()) + 1 + display_width(word) > width) {
      lines.emplace_back(word);
    } else {
      lines.back() += (starts ? "" : " ") + std::string(word);
    }
  }
  return lines;
}

bool print_table(const Table& table, const Style& style, bool apart,
                 Output& out) {
  const auto print = [&](const Table& shown, const Widths& widths) {
    if (!widths.has_rows) return false;
    if (apart) out.buffer() += '\n';
    Printer{shown, style, widths, out}.print();
    return true;
  };
  const Widths widths(table, style);
  if (!widths.is_wide ||
      std::ranges::none_of(table.columns, &Column::below_if_wide)) {
    return print(table, widths);
  }
  Table narrow = table;
  for (Column& column : narrow.columns) {
    column.below = column.below || column.below_if_wide;
  }
  return print(narrow, Widths(narrow, style));
}

}  // namespace shardplan
