// SPDX-License-Identifier: Apache-2.0
// A plot: lines and areas over labelled places. Series differ in colour and
// dashes, and in text in their signs.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "report/figures/figures.h"
#include "report/figures/svg.h"
#include "report/style.h"
#include "report/table_text.h"

namespace shardplan {
namespace {

constexpr double kLine = 17;  // from one line of text to the next
constexpr int kLongestName = 36;
constexpr int kLongestPlace = 18;
constexpr double kWorthMarkers = 11;  // points closer than this have no markers
constexpr std::array<const char*, 3> kDashes = {"", "7 4", "2 3"};
constexpr int kPlotRows = 14;

// The axes, in units of the view box. Names of series are beside the
// plot in a drawing of its own, and below it in a page.
struct Frame {
  double left = 76;
  double top = 62;
  double width = 560;
  double height = 330;
  double bottom = 64;  // below the plot: labels, title of the axis

  double right_edge() const { return left + width; }
  double lower_edge() const { return top + height; }
};
Frame frame_of(const SvgPlace& place) {
  if (place.is_alone) return {};
  return {66, 26, place.width - 66 - 12, place.width < 480 ? 210.0 : 260.0, 54};
}

bool is_shown(double number) { return number > 0 && std::isfinite(number); }

// The range of the y axis and its ticks. A logarithmic one has powers of ten,
// or 1, 2 and 5 times powers of ten.
struct Scale {
  bool is_linear = false;
  double low = 0;  // log10, unless linear
  double high = 1;
  std::vector<double> ticks;

  // Returns 0 at the lower end and 1 at the upper end.
  double fraction_of(double number) const {
    const double at = is_linear ? number : std::log10(number);
    return (at - low) / (high - low);
  }
};

// Returns element `index`, which may be negative, of 1, 2, 5, 10, 20, ... It is
// parsed from text, so that it is the double nearest to the tick's label.
double round_number(int index) {
  static constexpr std::array<int, 3> kDigits = {1, 2, 5};
  const int power = static_cast<int>(std::floor(index / 3.0));
  const int digit = nth(kDigits, index - 3 * power);
  return std::stod(fmt::format("{}e{}", digit, power));
}

// Returns the sums of the first `count` stacked series.
std::vector<double> stacked_up_to(const Plot& plot, size_t count) {
  std::vector<double> sums(plot.x_labels.size());
  for (size_t s = 0; s < count; ++s) {
    for (size_t i = 0; i < sums.size(); ++i) {
      sums[i] += plot.series[s].points[i];
    }
  }
  return sums;
}

// Returns a scale from 0 with a handful of ticks: powers of two for bytes.
Scale linear_scale(const Plot& plot) {
  double greatest = plot.limit ? plot.limit->value : 0;
  for (const double sum : stacked_up_to(plot, plot.stacked)) {
    greatest = std::max(greatest, sum);
  }
  for (size_t s = plot.stacked; s < plot.series.size(); ++s) {
    for (const double number : plot.series[s].points) {
      if (std::isfinite(number)) greatest = std::max(greatest, number);
    }
  }
  if (!(greatest > 0)) greatest = 1;
  greatest = std::clamp(greatest, 1e-300, 1e300);
  constexpr double kMostTicks = 6;
  double step = 0;
  if (plot.unit == AmountUnit::Bytes) {
    step = std::exp2(std::ceil(std::log2(greatest / kMostTicks)));
  } else {
    int index = 3 * static_cast<int>(std::floor(std::log10(greatest))) - 4;
    while (round_number(index) * kMostTicks < greatest) ++index;
    step = round_number(index);
  }
  Scale scale;
  scale.is_linear = true;
  const double count = std::ceil(greatest * 1.02 / step);
  scale.high = count * step;
  for (double i = 0; i <= count; ++i) scale.ticks.push_back(i * step);
  return scale;
}

Scale scale_of(const Plot& plot) {
  if (plot.is_linear) return linear_scale(plot);
  double least = 0;
  double greatest = 0;
  for (const PlotSeries& series : plot.series) {
    for (const double number : series.points) {
      if (!is_shown(number)) continue;
      least = least == 0 ? number : std::min(least, number);
      greatest = std::max(greatest, number);
    }
  }
  if (least == 0) least = greatest = 1;
  // Ticks beyond these limits would not be doubles, or not be distinct.
  least = std::clamp(least, 1e-300, 1e300);
  greatest = std::clamp(greatest, least, 1e300);
  int first = 3 * static_cast<int>(std::floor(std::log10(least))) - 1;
  while (round_number(first + 1) < least) ++first;
  int last = first + 1;
  while (round_number(last) <= greatest) ++last;
  int step = 1;
  if (last - first > 6) {
    // Powers of ten only.
    step = 3;
    first = 3 * static_cast<int>(std::floor(first / 3.0));
    last = 3 * static_cast<int>(std::ceil(last / 3.0));
    while ((last - first) / step > 10) step += 3;
  }
  Scale scale;
  scale.low = std::log10(round_number(first));
  scale.high = std::log10(round_number(last));
  for (int at = first; at <= last; at += step) {
    scale.ticks.push_back(round_number(at));
  }
  return scale;
}

std::string tick_text(const Plot& plot, double tick) {
  if (plot.unit != AmountUnit::Number) return amount_text(tick, plot.unit);
  const double power = std::floor(std::log10(tick * 1.001));
  if (tick == 0 || (power >= -2 && power <= 3))
    return fmt::format("{:g}", tick);
  return fmt::format("{:.0f}e{:.0f}", tick / std::pow(10, power), power);
}

bool is_used_area(const Plot& plot, size_t series) {
  return std::ranges::any_of(plot.series[series].points,
                             [](double number) { return number > 0; });
}

class PlotDrawing {
 public:
  PlotDrawing(const Plot& plot, const SvgPlace& place)
      : plot_(plot),
        frame_(frame_of(place)),
        scale_(scale_of(plot)),
        svg_(place),
        whole_width_(place.width) {
    double names_width = 0;
    for (const PlotSeries& series : plot.series) {
      SHARDPLAN_CHECK(series.points.size() == plot.x_labels.size());
      names_.push_back(
          elide_middle(printable(series.name), kLongestName, true));
      names_width = std::max(names_width, text_width(names_.back()));
    }
    if (!svg_.is_alone()) return;
    whole_width_ = frame_.right_edge() + 44 + names_width + 16;
  }

