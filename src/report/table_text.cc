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
  append_json_double(text, value);
  return text;
}

// Small values are shown with an exponent, since 0.000 would read as zero.
std::string ratio_text(double value) {
  const double size = std::abs(value);
  if (!std::isfinite(value)) return exact_text(value);
  if (size != 0 && size < 0.0005) {
    return fmt::format("{:.1e}", value);
  }
  return fmt::format("{:.3f}", value);
}

std::string bar_text(double fraction, const Style& style) {
  if (!(fraction > 0)) return {};
  const int longest = style.width < 80 ? 10 : 30;
  const int length = std::max(
      1, static_cast<int>(std::lround(std::min(fraction, 1.0) * longest)));
  std::string bar;
  for (int i = 0; i < length; ++i) bar += glyphs(style).block;
  return bar;
}

template <typename Item, typename ItemText>
std::string joined(const std::vector<Item>& items, std::string_view between,
                   size_t most, const Style& style, ItemText text_of) {
  std::string text;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) text += between;
    if (i == most) return text + std::string(glyphs(style).ellipsis);
    text += text_of(items[i]);
  }
  return text;
}

// std::visit calls it with each kind of cell.
struct CellText {
  const Style& style;

  std::string bytes(double value) const {
    return style.exact ? exact_text(value) : bytes_text(value);
  }
  size_t most() const { return style.exact ? SIZE_MAX : kMaxItems; }

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
    return style.exact ? exact_text(ratio.value) : ratio_text(ratio.value);
  }
  std::string operator()(Percent percent) const {
    return style.exact || !std::isfinite(percent.value)
               ? exact_text(percent.value)
               : percent_text(percent.value);
  }
  std::string operator()(Duration seconds) const {
    return style.exact || !std::isfinite(seconds.value)
               ? exact_text(seconds.value)
               : seconds_text(seconds.value, glyphs(style).micro);
  }
  std::string operator()(YesNo flag) const { return flag.value ? "yes" : "no"; }
  std::string operator()(Bar bar) const {
    return bar_text(bar.fraction, style);
  }
  std::string operator()(const Names& names) const {
    return joined(names.values, ", ", most(), style,
                  [&](const std::string& name) { return shown(name, style); });
  }
  std::string operator()(const Numbers& numbers) const {
    return joined(numbers.values, ", ", most(), style,
                  [](int64_t number) { return std::to_string(number); });
  }
  std::string operator()(const Dims& dims) const {
    if (dims.shape.empty()) return "scalar";
    const std::string times = " " + std::string(glyphs(style).times) + " ";
    return joined(dims.shape, times, SIZE_MAX, style,
                  [](int64_t size) { return std::to_string(size); });
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
    return (*this)(ByteSize{bracket.lower}) + " to " +
           (*this)(ByteSize{bracket.upper}) + ", estimate " +
           (*this)(ByteSize{bracket.estimate});
  }
  std::string operator()(const DurationBracket& bracket) const {
    return (*this)(Duration{bracket.lower}) + " to " +
           (*this)(Duration{bracket.upper}) + ", estimate " +
           (*this)(Duration{bracket.estimate});
  }
};

}  // namespace

std::string cell_text(const Cell& cell, const Style& style) {
  return std::visit(CellText{style}, cell);
}

namespace {

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

// Wraps at blanks into lines of at most `width` columns; a longer word has its
// own line.
std::vector<std::string> wrapped_words(std::string_view text, int width) {
  std::vector<std::string> lines(1);
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
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

int longest_word(std::string_view text) {
  int longest = 0;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    longest = std::max(longest, display_width(word));
  }
  return longest;
}

// Returns the text of a footer's cell, in which an absent value is a blank, not
// a dash.
std::string footer_text(const Cell& cell, const Style& style) {
  if (std::holds_alternative<std::monostate>(cell)) return {};
  return cell_text(cell, style);
}

class Widths {
 public:
  Widths(const Table& table, const Style& style)
      : table_(table),
        style_(style),
        indent_(table.title.empty() ? 0 : kGap),
        widths_(table.columns.size()),
        words_(table.columns.size()) {
    measure();
    if (!has_rows_) return;
    fit();
    is_wide_ = total() > style_.width;
    if (is_wide_) wrap();
  }

