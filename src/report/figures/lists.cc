// SPDX-License-Identifier: Apache-2.0
// Figures that are text in every format: the steps of a schedule and the
// changes of a set of rules.
#include <algorithm>

#include "base/checked.h"
#include "base/text.h"
#include "report/figures/figures.h"
#include "report/style.h"
#include "report/table_text.h"

namespace shardplan {
namespace {

constexpr size_t kMaxSteps = 24;
constexpr size_t kMaxLines = 8;  // of one cell
constexpr int kGap = 2;          // between columns

using ChartCell = std::vector<std::string>;  // one string per line

void shorten(ChartCell& cell) {
  if (cell.size() <= kMaxLines) return;
  const size_t more = cell.size() - kMaxLines + 1;
  cell.resize(kMaxLines - 1);
  cell.push_back("and " + std::to_string(more) + " more");
}

class Chart {
 public:
  Chart(const StepChart& chart, const Style& style)
      : chart_(chart), style_(style), expand_(style.expand) {
    const size_t count = chart.steps.size();
    const size_t lead = expand_ || count <= kMaxSteps ? count : kMaxSteps - 2;
    for (size_t rank = 0; rank < chart.ranks; ++rank) {
      widths_.push_back(display_width(title_of(rank)));
    }
    for (size_t step = 0; step < count; ++step) {
      if (step >= lead && step + 1 < count) continue;
      steps_.push_back(step);
      auto& row = rows_.emplace_back();
      for (size_t rank = 0; rank < widths_.size(); ++rank) {
        row.push_back(chart.steps[step][rank]);
        if (!expand_) shorten(row.back());
        for (std::string& line : row.back()) {
          line = shown(line, style);
          widths_[rank] = std::max(widths_[rank], display_width(line));
        }
      }
    }
  }

  std::vector<std::string> lines() && {
    for (size_t first = 0; first < widths_.size();) {
      const size_t end = std::min(widths_.size(), first + fitting(first));
      if (first > 0) lines_.emplace_back();
      block(first, end);
      first = end;
      if (!expand_) {
        note_left_out(widths_.size() - end);
        break;
      }
    }
    return std::move(lines_);
  }

 private:
  static std::string title_of(size_t rank) {
    return "rank " + std::to_string(rank);
  }

  // Returns how many ranks, counted from `first`, fit side by side; at least
  // one.
  size_t fitting(size_t first) const {
    int room = style_.width - display_width("step");
    size_t count = 0;
    while (first + count < widths_.size()) {
      room -= kGap + widths_[first + count];
      if (room < 0 && count > 0) break;
      ++count;
    }
    return count;
  }

  void line(const std::string& label, const std::vector<std::string>& texts,
            size_t first) {
    std::string text = pad(label, display_width("step"), true);
    for (size_t i = 0; i < texts.size(); ++i) {
      text += std::string(kGap, ' ') + pad(texts[i], widths_[first + i]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    lines_.push_back(std::move(text));
  }

  void block(size_t first, size_t end) {
    std::vector<std::string> titles;
    for (size_t rank = first; rank < end; ++rank) {
      titles.push_back(title_of(rank));
    }
    line("step", titles, first);
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (i > 0 && steps_[i] > steps_[i - 1] + 1) line("..", {}, first);
      size_t height = 1;
      for (size_t rank = first; rank < end; ++rank) {
        height = std::max(height, rows_[i][rank].size());
      }
      for (size_t at = 0; at < height; ++at) {
        std::vector<std::string> texts;
        for (size_t rank = first; rank < end; ++rank) {
          const ChartCell& cell = rows_[i][rank];
          texts.push_back(at < cell.size() ? cell[at] : "");
        }
        line(at == 0 ? std::to_string(steps_[i] + 1) : "", texts, first);
      }
    }
  }

  void note_left_out(size_t ranks) {
    const size_t steps = chart_.steps.size() - steps_.size();
    std::vector<std::string> parts;
    if (ranks > 0) parts.push_back(plural(static_cast<int64_t>(ranks), "rank"));
    if (steps > 0) parts.push_back(plural(static_cast<int64_t>(steps), "step"));
    if (parts.empty()) return;
    lines_.push_back(joined(parts, " and ") + " not shown (--expand)");
  }

  const StepChart& chart_;
  const Style& style_;
  bool expand_;
  std::vector<size_t> steps_;                 // shown
  std::vector<std::vector<ChartCell>> rows_;  // [shown step][rank]
  std::vector<int> widths_;                   // per rank
  std::vector<std::string> lines_;
};

constexpr int kFoldedIndent = 4;

void add_wrapped(const std::string& text, int width,
                 std::vector<std::string>& lines) {
  if (text.empty()) return;
  const std::string indent(kFoldedIndent, ' ');
  for (const std::string& line : wrapped_words(text, width - kFoldedIndent)) {
    lines.push_back(indent + line);
  }
}

}  // namespace

std::vector<std::string> lines_of(const StepChart& chart, const Style& style) {
  return Chart(chart, style).lines();
}

std::vector<std::string> lines_of(const ChangeList& list, const Style& style) {
  const std::vector<ChangeText>& texts = list.changes;
  const int width = style.width;
  int what = 0;
  int places = 0;
  int detail = 0;
  for (const ChangeText& text : texts) {
    what = std::max(what, display_width(text.what));
    places = std::max(places, display_width(text.places));
    detail = std::max(detail, display_width(text.detail));
  }
  std::vector<std::string> lines;
  const bool fit = what + places + detail + 2 * kGap <= width;
  for (const ChangeText& text : texts) {
    if (fit) {
      std::string line = pad(text.what, what + kGap);
      line += text.detail.empty()
                  ? text.places
                  : pad(text.places, places + kGap) + text.detail;
      lines.push_back(line.substr(0, line.find_last_not_of(' ') + 1));
      continue;
    }
    const bool has_place = !text.places.empty();
    const std::string gap(kGap, ' ');
    std::string whole = text.what;
    if (has_place) whole += gap + text.places;
    if (!text.detail.empty()) whole += gap + text.detail;
    if (display_width(whole) <= width) {
      lines.push_back(whole);
      continue;
    }
    const bool beside =
        display_width(text.what) + kGap + display_width(text.places) <= width;
    lines.push_back(text.what);
    if (has_place && beside) {
      lines.back() += gap + text.places;
    } else if (has_place) {
      add_wrapped(text.places, width, lines);
    }
    add_wrapped(text.detail, width, lines);
  }
  return lines;
}

}  // namespace shardplan