  std::string text() && {
    if (svg_.is_alone()) draw_title();
    draw_axes();
    for (size_t s = plot_.stacked; s-- > 0;) draw_area(s);
    if (plot_.stacked > 0) draw_frame();
    for (size_t s = plot_.stacked; s < plot_.series.size(); ++s) {
      draw_series(s);
    }
    if (plot_.limit) draw_limit();
    double height = frame_.lower_edge() + frame_.bottom;
    if (svg_.is_alone() && plot_.stacked == 0) {
      const double names = kLine * static_cast<double>(names_.size());
      height =
          std::max(frame_.lower_edge(), frame_.top + names) + frame_.bottom;
      draw_names();
    } else {
      height = draw_legend(height);
    }
    if (borders_) {
      svg_.text(frame_.left, height - 8, "start", 11,
                "triangles at the border: 0 below, infinite above");
    }
    return std::move(svg_).finished(whole_width_, height, described());
  }

 private:
  double y_at(double number) const {
    return frame_.top + frame_.height * (1 - scale_.fraction_of(number));
  }

  void draw_title() {
    svg_.text(frame_.left, 26, "start", 15, plot_.title,
              " font-weight=\"600\"");
    if (!plot_.subtitle.empty()) {
      svg_.text(frame_.left, 46, "start", 12, plot_.subtitle);
    }
  }

  // Labels are centred in their places.
  double x_of(size_t place) const {
    const auto count = static_cast<double>(plot_.x_labels.size());
    return frame_.left +
           frame_.width * (static_cast<double>(place) + 0.5) / count;
  }

  void draw_axes() {
    svg_.put(fmt::format("<g {}>\n", svg_.stroke(Ink::Grid)));
    for (const double tick : scale_.ticks) {
      svg_.put(fmt::format("<path d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n", frame_.left,
                           y_at(tick), frame_.right_edge()));
    }
    svg_.put("</g>\n");
    for (const double tick : scale_.ticks) {
      svg_.text(frame_.left - 8, y_at(tick) + 4, "end", 12,
                tick_text(plot_, tick));
    }
    draw_frame();
    draw_labels();
    svg_.text(frame_.left + frame_.width / 2, frame_.lower_edge() + 42,
              "middle", 12, plot_.x_title);
    std::string title = plot_.y_title;
    if (!plot_.is_linear) title += " (log scale)";
    if (!svg_.is_alone()) {
      svg_.text(1, 12, "start", 12, title);
      return;
    }
    const double middle = frame_.top + frame_.height / 2;
    svg_.text(18, middle, "middle", 12, title,
              fmt::format(" transform=\"rotate(-90 18 {:.1f})\"", middle));
  }