  bool has_rows() const { return has_rows_; }
  // Whether rows are wider than the terminal unless texts are wrapped.
  bool is_wide() const { return is_wide_; }
  int indent() const { return indent_; }
  int operator[](size_t column) const { return widths_[column]; }

 private:
  // Values other than texts are not split.
  void widen(size_t column, const Cell& cell) {
    const bool is_text = std::holds_alternative<std::string>(cell) ||
                         std::holds_alternative<Prose>(cell);
    const std::string text = cell_text(cell, style_);
    widen(column, text);
    if (!is_text) {
      words_[column] = std::max(words_[column], display_width(text));
    }
  }

  void widen(size_t column, const std::string& text) {
    widths_[column] = std::max(widths_[column], display_width(text));
    if (may_wrap(table_.columns[column])) {
      words_[column] = std::max(words_[column], longest_word(text));
    }
  }

  void measure() {
    table_.rows([&](std::span<const Cell> row) {
      SHARDPLAN_CHECK(row.size() == widths_.size());
      has_rows_ = true;
      for (size_t i = 0; i < row.size(); ++i) {
        if (!table_.columns[i].below) widen(i, row[i]);
      }
    });
    for (size_t i = 0; i < widths_.size(); ++i) {
      if (table_.columns[i].below) continue;
      if (table_.show_header) widen(i, shown(table_.columns[i].title, style_));
      if (table_.footer) widen(i, footer_text(table_.footer->at(i), style_));
    }
  }

  int64_t total() const {
    int64_t total = indent_ - kGap;
    for (const int width : widths_) {
      if (width > 0) total += width + kGap;
    }
    return total;
  }

  // Limits every elastic column to one common width. Returns whether the table
  // then fits.
  bool limit_to(const std::vector<int>& wanted, int limit) {
    for (size_t i = 0; i < widths_.size(); ++i) {
      if (table_.columns[i].elastic) widths_[i] = std::min(wanted[i], limit);
    }
    return total() <= style_.width;
  }

  void fit() {
    const std::vector<int> wanted = widths_;
    const int widest = *std::ranges::max_element(wanted);
    if (limit_to(wanted, widest)) return;
    int fits = kLeastElastic;  // or the best possible
    for (int above = std::max(widest, fits); above - fits > 1;) {
      const int limit = std::midpoint(fits, above);
      (limit_to(wanted, limit) ? fits : above) = limit;
    }
    limit_to(wanted, fits);
    // The first column that can use it gets the remaining width.
    for (size_t i = 0; i < widths_.size(); ++i) {
      const int64_t spare = std::max<int64_t>(0, style_.width - total());
      widths_[i] =
          static_cast<int>(std::min<int64_t>(wanted[i], widths_[i] + spare));
    }
  }

  // Limits columns that may wrap, the widest first, but never below their
  // longest word.
  void wrap() {
    const std::vector<int> wanted = widths_;
    const auto limit_to = [&](int limit) {
      for (size_t i = 0; i < widths_.size(); ++i) {
        if (!may_wrap(table_.columns[i])) continue;
        widths_[i] = std::min(wanted[i], std::max(limit, words_[i]));
      }
      return total() <= style_.width;
    };
    int fits = kLeastWrapped;  // or the best possible
    const int widest = *std::ranges::max_element(wanted);
    for (int above = std::max(widest, fits); above - fits > 1;) {
      const int limit = std::midpoint(fits, above);
      (limit_to(limit) ? fits : above) = limit;
    }
    limit_to(fits);
  }

  const Table& table_;
  const Style& style_;
  int indent_;
  std::vector<int> widths_;
  std::vector<int> words_;  // the longest word of a column that may wrap
  bool has_rows_ = false;
  bool is_wide_ = false;
};

class Printer {
 public:
  Printer(const Table& table, const Style& style, const Widths& widths,
          Output& out)
      : table_(table), style_(style), widths_(widths), out_(out) {}

  void print() {
    if (!table_.title.empty()) {
      out_.buffer() +=
          painted(shown(table_.title, style_), Paint::Bold, style_) + "\n";
    }
    if (table_.show_header) {
      line(Paint::Bold,
           [&](size_t i) { return shown(table_.columns[i].title, style_); });
    }
    table_.rows([&](std::span<const Cell> row) {
      if (out_.refused()) return;
      set_paints(row);
      line(Paint::Plain, [&](size_t i) { return cell_text(row[i], style_); });
      paints_.clear();
      print_below(row);
    });
    if (table_.footer) print_footer(*table_.footer);
  }

