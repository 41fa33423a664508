// SPDX-License-Identifier: Apache-2.0
#include "report/figures/shard_map.h"

#include <algorithm>
#include <climits>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "report/figures/figures.h"

namespace shardplan {
namespace {

constexpr size_t kMaxRows = 16;    // of boxes
constexpr size_t kMaxGrids = 4;    // one below the other
constexpr size_t kLeastShown = 3;  // of columns: first, a gap, last
constexpr std::string_view kCellGap = "..";

// Returns the ids, with runs of three or more consecutive ids joined: "0-3".
std::vector<std::string> runs_of(const std::vector<int64_t>& devices) {
  std::vector<std::string> runs;
  for (size_t i = 0; i < devices.size();) {
    size_t last = i;
    while (last + 1 < devices.size() &&
           devices[last + 1] == devices[last] + 1) {
      ++last;
    }
    if (last < i + 2) last = i;
    runs.push_back(std::to_string(devices[i]) +
                   (last == i ? "" : "-" + std::to_string(devices[last])));
    i = last + 1;
  }
  return runs;
}

// Returns "0:8", or "0:8 (+2)" with padding.
std::string slice_text(const DeviceSlices& map, size_t dim, size_t index) {
  const Slice& slice = map.slices[dim][index];
  const int64_t padding = map.padding[dim][index];
  return std::to_string(slice.begin) + ":" + std::to_string(slice.end) +
         (padding > 0 ? " (+" + std::to_string(padding) + ")" : "");
}

// Indices in order; empty stands for omitted ones.
using Selection = std::vector<std::optional<size_t>>;

// Selects all indices, or the first ones and the last.
Selection select(size_t count, size_t most) {
  Selection selection;
  const size_t lead = count <= most ? count : most - 2;
  for (size_t i = 0; i < lead; ++i) selection.emplace_back(i);
  if (lead == count) return selection;
  selection.emplace_back();
  selection.emplace_back(count - 1);
  return selection;
}

// Returns how many rows or columns of boxes a drawn dimension has.
size_t boxes_of(const DeviceSlices& map, int dim) {
  return dim < 0 ? 1 : nth(map.slices, dim).size();
}

std::string centred(std::string_view text, int width) {
  const int blanks = std::max(0, width - display_width(text));
  return pad(std::string(to_size(blanks / 2), ' ') + std::string(text), width);
}

// One grid of boxes: its dimensions, indices and labels.
class Grid {
 public:
  Grid(const DeviceSlices& map, DrawnDims dims, std::vector<size_t> leading,
       int width)
      : map_(map), dims_(dims), at_(std::move(leading)) {
    label_width_ = widest(dims.row);
    if (label_width_ > 0) ++label_width_;
    const int room = width - label_width_ - 1;
    const auto columns = static_cast<int>(boxes_of(map_, dims.column));
    int least =
        std::max(widest(dims.column), static_cast<int>(kCellGap.size()));
    int most = least;
    for (size_t row = 0; row < boxes_of(map_, dims.row); ++row) {
      for (size_t column = 0; column < boxes_of(map_, dims.column); ++column) {
        const std::vector<int64_t>& who = devices(row, column);
        least = std::max(least, display_width(device_list_text(who, 0)));
        most = std::max(most, display_width(device_list_text(who, INT_MAX)));
      }
    }
    // A box needs its text, a blank on both sides and a line.
    text_width_ = std::clamp(room / columns - 3, least, std::max(least, most));
    fitting_ = to_size(std::max(1, room / (text_width_ + 3)));
  }

  // Returns how many columns fit side by side.
  size_t fitting() const { return fitting_; }

  void draw(const Selection& rows, const Selection& columns,
            std::vector<std::string>& lines) const {
    if (dims_.column >= 0) lines.push_back(header(columns));
    lines.push_back(rule(columns.size(), "┌", "┬", "┐"));
    for (size_t i = 0; i < rows.size(); ++i) {
      if (i > 0) lines.push_back(rule(columns.size(), "├", "┼", "┤"));
      lines.push_back(boxes(rows[i], columns));
    }
    lines.push_back(rule(columns.size(), "└", "┴", "┘"));
  }

 private:
  std::string label(int dim, std::optional<size_t> index) const {
    if (dim < 0) return "";
    if (!index) return std::string(kCellGap);
    return slice_text(map_, to_size(dim), *index);
  }

  int widest(int dim) const {
    int width = 0;
    for (size_t i = 0; i < boxes_of(map_, dim); ++i) {
      width = std::max(width, display_width(label(dim, i)));
    }
    return width;
  }

  const std::vector<int64_t>& devices(size_t row, size_t column) const {
    std::vector<size_t> indices = at_;
    if (dims_.row >= 0) nth(indices, dims_.row) = row;
    if (dims_.column >= 0) nth(indices, dims_.column) = column;
    return map_.devices[map_.number(indices)];
  }

  std::string margin() const { return pad("", label_width_); }