  void draw_frame() {
    svg_.put(fmt::format(
        "<path d=\"M{0:.1f} {1:.1f}V{2:.1f}H{3:.1f}\" fill=\"none\" "
        "{4}/>\n",
        frame_.left, frame_.top, frame_.lower_edge(), frame_.right_edge(),
        svg_.stroke(Ink::Axis)));
  }

  // Draws every first, second, fifth, tenth .. label, so that they fit side by
  // side.
  void draw_labels() {
    std::vector<std::string> labels;
    double widest = 0;
    for (const std::string& label : plot_.x_labels) {
      labels.push_back(elide_middle(printable(label), kLongestPlace, true));
      widest = std::max(widest, text_width(labels.back()));
    }
    const double apart = frame_.width / static_cast<double>(labels.size());
    size_t step = 1;
    for (int i = 1; static_cast<double>(step) * apart < widest + 8; ++i) {
      step = static_cast<size_t>(round_number(i));
    }
    for (size_t place = 0; place < labels.size(); place += step) {
      const double x = x_of(place);
      svg_.put(fmt::format("<path d=\"M{:.1f} {:.1f}v5\" {}/>\n", x,
                           frame_.lower_edge(), svg_.stroke(Ink::Axis)));
      svg_.text(x, frame_.lower_edge() + 20, "middle", 12, labels[place]);
    }
  }

  // Returns the position of a point; empty for a gap.
  std::optional<double> y_of(double number) const {
    if (std::isnan(number) || number < 0) return std::nullopt;
    if (number == 0) return frame_.lower_edge();
    return std::clamp(y_at(std::min(number, 1e300)), frame_.top,
                      frame_.lower_edge());
  }

  std::string look_of(size_t series) const {
    const size_t line = series - plot_.stacked;
    std::string dashes = kDashes[line / kLineColours % kDashes.size()];
    const auto [before, all] = twins_of(series);
    std::string offset;
    if (all > 1) {
      // Lines on top of one another share the dashes between them.
      dashes = fmt::format("8 {}", 8 * (all - 1));
      offset = fmt::format(" stroke-dashoffset=\"-{}\"", 8 * before);
    }
    return (is_over_areas(series) ? svg_.stroke(Ink::Text)
                                  : svg_.stroke(colour_of(series))) +
           (dashes.empty() ? ""
                           : " stroke-dasharray=\"" + dashes + "\"" + offset);
  }
  // Returns how many lines before this one hide it or are hidden by it, and how
  // many do in all, with itself.
  std::pair<size_t, size_t> twins_of(size_t series) const {
    constexpr double kNear = 1.5;  // less than the width of a line
    size_t before = 0;
    size_t all = 0;
    for (size_t i = plot_.stacked; i < plot_.series.size(); ++i) {
      const bool is_near = std::ranges::equal(
          plot_.series[i].points, plot_.series[series].points,
          [&](double a, double b) {
            const std::optional<double> x = y_of(a);
            const std::optional<double> y = y_of(b);
            return x && y ? std::abs(*x - *y) < kNear : x == y;
          });
      if (!is_near) continue;
      if (i < series) ++before;
      ++all;
    }
    return {before, all};
  }

  std::string fill_of(size_t series) const {
    return is_over_areas(series) ? svg_.fill(Ink::Text)
                                 : svg_.fill(colour_of(series));
  }
  bool is_over_areas(size_t series) const {
    return plot_.stacked > 0 && series >= plot_.stacked;
  }
  size_t colour_of(size_t series) const {
    return plot_.stacked > 0 ? series : series % kLineColours;
  }