 private:
  void set_paints(std::span<const Cell> row) {
    if (!style_.colour) return;
    paints_.assign(row.size(), Paint::Plain);
    for (size_t i = 0; i < row.size(); ++i) {
      if (table_.columns[i].tone == nullptr) continue;
      paints_[i] = paint_of(table_.columns[i].tone(cell_text(row[i], style_)));
    }
  }
  static Paint paint_of(Tone tone) {
    switch (tone) {
      case Tone::Good:
        return Paint::Good;
      case Tone::Doubtful:
        return Paint::Warning;
      case Tone::Bad:
        return Paint::Error;
      case Tone::Plain:
        break;
    }
    return Paint::Plain;
  }

  template <typename TextOf>
  void line(Paint paint, TextOf text_of) {
    cells_.resize(table_.columns.size());
    size_t lines = 1;
    for (size_t i = 0; i < cells_.size(); ++i) {
      if (widths_[i] == 0) continue;
      const std::string text = text_of(i);
      if (may_wrap(table_.columns[i]) && display_width(text) > widths_[i]) {
        cells_[i] = wrapped_words(text, widths_[i]);
      } else {
        cells_[i].assign(1, elide_middle(text, widths_[i], style_.unicode));
      }
      lines = std::max(lines, cells_[i].size());
    }
    for (size_t number = 0; number < lines; ++number) one_line(paint, number);
    out_.drain();
  }

  void one_line(Paint paint, size_t number) {
    std::string& out = out_.buffer();
    int blanks = widths_.indent();  // to write before the next text
    for (size_t i = 0; i < cells_.size(); ++i) {
      if (widths_[i] == 0) continue;
      std::string text = number < cells_[i].size() ? cells_[i][number] : "";
      text.erase(text.find_last_not_of(' ') + 1);
      const int missing = widths_[i] - display_width(text);
      const bool right = table_.columns[i].align == Align::Right;
      if (right) blanks += missing;
      if (!text.empty()) {
        out.append(static_cast<size_t>(blanks), ' ');
        out += painted(text, paints_.empty() ? paint : paints_[i], style_);
        blanks = 0;
      }
      if (!right) blanks += missing;
      blanks += kGap;
    }
    out += '\n';
  }

  void print_below(std::span<const Cell> row) {
    for (size_t i = 0; i < row.size(); ++i) {
      if (!table_.columns[i].below ||
          std::holds_alternative<std::monostate>(row[i])) {
        continue;
      }
      std::string text = cell_text(row[i], style_);
      if (text.empty()) continue;
      if (table_.columns[i].below_if_wide) {
        text = table_.columns[i].title + " " + text;
      }
      const int blanks = widths_.indent() + kBelowIndent;
      for (const std::string& line :
           wrapped_words(text, std::max(kLeastBelow, style_.width - blanks))) {
        out_.buffer() += std::string(static_cast<size_t>(blanks), ' ') +
                         painted(line, Paint::Dim, style_) + "\n";
      }
      out_.drain();
    }
  }

  // Prints a rule over each total, then the totals.
  void print_footer(const Row& footer) {
    line(Paint::Dim, [&](size_t i) {
      std::string rule;
      const bool total = table_.columns[i].align == Align::Right;
      const int width =
          total ? display_width(footer_text(footer[i], style_)) : 0;
      for (int n = 0; n < width; ++n) rule += glyphs(style_).rule;
      return rule;
    });
    line(Paint::Bold, [&](size_t i) { return footer_text(footer[i], style_); });
  }

  const Table& table_;
  const Style& style_;
  const Widths& widths_;
  Output& out_;
  std::vector<Paint> paints_;                    // per cell; empty: the line's
  std::vector<std::vector<std::string>> cells_;  // per cell of a row, in lines
};

}  // namespace

bool print_table(const Table& table, const Style& style, bool apart,
                 Output& out) {
  const auto print = [&](const Table& shown, const Widths& widths) {
    if (!widths.has_rows()) return false;
    if (apart) out.buffer() += '\n';
    Printer(shown, style, widths, out).print();
    return true;
  };
  const Widths widths(table, style);
  if (!widths.is_wide() ||
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
