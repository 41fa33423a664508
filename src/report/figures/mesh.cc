// SPDX-License-Identifier: Apache-2.0
// A mesh: its devices as cells, and what one device sends along each axis.
//
// The last axis is drawn across, the one before it downwards, and so on by
// turns, or the other way round if that fits better; the gaps are wider for
// major axes. The cells that device 0 reaches
// along an axis have the colour of that axis.
#include <algorithm>
#include <array>
#include <optional>

#include "base/checked.h"
#include "base/text.h"
#include "report/figures/figures.h"
#include "report/figures/svg.h"
#include "report/style.h"

namespace shardplan {
namespace {

constexpr double kLargestCell = 26;
constexpr double kSmallestCell = 7;
constexpr double kTallest = 280;  // of all cells
constexpr double kRowStep = 40;   // from one row of the list to the next
constexpr double kUseHeight = 8;

// A row of the list: the traffic along an axis or several.
struct UseRow {
  std::string name;  // "tp=8", "dp=2, fsdp=8"
  std::string link;
  std::string sent;  // "12.4 GiB, 1.20 s (800 ms exposed)"; "" if unknown
  double seconds = 0;
  double exposed = 0;
  std::optional<size_t> colour;
};

std::string name_of(const MeshDiagram::Axis& axis) {
  return printable(axis.name) + "=" + std::to_string(axis.size);
}

UseRow row_of(const MeshDiagram& mesh, const MeshDiagram::Use& use) {
  UseRow row;
  std::vector<std::string> names;
  for (const size_t axis : use.axes) names.push_back(name_of(mesh.axes[axis]));
  row.name = names.empty() ? printable(use.over) : joined(names, ", ");
  row.link = printable(use.link);
  row.sent = bytes_text(use.bytes) + ", " + seconds_text(use.seconds, "µ");
  if (use.exposed < use.seconds) {
    row.sent += " (" + seconds_text(use.exposed, "µ") + " exposed)";
  }
  row.seconds = use.seconds;
  row.exposed = use.exposed;
  if (use.axes.size() == 1) row.colour = use.axes.front();
  return row;
}

// Returns a row for each axis, and for each use of several.
std::vector<UseRow> rows_of(const MeshDiagram& mesh) {
  std::vector<UseRow> rows;
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    const auto use = std::ranges::find(mesh.uses, std::vector<size_t>{i},
                                       &MeshDiagram::Use::axes);
    if (use != mesh.uses.end()) {
      rows.push_back(row_of(mesh, *use));
    } else if (mesh.axes[i].size > 1 || !mesh.is_priced) {
      rows.push_back({name_of(mesh.axes[i]), "", "", 0, 0, i});
      if (mesh.is_priced) rows.back().sent = "nothing sent along it alone";
    }
  }
  for (const MeshDiagram::Use& use : mesh.uses) {
    if (use.axes.size() != 1) rows.push_back(row_of(mesh, use));
  }
  return rows;
}

double most_seconds(const std::vector<UseRow>& rows) {
  double most = 0;
  for (const UseRow& row : rows) most = std::max(most, row.seconds);
  return most > 0 ? most : 1;
}

// The cells of the axes that are larger than 1, from the major one on.
class Cells {
 public:
  Cells(const MeshDiagram& mesh, double width, Svg& svg) : svg_(svg) {
    for (size_t i = 0; i < mesh.axes.size(); ++i) {
      if (mesh.axes[i].size == 1) continue;
      sizes_.push_back(mesh.axes[i].size);
      colours_.push_back(i);
    }
    // Shows as many indices of each axis as fit, and cells as large as fit.
    for (const int64_t most : {64, 32, 16, 8, 4, 3}) {
      most_ = most;
      for (cell_ = kLargestCell; cell_ >= kSmallestCell; cell_ -= 1) {
        for (const bool turned : {false, true}) {
          is_turned_ = turned;
          const auto [x, y] = extent(0);
          if (x <= width && y <= kTallest) return;
        }
      }
    }
    cell_ = kSmallestCell;
  }

  double height() const { return extent(0)[1]; }

  void draw(double x, double y) {
    at_.assign(sizes_.size(), 0);
    draw_from(0, x, y);
  }

 private:
  bool is_across(size_t axis) const {
    return (sizes_.size() - 1 - axis) % 2 == (is_turned_ ? 1U : 0U);
  }
  double gap(size_t axis) const {
    constexpr std::array<double, 3> kGaps = {2, 2, 9};
    return kGaps[std::min<size_t>(sizes_.size() - 1 - axis, 2)];
  }
  // Returns the indices of an axis that are shown; -1 stands for the others.
  std::vector<int64_t> shown(size_t axis) const {
    std::vector<int64_t> indices;
    const int64_t size = sizes_[axis];
    const int64_t lead = size <= most_ ? size : most_ - 2;
    for (int64_t i = 0; i < lead; ++i) indices.push_back(i);
    if (lead < size) {
      indices.push_back(-1);
      indices.push_back(size - 1);
    }
    return indices;
  }
  // Returns width and height of the cells of an axis and those after it.
  std::array<double, 2> extent(size_t axis) const {
    if (axis == sizes_.size()) return {cell_, cell_};
    std::array<double, 2> size = extent(axis + 1);
    const auto count = static_cast<double>(shown(axis).size());
    double& along = size[is_across(axis) ? 0 : 1];
    along = count * along + (count - 1) * gap(axis);
    return size;
  }