  void draw_area(size_t s) {
    const std::vector<double> sums = stacked_up_to(plot_, s + 1);
    // Areas reach both ends of the axis, also of a single place.
    std::string path =
        fmt::format("M{:.1f} {:.1f}", frame_.left, frame_.lower_edge());
    for (size_t i = 0; i < sums.size(); ++i) {
      const double y = *y_of(sums[i]);
      if (i == 0) path += fmt::format("L{:.1f} {:.1f}", frame_.left, y);
      path += fmt::format("L{:.1f} {:.1f}", x_of(i), y);
      if (i + 1 == sums.size()) {
        path += fmt::format("L{:.1f} {:.1f}", frame_.right_edge(), y);
      }
    }
    svg_.put(fmt::format("<path d=\"{}V{:.1f}z\" {}><title>{}</title></path>\n",
                         path, frame_.lower_edge(), svg_.fill(s),
                         xml_text(printable(plot_.series[s].name))));
  }

  void draw_series(size_t s) {
    const std::vector<double>& points = plot_.series[s].points;
    const bool marks =
        frame_.width >= kWorthMarkers * static_cast<double>(points.size());
    std::string path;
    std::string markers;
    for (size_t i = 0; i < points.size(); ++i) {
      const double x = x_of(i);
      const std::optional<double> y = y_of(points[i]);
      if (!y) continue;
      if (!plot_.is_linear && !is_shown(points[i])) {
        borders_ = true;
        // The triangle points outwards.
        const double tip = points[i] == 0 ? 7 : -7;
        markers += fmt::format("M{:.1f} {:.1f}h8l-4 {:.0f}z", x - 4, *y, tip);
        continue;
      }
      const bool joined = i > 0 && is_on_line(points[i - 1]);
      path += fmt::format("{}{:.1f} {:.1f}", joined ? "L" : "M", x, *y);
      const bool alone =
          !joined && (i + 1 == points.size() || !is_on_line(points[i + 1]));
      if (marks || alone) {
        markers += fmt::format("M{:.1f} {:.1f}a3 3 0 1 0 6 0a3 3 0 1 0 -6 0z",
                               x - 3, *y);
      }
    }
    if (!path.empty()) {
      svg_.put(
          fmt::format("<path d=\"{}\" fill=\"none\" stroke-width=\"2\" "
                      "stroke-linejoin=\"round\" {}/>\n",
                      path, look_of(s)));
    }
    if (!markers.empty()) {
      svg_.put(fmt::format("<path d=\"{}\" {}/>\n", markers, fill_of(s)));
    }
  }
  bool is_on_line(double number) const {
    return plot_.is_linear ? y_of(number).has_value() : is_shown(number);
  }

  void draw_limit() {
    const double y = *y_of(plot_.limit->value);
    svg_.put(fmt::format(
        "<path d=\"M{:.1f} {:.1f}H{:.1f}\" fill=\"none\" "
        "stroke-width=\"2\" stroke-dasharray=\"5 3\" {}/>\n",
        frame_.left, y, frame_.right_edge(), svg_.stroke(Ink::Limit)));
    const std::string label =
        plot_.limit->label + " " + amount_text(plot_.limit->value, plot_.unit);
    svg_.text(frame_.right_edge() - 4, y - 5, "end", 12,
              fitted(printable(label), frame_.width),
              " " + svg_.fill(Ink::Limit));
  }

  // Draws the names below the plot; returns the height of the drawing.
  double draw_legend(double height) {
    std::vector<std::string> names(kColours);
    std::vector<size_t> colours;
    for (size_t s = 0; s < plot_.series.size(); ++s) {
      if (is_over_areas(s) || (s < plot_.stacked && !is_used_area(plot_, s))) {
        continue;
      }
      const size_t colour = colour_of(s) % kColours;
      std::string& name = names[colour];
      if (name.empty()) colours.push_back(colour);
      name += (name.empty() ? "" : ", ") + names_[s];
    }
    if (plot_.series.size() == 1) return height;
    height = svg_.legend(frame_.left, height + 6, frame_.width, colours, names);
    if (plot_.stacked > 0 && plot_.stacked < plot_.series.size()) {
      height += 20;
      svg_.text(frame_.left, height, "start", 12,
                "line: " + names_[plot_.stacked]);
    }
    return height + (borders_ ? 28 : 10);
  }

  // Returns the plot's last point in words.
  std::string described() const {
    std::vector<std::string> parts;
    for (const PlotSeries& series : plot_.series) {
      if (series.points.empty()) continue;
      const double most = *std::ranges::max_element(series.points);
      parts.push_back(printable(series.name) + " up to " +
                      amount_text(most, plot_.unit));
    }
    return joined(parts, ", ");
  }

