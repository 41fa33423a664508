// SPDX-License-Identifier: Apache-2.0
// SVG 1.1 (W3C, 2011) with basic shapes and text only. Series differ in colour
// and dashes; the colours are those of Okabe and Ito (2008), which people with
// colour blindness can also distinguish.
#include "report/svg_plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <optional>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"

namespace shardplan {
namespace {

// Sizes in units of the view box, about a pixel each.
constexpr double kLeft = 76;
constexpr double kTop = 62;
constexpr double kPlotWidth = 560;
constexpr double kPlotHeight = 330;
constexpr double kRightEdge = kLeft + kPlotWidth;
constexpr double kLowerEdge = kTop + kPlotHeight;
constexpr double kBottom = 64;      // below the plot: labels, title of the axis
constexpr double kLine = 17;        // from one line of text to the next
constexpr double kCharacter = 6.8;  // average width, for font size 12
constexpr int kLongestName = 36;
constexpr int kLongestLabel = 18;
constexpr double kWorthMarkers = 11;  // points closer than this have no markers

constexpr std::array<const char*, 6> kColours = {
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8c6a00", "#333333"};
constexpr std::array<const char*, 3> kDashes = {"", "7 4", "2 3"};

std::string escaped(std::string_view text) { return xml_text(printable(text)); }

double width_of(std::string_view text) {
  return kCharacter * display_width(text);
}

bool is_shown(double number) { return number > 0 && std::isfinite(number); }

// The range of the y axis and its ticks: powers of ten, or 1, 2 and 5 times
// powers of ten.
struct Scale {
  double low = 0;  // log10
  double high = 1;
  std::vector<double> ticks;

  double y_of(double number) const {
    const double fraction = (std::log10(number) - low) / (high - low);
    return kTop + kPlotHeight * (1 - fraction);
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

Scale scale_of(const Plot& plot) {
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

class Drawing {
 public:
  explicit Drawing(const Plot& plot) : plot_(plot), scale_(scale_of(plot)) {
    double names_width = 0;
    for (const PlotSeries& series : plot.series) {
      SHARDPLAN_CHECK(series.points.size() == plot.x_labels.size());
      names_.push_back(
          elide_middle(printable(series.name), kLongestName, true));
      names_width = std::max(names_width, width_of(names_.back()));
    }
    const double names = kLine * static_cast<double>(names_.size());
    height_ = std::max(kLowerEdge, kTop + names) + kBottom;
    width_ = kRightEdge + 44 + names_width + 16;
  }

  std::string text() {
    open();
    draw_axes();
    for (size_t s = 0; s < plot_.series.size(); ++s) draw_series(s);
    draw_names();
    if (borders_) {
      put_text(kLeft, height_ - 8, "start", 11,
               "triangles at the border: 0 below, infinite above");
    }
    out_ += "</svg>\n";
    return std::move(out_);
  }

 private:
  template <typename... Values>
  void put(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(out_), format,
                   std::forward<Values>(values)...);
  }

  // `shown` is printable; XML's special characters are escaped here.
  void put_text(double x, double y, const char* anchor, int size,
                std::string_view shown, const char* more = "") {
    put("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" "
        "font-size=\"{}\"{}>{}</text>\n",
        x, y, anchor, size, more, escaped(shown));
  }

  void open() {
    put("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" "
        "height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" role=\"img\" "
        "font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, "
        "sans-serif\" fill=\"#222222\">\n<title>{2}</title>\n<rect "
        "width=\"100%\" height=\"100%\" rx=\"6\" fill=\"#fbfbf9\"/>\n",
        std::ceil(width_), std::ceil(height_), escaped(plot_.title));
    put_text(kLeft, 26, "start", 15, plot_.title, " font-weight=\"600\"");
    if (!plot_.subtitle.empty()) {
      put_text(kLeft, 46, "start", 12, plot_.subtitle);
    }
  }

  // Labels are centred in their places.
  double x_of(size_t place) const {
    const auto count = static_cast<double>(plot_.x_labels.size());
    return kLeft + kPlotWidth * (static_cast<double>(place) + 0.5) / count;
  }

  void draw_axes() {
    out_ += "<g stroke=\"#d9d9d4\">\n";
    for (const double tick : scale_.ticks) {
      put("<path d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n", kLeft, scale_.y_of(tick),
          kRightEdge);
    }
    out_ += "</g>\n";
    for (const double tick : scale_.ticks) {
      put_text(kLeft - 8, scale_.y_of(tick) + 4, "end", 12, tick_text(tick));
    }
    put("<path d=\"M{0:.1f} {1:.1f}V{2:.1f}H{3:.1f}\" fill=\"none\" "
        "stroke=\"#555555\"/>\n",
        kLeft, kTop, kLowerEdge, kRightEdge);
    draw_labels();
    put_text(kLeft + kPlotWidth / 2, kLowerEdge + 42, "middle", 12,
             plot_.x_title);
    const double middle = kTop + kPlotHeight / 2;
    put_text(
        18, middle, "middle", 12, plot_.y_title + " (log scale)",
        fmt::format(" transform=\"rotate(-90 18 {:.1f})\"", middle).c_str());
  }

  static std::string tick_text(double tick) {
    const double power = std::floor(std::log10(tick * 1.001));
    if (power >= -2 && power <= 3) return fmt::format("{:g}", tick);
    return fmt::format("{:.0f}e{:.0f}", tick / std::pow(10, power), power);
  }

  // Draws every first, second, fifth, tenth .. label, so that they fit side by
  // side.
  void draw_labels() {
    std::vector<std::string> labels;
    double widest = 0;
    for (const std::string& label : plot_.x_labels) {
      labels.push_back(elide_middle(printable(label), kLongestLabel, true));
      widest = std::max(widest, width_of(labels.back()));
    }
    const double apart = kPlotWidth / static_cast<double>(labels.size());
    size_t step = 1;
    for (int i = 1; static_cast<double>(step) * apart < widest + 8; ++i) {
      step = static_cast<size_t>(round_number(i));
    }
    for (size_t place = 0; place < labels.size(); place += step) {
      const double x = x_of(place);
      put("<path d=\"M{:.1f} {:.1f}v5\" stroke=\"#555555\"/>\n", x, kLowerEdge);
      put_text(x, kLowerEdge + 20, "middle", 12, labels[place]);
    }
  }

  // Returns the position of a point; empty for a gap.
  std::optional<double> y_of(double number) const {
    if (std::isnan(number) || number < 0) return std::nullopt;
    if (number == 0) return kLowerEdge;
    return std::clamp(scale_.y_of(std::min(number, 1e300)), kTop, kLowerEdge);
  }

  std::string look_of(size_t series) const {
    const std::string dashes =
        kDashes[series / kColours.size() % kDashes.size()];
    return fmt::format(
        "stroke=\"{}\"{}", kColours[series % kColours.size()],
        dashes.empty() ? "" : fmt::format(" stroke-dasharray=\"{}\"", dashes));
  }

  void draw_series(size_t s) {
    const std::vector<double>& points = plot_.series[s].points;
    const bool marks =
        kPlotWidth >= kWorthMarkers * static_cast<double>(points.size());
    std::string path;
    std::string markers;
    for (size_t i = 0; i < points.size(); ++i) {
      const double x = x_of(i);
      const std::optional<double> y = y_of(points[i]);
      if (!y) continue;
      if (!is_shown(points[i])) {
        borders_ = true;
        // The triangle points outwards.
        const double tip = points[i] == 0 ? 7 : -7;
        markers += fmt::format("M{:.1f} {:.1f}h8l-4 {:.0f}z", x - 4, *y, tip);
        continue;
      }
      const bool joined = i > 0 && is_shown(points[i - 1]);
      path += fmt::format("{}{:.1f} {:.1f}", joined ? "L" : "M", x, *y);
      const bool alone =
          !joined && (i + 1 == points.size() || !is_shown(points[i + 1]));
      if (marks || alone) {
        markers += fmt::format("M{:.1f} {:.1f}a3 3 0 1 0 6 0a3 3 0 1 0 -6 0z",
                               x - 3, *y);
      }
    }
    if (!path.empty()) {
      put("<path d=\"{}\" fill=\"none\" stroke-width=\"2\" "
          "stroke-linejoin=\"round\" {}/>\n",
          path, look_of(s));
    }
    if (!markers.empty()) {
      put("<path d=\"{}\" fill=\"{}\"/>\n", markers,
          kColours[s % kColours.size()]);
    }
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
    std::ranges::stable_sort(order, {}, [](const Name& name) {
      return name.end.value_or(kLowerEdge + 1);
    });
    double least = kTop;
    for (Name& name : order) {
      name.at = std::max(name.end.value_or(kLowerEdge), least);
      least = name.at + kLine;
    }
    // Names pushed below the plot push the others up.
    double most = std::max(
        kLowerEdge, kTop + kLine * static_cast<double>(order.size() - 1));
    for (size_t i = order.size(); i-- > 0;) {
      order[i].at = std::min(order[i].at, most);
      most = order[i].at - kLine;
    }
    for (const Name& name : order) {
      const double x = kRightEdge + 40;
      if (name.end) {
        put("<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}H{:.1f}\" fill=\"none\" "
            "stroke-opacity=\"0.6\" {}/>\n",
            x_of(plot_.x_labels.size() - 1) + 4, *name.end, kRightEdge + 22,
            name.at, x - 4, look_of(name.series));
      }
      put_text(x, name.at + 4, "start", 12, names_[name.series]);
    }
  }

  const Plot& plot_;
  Scale scale_;
  std::vector<std::string> names_;  // as shown
  double width_ = 0;
  double height_ = 0;
  bool borders_ = false;  // a point is beyond the axis
  std::string out_;
};

}  // namespace

std::string svg_text(const Plot& plot) { return Drawing(plot).text(); }

}  // namespace shardplan