  std::string header(const Selection& columns) const {
    std::string line = margin();
    for (const auto& column : columns) {
      line += " " + centred(label(dims_.column, column), text_width_ + 2);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    return line;
  }

  std::string rule(size_t columns, std::string_view left,
                   std::string_view middle, std::string_view right) const {
    std::string line = margin() + std::string(left);
    for (size_t i = 0; i < columns; ++i) {
      if (i > 0) line += middle;
      for (int n = 0; n < text_width_ + 2; ++n) line += "─";
    }
    return line + std::string(right);
  }

  std::string boxes(std::optional<size_t> row, const Selection& columns) const {
    std::string line;
    if (label_width_ > 0) {
      line = pad(label(dims_.row, row), label_width_ - 1, true) + " ";
    }
    for (const auto& column : columns) {
      const std::string text =
          row && column ? device_list_text(devices(*row, *column), text_width_)
                        : std::string(kCellGap);
      line += "│ " + centred(text, text_width_) + " ";
    }
    return line + "│";
  }

  const DeviceSlices& map_;
  DrawnDims dims_;
  std::vector<size_t> at_;  // indices; those of the drawn dimensions vary
  int label_width_ = 0;
  int text_width_ = 0;
  size_t fitting_ = 1;
};

std::string left_out_text(size_t left, size_t of, const char* what) {
  return std::to_string(left) + " of " + std::to_string(of) + " " + what;
}

void draw_grid(const DeviceSlices& map, DrawnDims dims,
               const std::vector<size_t>& leading, int width, bool expand,
               std::vector<std::string>& lines) {
  const size_t rows = boxes_of(map, dims.row);
  const size_t columns = boxes_of(map, dims.column);
  const Grid grid(map, dims, leading, width);
  if (expand) {
    const Selection all = select(rows, rows);
    for (size_t begin = 0; begin < columns; begin += grid.fitting()) {
      Selection band;
      const size_t end = std::min(columns, begin + grid.fitting());
      for (size_t i = begin; i < end; ++i) band.emplace_back(i);
      grid.draw(all, band, lines);
    }
    return;
  }
  const Selection shown_rows = select(rows, kMaxRows);
  const Selection shown_columns =
      select(columns, std::max(kLeastShown, grid.fitting()));
  grid.draw(shown_rows, shown_columns, lines);
  std::vector<std::string> texts;
  const auto count_left_out = [&](const Selection& shown, size_t of,
                                  const char* what) {
    const auto gap = std::ranges::find(shown, Selection::value_type());
    if (gap == shown.end()) return;
    texts.push_back(left_out_text(of + 1 - shown.size(), of, what));
  };
  count_left_out(shown_rows, rows, "rows");
  count_left_out(shown_columns, columns, "columns");
  if (!texts.empty()) {
    lines.push_back(joined(texts, " and ") +
                    " of boxes are left out; `--expand` draws all");
  }
}

// Returns "dimension 0 = 0:8, dimension 2 = 4:8" for the dimensions `dims`.
std::string leading_text(const DeviceSlices& map,
                         const std::vector<size_t>& dims,
                         const std::vector<size_t>& at) {
  return joined_of(dims, ", ", [&](const size_t dim) {
    return "dimension " + std::to_string(dim) + " = " +
           slice_text(map, dim, at[dim]);
  });
}

}  // namespace

std::string device_list_text(const std::vector<int64_t>& devices, int width) {
  const size_t room = to_size(std::max(0, width));
  const std::string rest =
      "," + std::string(kCellGap) + " (" + std::to_string(devices.size()) + ")";
  std::string all;
  std::string some;  // the longest text that fits with `rest`, or the first run
  for (const std::string& run : runs_of(devices)) {
    all += (all.empty() ? "" : ",") + run;
    if (some.empty() || all.size() + rest.size() <= room) some = all + rest;
  }
  return all.size() <= std::max(room, some.size()) ? all : some;
}

DrawnDims drawn_dims(const DeviceSlices& map) {
  const auto rank = static_cast<int>(map.slices.size());
  if (rank == 0) return {};
  if (rank == 1) return {-1, 0};
  // Chooses the last two sharded dimensions; if there are fewer, the last other
  // ones.
  std::vector<int> chosen;
  for (const bool cut : {true, false}) {
    for (int dim = rank; dim-- > 0;) {
      const bool is_cut = nth(map.slices, dim).size() > 1;
      if (is_cut == cut && chosen.size() < 2) chosen.push_back(dim);
    }
  }
  return {std::min(chosen[0], chosen[1]), std::max(chosen[0], chosen[1])};
}

std::vector<std::string> draw_shards(const DeviceSlices& map, int width,
                                     bool expand) {
  const DrawnDims dims = drawn_dims(map);
  std::vector<size_t> others;  // other sharded dimensions
  size_t grids = 1;
  for (size_t dim = 0; dim < map.slices.size(); ++dim) {
    const auto d = static_cast<int>(dim);
    if (d == dims.row || d == dims.column || map.slices[dim].size() == 1) {
      continue;
    }
    others.push_back(dim);
    grids *= map.slices[dim].size();
  }
  std::vector<std::string> lines;
  std::vector<size_t> at(map.slices.size());
  const size_t drawn = expand ? grids : std::min(grids, kMaxGrids);
  for (size_t i = 0; i < drawn; ++i) {
    if (i > 0) lines.emplace_back();
    if (!others.empty()) lines.push_back(leading_text(map, others, at));
    draw_grid(map, dims, at, width, expand, lines);
    // Advances to the next index; the last dimension varies fastest.
    for (size_t n = others.size(); n-- > 0;) {
      if (++at[others[n]] < map.slices[others[n]].size()) break;
      at[others[n]] = 0;
    }
  }
  if (drawn < grids) {
    lines.emplace_back();
    lines.push_back(left_out_text(grids - drawn, grids, "such grids") +
                    " are left out; `--expand` draws all");
  }
  return lines;
}

std::vector<std::string> lines_of(const ShardMap& map, const Style& style) {
  return draw_shards(*map.slices, style.width, style.expand);
}

}  // namespace shardplan