  // Draws the names of the series in the order in which the lines end, from top
  // to bottom, and joins each name to the end of its line.
  void draw_names() {
    struct Name {
      size_t series;
      std::optional<double> end;
      double at = 0;
    };
    std::vector<Name> order;
    for (size_t s = 0; s < plot_.series.size(); ++s) {
      const std::vector<double>& points = plot_.series[s].points;
      order.push_back({s, points.empty() ? std::nullopt : y_of(points.back())});
    }
    const double lower_edge = frame_.lower_edge();
    std::ranges::stable_sort(order, {}, [&](const Name& name) {
      return name.end.value_or(lower_edge + 1);
    });
    double least = frame_.top;
    for (Name& name : order) {
      name.at = std::max(name.end.value_or(lower_edge), least);
      least = name.at + kLine;
    }
    // Names pushed below the plot push the others up.
    double most = std::max(
        lower_edge, frame_.top + kLine * static_cast<double>(order.size() - 1));
    for (size_t i = order.size(); i-- > 0;) {
      order[i].at = std::min(order[i].at, most);
      most = order[i].at - kLine;
    }
    for (const Name& name : order) {
      const double x = frame_.right_edge() + 40;
      if (name.end) {
        svg_.put(fmt::format(
            "<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}H{:.1f}\" "
            "fill=\"none\" stroke-opacity=\"0.6\" {}/>\n",
            x_of(plot_.x_labels.size() - 1) + 4, *name.end,
            frame_.right_edge() + 22, name.at, x - 4, look_of(name.series)));
      }
      svg_.text(x, name.at + 4, "start", 12, names_[name.series]);
    }
  }

  const Plot& plot_;
  Frame frame_;
  Scale scale_;
  Svg svg_;
  double whole_width_;
  std::vector<std::string> names_;  // as shown
  bool borders_ = false;            // a point is beyond the axis
};

// Draws a plot with one sign per point.
class TextPlot {
 public:
  TextPlot(const Plot& plot, const Style& style)
      : plot_(plot), style_(style), scale_(scale_of(plot)) {
    for (const double tick : scale_.ticks) {
      left_ = std::max(left_, display_width(tick_text(plot, tick)));
    }
    columns_ = std::max(10, style.width - left_ - 3);
    name_areas();
    cells_.assign(kPlotRows, std::vector<std::string>(to_size(columns_), " "));
  }

  std::vector<std::string> lines() && {
    const std::string axis(style_.unicode ? "│" : "|");
    fill();
    std::vector<std::string> lines;
    if (!plot_.y_title.empty()) {
      lines.push_back(plot_.y_title + (plot_.is_linear ? "" : " (log scale)"));
    }
    for (int row = kPlotRows; row-- > 0;) {
      std::string label;
      for (const double tick : scale_.ticks) {
        if (row_of(tick) == row) label = tick_text(plot_, tick);
      }
      std::string line = pad(label, left_, true) + " " + axis;
      for (const std::string& cell : nth(cells_, row)) line += cell;
      line.erase(line.find_last_not_of(' ') + 1);
      lines.push_back(std::move(line));
    }
    lines.push_back(pad("", left_ + 2) + labels());
    if (!plot_.x_title.empty()) {
      lines.push_back(pad("", left_ + 2) + plot_.x_title);
    }
    std::vector<std::string> names;
    for (size_t s = 0; s < plot_.series.size(); ++s) {
      if (s < plot_.stacked && !is_used_area(plot_, s)) continue;
      names.push_back(sign_of(s) + " " + printable(plot_.series[s].name));
    }
    if (plot_.limit) {
      names.push_back("- " + printable(plot_.limit->label) + " " +
                      amount_text(plot_.limit->value, plot_.unit));
    }
    if (names.size() < 2) return lines;
    for (std::string& line : wrapped_words(joined(names, ", "), style_.width)) {
      lines.push_back(std::move(line));
    }
    return lines;
  }

 private:
  void name_areas() {
    std::vector<std::string> names;
    for (size_t s = 0; s < plot_.stacked; ++s) {
      if (is_used_area(plot_, s)) names.push_back(plot_.series[s].name);
    }
    const std::string letters = letters_of(names);
    size_t next = 0;
    for (size_t s = 0; s < plot_.stacked; ++s) {
      letters_ += is_used_area(plot_, s) ? letters[next++] : ' ';
    }
  }

