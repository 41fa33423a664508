// SPDX-License-Identifier: Apache-2.0
#include "cli/schedule_chart.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/text.h"
#include "report/shard_grid.h"

namespace shardplan::cli {
namespace {

constexpr size_t kMostSteps = 24;
constexpr size_t kMostLines = 8;  // of one cell
constexpr int kListWidth = 14;    // of chunks, and of targets
constexpr int kGap = 2;           // between columns

using Numbers = std::vector<int64_t>;
using Cell = std::vector<std::string>;  // one line for each

// Chunks that go the same way are one line, as are targets of the same chunks.
Cell cell_of(const Step& step, int rank, const Style& style) {
  std::map<std::pair<int, bool>, Numbers> chunks_to;
  for (const Transfer& t : step) {
    if (t.source != rank) continue;
    Numbers& chunks = chunks_to[{t.target, t.reduce}];
    for (int i = 0; i < t.chunk_count; ++i) chunks.push_back(t.first_chunk + i);
  }
  std::map<std::pair<Numbers, bool>, Numbers> targets_of;
  for (auto& [target, chunks] : chunks_to) {
    std::sort(chunks.begin(), chunks.end());
    targets_of[{chunks, target.second}].push_back(target.first);
  }
  Cell cell;
  for (const auto& [sent, targets] : targets_of) {
    cell.push_back(device_list_text(sent.first, kListWidth) +
                   (style.unicode ? " → " : " -> ") + (sent.second ? "+" : "") +
                   device_list_text(targets, kListWidth));
  }
  return cell;
}

void shorten(Cell& cell) {
  if (cell.size() <= kMostLines) return;
  const size_t more = cell.size() - kMostLines + 1;
  cell.resize(kMostLines - 1);
  cell.push_back("and " + std::to_string(more) + " more");
}

class Chart {
 public:
  Chart(const Schedule& schedule, const Style& style, bool expand)
      : schedule_(schedule), style_(style), expand_(expand) {
    choose_steps();
    for (const size_t step : steps_) {
      auto& row = rows_.emplace_back();
      for (int rank = 0; rank < schedule.ranks; ++rank) {
        row.push_back(cell_of(schedule.steps[step], rank, style));
        if (!expand) shorten(row.back());
      }
    }
    choose_widths();
  }

  std::vector<std::string> lines() && {
    const auto ranks = static_cast<size_t>(schedule_.ranks);
    for (size_t first = 0; first < ranks;) {
      const size_t end = std::min(ranks, first + fitting(first));
      if (first > 0) lines_.emplace_back();
      block(first, end);
      first = end;
      if (expand_) continue;
      note_left_out(ranks - end);
      break;
    }
    return std::move(lines_);
  }

 private:
  void choose_steps() {
    const size_t count = schedule_.steps.size();
    const size_t lead = expand_ || count <= kMostSteps ? count : kMostSteps - 2;
    for (size_t step = 0; step < lead; ++step) steps_.push_back(step);
    if (lead < count) steps_.push_back(count - 1);
  }

  void choose_widths() {
    for (int rank = 0; rank < schedule_.ranks; ++rank) {
      int width = display_width(title_of(static_cast<size_t>(rank)));
      for (const auto& row : rows_) {
        for (const std::string& line : row[static_cast<size_t>(rank)]) {
          width = std::max(width, display_width(line));
        }
      }
      widths_.push_back(width);
    }
  }

  static std::string title_of(size_t rank) {
    return "rank " + std::to_string(rank);
  }

  // How many ranks from `first` on stand side by side; at least one.
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
          const Cell& cell = rows_[i][rank];
          texts.push_back(at < cell.size() ? cell[at] : "");
        }
        line(at == 0 ? std::to_string(steps_[i] + 1) : "", texts, first);
      }
    }
  }

  void note_left_out(size_t ranks) {
    const size_t steps = schedule_.steps.size() - steps_.size();
    std::string text;
    if (ranks > 0) text += plural(static_cast<int64_t>(ranks), "rank");
    if (ranks > 0 && steps > 0) text += " and ";
    if (steps > 0) text += plural(static_cast<int64_t>(steps), "step");
    if (!text.empty()) lines_.push_back(text + " not shown (--expand)");
  }

  const Schedule& schedule_;
  const Style& style_;
  bool expand_;
  std::vector<size_t> steps_;            // shown
  std::vector<std::vector<Cell>> rows_;  // [shown step][rank]
  std::vector<int> widths_;              // per rank
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> draw_schedule(const Schedule& schedule,
                                       const Style& style, bool expand) {
  return Chart(schedule, style, expand).lines();
}

}  // namespace shardplan::cli
