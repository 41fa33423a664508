// SPDX-License-Identifier: Apache-2.0
#include "report/figures/svg.h"

#include <array>
#include <cmath>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"

namespace shardplan {
namespace {

constexpr std::array<const char*, kColours> kColourValues = {
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8c6a00", "#333333",
    "#56b4e9", "#e69f00", "#44aa99", "#882255", "#999933", "#777777",
    "#332288", "#c7527b", "#88ccee", "#b15928", "#5f7f2e", "#b8a1d9"};
constexpr std::array<const char*, 6> kInkValues = {
    "#222222", "#5a5a5a", "#d9d9d4", "#555555", "#b00020", "#e8e8e2"};
constexpr std::array<const char*, 6> kInkNames = {"text", "quiet", "grid",
                                                  "axis", "limit", "empty"};
constexpr double kSwatch = 10;

std::string escaped(std::string_view text) { return xml_text(printable(text)); }

}  // namespace

double text_width(std::string_view text, double font_size) {
  return kCharacter * display_width(text) * font_size / 12;
}

std::string fitted(std::string_view text, double width, double font_size) {
  const double columns = width / (kCharacter * font_size / 12);
  return elide_middle(text, std::max(1, static_cast<int>(columns)), true);
}

void Svg::text(double x, double y, const char* anchor, int size,
               std::string_view shown, std::string_view more) {
  put(
      fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" "
                  "font-size=\"{}\"{}>{}</text>\n",
                  x, y, anchor, size, more, escaped(shown)));
}

double Svg::head(double top) {
  if (!is_alone()) return top;
  text(margin(), 28, "start", 15, fitted(place_.title, width(), 15),
       " font-weight=\"600\"");
  return 44;
}

void Svg::rect(double x, double y, double width, double height,
               std::string_view paint, std::string_view tooltip) {
  put(fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" {}",
      x, y, width, height, paint));
  if (tooltip.empty()) {
    body_ += "/>\n";
  } else {
    put(fmt::format("><title>{}</title></rect>\n", escaped(tooltip)));
  }
}

double Svg::legend(double x, double y, double width,
                   const std::vector<size_t>& colours,
                   const std::vector<std::string>& names) {
  double at = x;
  for (const size_t i : colours) {
    const std::string name = fitted(printable(names[i]), width - 2 * kSwatch);
    const double taken = kSwatch + 6 + text_width(name) + 14;
    if (at > x && at + taken > x + width) {
      at = x;
      y += 20;
    }
    rect(at, y - kSwatch + 1, kSwatch, kSwatch, fill(i), "");
    text(at + kSwatch + 6, y, "start", 12, name);
    at += taken;
  }
  return y;
}

std::string Svg::finished(double width, double height,
                          std::string_view description) && {
  if (!is_alone()) {
    return fmt::format(
               "<svg class=\"figure\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
               "viewBox=\"0 0 {0:.0f} {1:.0f}\" role=\"img\" "
               "aria-label=\"{2}\">\n",
               std::ceil(width), std::ceil(height),
               escaped(std::string(place_.title) +
                       (description.empty() ? "" : ": ") +
                       std::string(description))) +
           body_ + "</svg>\n";
  }
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" "
             "height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" role=\"img\" "
             "font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', Helvetica, "
             "Arial, sans-serif\" fill=\"{2}\">\n<title>{3}</title>\n<rect "
             "width=\"100%\" height=\"100%\" rx=\"6\" fill=\"#fbfbf9\"/>\n",
             std::ceil(width), std::ceil(height), kInkValues[0],
             escaped(place_.title)) +
         body_ + "</svg>\n";
}

std::string Svg::paint(std::string_view what, Ink ink) const {
  return is_alone() ? fmt::format("{}=\"{}\"", what, nth(kInkValues, ink))
                    : fmt::format("class=\"{}-{}\"", what, nth(kInkNames, ink));
}

std::string Svg::paint(std::string_view what, size_t colour) const {
  const size_t number = colour % kColours;
  return is_alone() ? fmt::format("{}=\"{}\"", what, kColourValues[number])
                    : fmt::format("class=\"{}-{}\"", what, number);
}

}  // namespace shardplan