  int row_of(double number) const {
    const double fraction =
        number > 0 || plot_.is_linear ? scale_.fraction_of(number) : 0;
    return static_cast<int>(std::clamp(fraction, 0.0, 1.0) * (kPlotRows - 1) +
                            0.5);
  }

  std::string sign_of(size_t s) const {
    if (s < plot_.stacked) return letters_.substr(s, 1);
    constexpr std::array<const char*, 6> kSigns = {"●", "○", "▲",
                                                   "△", "■", "□"};
    constexpr std::string_view kAsciiSigns = "*o^x#+";
    const size_t number = (s - plot_.stacked) % kSigns.size();
    return style_.unicode ? kSigns[number]
                          : std::string(kAsciiSigns.substr(number, 1));
  }

  // Returns the first place of a column: every place has one if there are
  // enough columns.
  size_t place_of_column(int column) const {
    return to_size(int64_t{column} * std::ssize(plot_.x_labels) / columns_);
  }
  // Returns the place that a column shows: its highest, so that no peak is lost
  // where a column has several.
  size_t highest_place(int column) const {
    const auto height = [&](size_t place) {
      double sum = 0;
      double most = 0;
      for (size_t s = 0; s < plot_.series.size(); ++s) {
        const double point = plot_.series[s].points[place];
        if (s < plot_.stacked) sum += point;
        if (point > most) most = point;
      }
      return std::max(sum, most);
    };
    size_t highest = place_of_column(column);
    for (size_t i = highest + 1; i < place_of_column(column + 1); ++i) {
      if (height(i) > height(highest)) highest = i;
    }
    return highest;
  }
  bool starts_place(int column) const {
    return column == 0 ||
           place_of_column(column) != place_of_column(column - 1);
  }

  void fill() {
    if (plot_.x_labels.empty()) return;
    for (int column = 0; column < columns_; ++column) {
      const size_t place = highest_place(column);
      double sum = 0;
      int below = -1;
      for (size_t s = 0; s < plot_.stacked; ++s) {
        sum += plot_.series[s].points[place];
        const int top = row_of(sum);
        for (int row = below + 1; row <= top && sum > 0; ++row) {
          nth(nth(cells_, row), column) = sign_of(s);
        }
        below = std::max(below, sum > 0 ? top : -1);
      }
      if (plot_.limit) {
        nth(nth(cells_, row_of(plot_.limit->value)), column) = "-";
      }
      if (starts_place(column)) mark(place, column);
    }
  }

  // Series that share a cell take turns.
  void mark(size_t place, int column) {
    std::array<std::vector<size_t>, kPlotRows> at;
    for (size_t s = plot_.stacked; s < plot_.series.size(); ++s) {
      const double number = plot_.series[s].points[place];
      if (std::isnan(number) || number < 0) continue;
      nth(at, row_of(std::min(number, 1e300))).push_back(s);
    }
    for (int row = 0; row < kPlotRows; ++row) {
      const std::vector<size_t>& series = nth(at, row);
      if (series.empty()) continue;
      nth(nth(cells_, row), column) = sign_of(series[place % series.size()]);
    }
  }

  // Returns labels below their places, as many as fit.
  std::string labels() const {
    std::string line;
    for (int column = 0; column < columns_; ++column) {
      if (plot_.x_labels.empty() || !starts_place(column)) continue;
      const std::string label =
          elide_middle(printable(plot_.x_labels[place_of_column(column)]),
                       kLongestPlace, style_.unicode);
      const int used = display_width(line);
      if ((used > 0 && column < used + 2) ||
          column + display_width(label) > columns_) {
        continue;
      }
      line = pad(line, column) + label;
    }
    return line;
  }

  const Plot& plot_;
  const Style& style_;
  Scale scale_;
  int left_ = 0;         // width of the ticks
  int columns_ = 0;      // of the plot
  std::string letters_;  // of the areas; blank for empty ones
  std::vector<std::vector<std::string>> cells_;  // [row from below][column]
};

}  // namespace

std::vector<std::string> lines_of(const Plot& plot, const Style& style) {
  return TextPlot(plot, style).lines();
}

std::string svg_of(const Plot& plot, const SvgPlace& place) {
  return PlotDrawing(plot, place).text();
}

}  // namespace shardplan