  void draw_from(size_t axis, double x, double y) {
    if (axis == sizes_.size()) return draw_cell(x, y);
    const std::array<double, 2> step = extent(axis + 1);
    for (const int64_t index : shown(axis)) {
      if (index < 0) {
        svg_.text(x + step[0] / 2, y + step[1] / 2 + 4, "middle", 11, "…",
                  " " + svg_.fill(Ink::Quiet));
      } else {
        at_[axis] = index;
        draw_from(axis + 1, x, y);
      }
      (is_across(axis) ? x : y) += step[is_across(axis) ? 0 : 1] + gap(axis);
    }
    at_[axis] = 0;
  }

  void draw_cell(double x, double y) {
    int64_t device = 0;
    size_t moved = 0;  // axes along which device 0 is elsewhere
    size_t along = 0;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      device = device * sizes_[i] + at_[i];
      if (at_[i] == 0) continue;
      ++moved;
      along = colours_[i];
    }
    const std::string name = std::to_string(device);
    const std::string paint = moved == 0   ? svg_.fill(Ink::Axis)
                              : moved == 1 ? svg_.fill(along)
                                           : svg_.fill(Ink::Empty);
    const std::string_view opacity = moved == 1 ? " fill-opacity=\"0.55\"" : "";
    svg_.rect(x, y, cell_, cell_, paint + std::string(opacity),
              "device " + name);
    if (moved < 2 || text_width(name, 10) > cell_ - 2) return;
    svg_.text(x + cell_ / 2, y + cell_ / 2 + 3.5, "middle", 10, name);
  }

  Svg& svg_;
  std::vector<int64_t> sizes_;
  std::vector<size_t> colours_;  // of each axis
  std::vector<int64_t> at_;      // indices of the cell
  int64_t most_ = 0;
  bool is_turned_ = false;
  double cell_ = kLargestCell;
};

}  // namespace

std::vector<std::string> lines_of(const MeshDiagram& mesh, const Style& style) {
  const std::vector<UseRow> rows = rows_of(mesh);
  int name_width = 0;
  int link_width = 0;
  int sent_width = 0;
  for (const UseRow& row : rows) {
    name_width = std::max(name_width, display_width(row.name));
    link_width = std::max(link_width, display_width(row.link));
    sent_width = std::max(sent_width, display_width(row.sent));
  }
  const int room = style.width - name_width - link_width - sent_width - 6;
  std::vector<std::string> lines;
  for (const UseRow& row : rows) {
    std::string line = pad(row.name, name_width);
    if (link_width > 0) line += "  " + pad(row.link, link_width);
    if (sent_width > 0) line += "  " + pad(row.sent, sent_width);
    if (room > 8 && row.seconds > 0) {
      line += "  " + bar_text(row.seconds / most_seconds(rows), room,
                              glyphs(style).block);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string svg_of(const MeshDiagram& mesh, const SvgPlace& place) {
  Svg svg(place);
  const double margin = svg.margin();
  const double width = svg.width();
  double y = svg.head(4);
  Cells cells(mesh, width, svg);
  cells.draw(margin, y);
  y += cells.height() + 12;
  svg.text(margin, y + 10, "start", 11,
           "dark: device 0; colours: its peers along an axis",
           " " + svg.fill(Ink::Quiet));
  y += 26;
  const std::vector<UseRow> rows = rows_of(mesh);
  const double scale = width / most_seconds(rows);
  std::vector<std::string> described;
  for (const UseRow& row : rows) {
    std::string name = row.name + (row.link.empty() ? "" : "  " + row.link);
    described.push_back(name + (row.sent.empty() ? "" : ": " + row.sent));
    const std::string paint =
        row.colour ? svg.fill(*row.colour) : svg.fill(Ink::Axis);
    svg.rect(margin, y + 1, 12, 12, paint, "");
    const bool fits =
        18 + text_width(name) + 12 + text_width(row.sent) <= width;
    svg.text(margin + 18, y + 11, "start", 12, fitted(name, width - 18),
             " font-weight=\"600\"");
    if (!row.sent.empty()) {
      if (!fits) y += 17;
      svg.text(margin + width, y + 11, "end", 12, fitted(row.sent, width));
    }
    if (row.seconds > 0) {
      svg.rect(margin, y + 18, width, kUseHeight, svg.fill(Ink::Empty), "");
      svg.rect(margin, y + 18, row.seconds * scale, kUseHeight,
               paint + " fill-opacity=\"0.45\"",
               seconds_text(row.seconds, "µ"));
      svg.rect(margin, y + 18, row.exposed * scale, kUseHeight, paint,
               seconds_text(row.exposed, "µ") + " exposed");
    }
    y += row.seconds > 0 ? kRowStep : 22;
  }
  return std::move(svg).finished(place.width, y + (place.is_alone ? 12 : 2),
                                 joined(described, "; "));
}

}  // namespace shardplan
